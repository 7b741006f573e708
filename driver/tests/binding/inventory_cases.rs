//! The list: which functions it names, and what it says of each.

use std::rc::Rc;

use grampus_driver::binding::{BindingError, Inventory, Namespace, System};
use grampus_test_support::fake_machine::FakeMachine;

use crate::fake_kernel::{Faults, system};

const ADDRESS: &str = "0000:01:00.0";

fn read(machine: &Rc<FakeMachine>) -> Inventory {
    Inventory::read(&system(machine, Faults::default()).0).unwrap()
}

#[test]
fn machine_without_pci_has_an_empty_list() {
    let machine = Rc::new(FakeMachine::new());
    machine.remove("sys/bus");
    let found = read(&machine);
    assert!(found.controllers.is_empty());
    assert_eq!(found.pci_devices, 0);
    assert_eq!(found.searched, machine.path("sys/bus/pci/devices"));
}

#[test]
fn functions_of_other_classes_are_counted_and_not_listed() {
    let machine = Rc::new(FakeMachine::new());
    machine.function("0000:00:02.0", "0x020000", "1");
    machine.function("0000:00:03.0", "0x010601", "2");
    let found = read(&machine);
    assert_eq!((found.controllers.len(), found.pci_devices), (0, 2));
}

#[test]
fn controllers_are_listed_in_the_order_of_their_addresses() {
    let machine = Rc::new(FakeMachine::new());
    machine.vfio_controller("10000:01:00.0", "16");
    machine.controller("0000:c1:00.0", "nvme1", "15");
    machine.controller(ADDRESS, "nvme0", "14");
    let addresses: Vec<String> = read(&machine)
        .controllers
        .iter()
        .map(|c| c.address.to_string())
        .collect();
    assert_eq!(addresses, [ADDRESS, "0000:c1:00.0", "10000:01:00.0"]);
}

#[test]
fn controller_of_the_kernel_has_identity_namespaces_and_group() {
    let machine = Rc::new(FakeMachine::new());
    machine.controller(ADDRESS, "nvme0", "15");
    machine.namespace(ADDRESS, "nvme0", "nvme0n1", "259:0");
    machine.partition("nvme0n1", "nvme0n1p1", "259:1");
    machine.function("0000:01:00.1", "0x060400", "15");
    machine.bind("0000:01:00.1", "pcieport");
    let controller = &read(&machine).controllers[0];
    assert_eq!(controller.describe(), "0000:01:00.0 (nvme0, Example SSD 1TB, S1)");
    assert_eq!(controller.firmware.as_deref(), Some("1.0"));
    assert_eq!(controller.vendor.as_deref(), Some("0x144d"));
    assert_eq!(controller.device.as_deref(), Some("0xa808"));
    let namespace = Namespace {
        name: "nvme0n1".to_owned(),
        size_bytes: Some(1 << 30),
        partitions: vec!["nvme0n1p1".to_owned()],
    };
    assert_eq!(controller.namespaces, [namespace]);
    let group = controller.iommu_group.as_ref().unwrap();
    assert_eq!((group.number.as_str(), group.others.len()), ("15", 1));
    assert_eq!(group.others[0].driver.as_deref(), Some("pcieport"));
}

#[test]
fn namespace_with_several_paths_is_the_block_device_of_its_subsystem() {
    let machine = Rc::new(FakeMachine::new());
    machine.controller(ADDRESS, "nvme3", "15");
    machine.folder("sys/bus/pci/devices/0000:01:00.0/nvme/nvme3/nvme2c3n1");
    machine.disk("nvme2n1", "259:4");
    machine.mount("259:4", "/dev/nvme2n1", "/data");
    let controller = &read(&machine).controllers[0];
    assert_eq!(controller.namespaces[0].name, "nvme2n1");
    assert_eq!(controller.obstacles[0].to_string(), "nvme2n1 is mounted at /data");
}

#[test]
fn controller_of_vfio_is_usable() {
    let machine = Rc::new(FakeMachine::new());
    machine.vfio_controller(ADDRESS, "15");
    let controller = &read(&machine).controllers[0];
    assert!(controller.usable, "{:?}", controller.obstacles);
    assert_eq!(controller.describe(), ADDRESS);
    assert_eq!(controller.driver.as_deref(), Some("vfio-pci"));
}

#[test]
fn list_as_json_has_kind_message_and_advice_of_obstacles() {
    let machine = Rc::new(FakeMachine::new());
    machine.controller(ADDRESS, "nvme0", "15");
    let json = serde_json::to_value(read(&machine)).unwrap();
    let controller = &json["controllers"][0];
    assert_eq!(controller["address"], ADDRESS);
    assert_eq!(controller["usable"], false);
    assert_eq!(controller["obstacles"][0]["kind"], "bound");
    assert_eq!(controller["obstacles"][0]["message"], "bound to nvme");
    assert_eq!(controller["obstacles"][0]["advice"], "grampus nvme bind 0000:01:00.0");
}

#[test]
fn unreadable_mounts_are_an_error_that_names_the_file() {
    let machine = FakeMachine::new();
    machine.remove("proc/self/mountinfo");
    let error = Inventory::read(&System::under(machine.root())).unwrap_err();
    assert!(matches!(error, BindingError::Read { .. }), "{error}");
    assert!(error.to_string().contains("proc/self/mountinfo"), "{error}");
}
