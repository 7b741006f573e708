//! Obstacles: each in a machine that has nothing else in the way of binding, where `bind` must refuse.

use std::io;
use std::rc::Rc;

use grampus_driver::binding::{BindingError, Inventory, bind};
use grampus_test_support::fake_machine::{FakeMachine, device, iommu_group};

use crate::fake_kernel::{Faults, system};

const ADDRESS: &str = "0000:01:00.0";

/// A controller with a namespace, two partitions and the kernel's driver.
fn machine() -> Rc<FakeMachine> {
    let machine = Rc::new(FakeMachine::new());
    machine.controller(ADDRESS, "nvme0", "15");
    machine.namespace(ADDRESS, "nvme0", "nvme0n1", "259:0");
    machine.partition("nvme0n1", "nvme0n1p1", "259:1");
    machine.partition("nvme0n1", "nvme0n1p2", "259:2");
    machine
}

/// The obstacles for which `bind` refuses, after the check that the list has them too and that nothing was written.
fn refusal(machine: &Rc<FakeMachine>, faults: Faults) -> Vec<String> {
    let (system, record) = system(machine, faults);
    let list = Inventory::read(&system).unwrap();
    let listed = &list.controllers[0].obstacles;
    let Err(BindingError::Refused { obstacles, .. }) = bind(&system, ADDRESS.parse().unwrap()) else {
        panic!("not refused: {listed:?}");
    };
    assert!(obstacles.iter().all(|obstacle| listed.contains(obstacle)), "{listed:?}");
    assert!(!list.controllers[0].usable);
    assert_eq!(record.take(), [""; 0]);
    let line = |obstacle: &grampus_driver::binding::Obstacle| format!("{obstacle}: {}", obstacle.advice());
    obstacles.iter().map(line).collect()
}

#[test]
fn idle_controller_has_only_its_driver_in_the_way() {
    let machine = machine();
    let list = Inventory::read(&system(&machine, Faults::default()).0).unwrap();
    let obstacles = &list.controllers[0].obstacles;
    assert_eq!(obstacles.len(), 1);
    assert_eq!(obstacles[0].advice(), "grampus nvme bind 0000:01:00.0");
}

#[test]
fn controller_without_iommu_is_refused() {
    let machine = machine();
    machine.remove(&format!("{}/iommu_group", device(ADDRESS)));
    let refused = refusal(&machine, Faults::default());
    assert_eq!(refused.len(), 1);
    assert!(
        refused[0].starts_with("no IOMMU: ") && refused[0].contains("intel_iommu=on"),
        "{refused:?}"
    );
}

#[test]
fn group_of_vfio_without_iommu_is_refused() {
    let machine = machine();
    machine.file(&format!("{}/name", iommu_group("15")), "vfio-noiommu\n");
    assert!(refusal(&machine, Faults::default())[0].starts_with("no IOMMU: "));
}

#[test]
fn missing_vfio_is_refused() {
    let machine = machine();
    machine.remove("sys/bus/pci/drivers/vfio-pci");
    machine.remove("dev/vfio/vfio");
    assert_eq!(
        refusal(&machine, Faults::default()),
        [
            "the driver vfio-pci is not loaded: modprobe vfio-pci",
            "/dev/vfio/vfio is missing: modprobe vfio; a container needs the node passed in",
        ]
    );
}

#[test]
fn mounted_partition_is_refused() {
    let machine = machine();
    machine.mount("259:2", "/dev/nvme0n1p2", r"/my\040data");
    machine.mount("259:2", "/dev/nvme0n1p2", "/srv");
    assert_eq!(
        refusal(&machine, Faults::default()),
        ["nvme0n1p2 is mounted at /my data (first of 2 mount points): unmount it first"]
    );
}

#[test]
fn mounted_namespace_is_refused() {
    let machine = machine();
    machine.mount("259:0", "/dev/nvme0n1", "/data");
    assert_eq!(
        refusal(&machine, Faults::default()),
        ["nvme0n1 is mounted at /data: unmount it first"]
    );
}

#[test]
fn mount_with_a_number_of_its_own_is_found_by_its_source() {
    let machine = machine();
    machine.mount("0:45", "/dev/nvme0n1p1", "/btrfs");
    machine.link("dev/disk/by-label/second", "dev/nvme0n1p2");
    machine.mount("0:46", "/dev/disk/by-label/second", "/second");
    assert_eq!(
        refusal(&machine, Faults::default()),
        [
            "nvme0n1p1 is mounted at /btrfs: unmount it first",
            "nvme0n1p2 is mounted at /second: unmount it first",
        ]
    );
}

#[test]
fn system_disk_is_refused() {
    let machine = machine();
    machine.mount("259:1", "/dev/nvme0n1p1", "/boot/efi");
    machine.mount("259:2", "/dev/root", "/");
    assert_eq!(
        refusal(&machine, Faults::default()),
        [
            "nvme0n1p1 holds the running system (mounted at /boot/efi): use another controller",
            "nvme0n1p2 holds the running system (mounted at /): use another controller",
        ]
    );
}

#[test]
fn swap_space_is_refused() {
    let machine = machine();
    machine.swap("/dev/nvme0n1p2");
    machine.swap("/swapfile");
    assert_eq!(
        refusal(&machine, Faults::default()),
        ["nvme0n1p2 is swap space in use: swapoff /dev/nvme0n1p2 first"]
    );
}

#[test]
fn root_on_volumes_over_a_raid_is_traced_to_the_controller() {
    let machine = machine();
    machine.disk("md0", "9:0");
    machine.disk("dm-3", "253:3");
    machine.file("sys/block/dm-3/dm/name", "vg-root\n");
    machine.hold("nvme0n1/nvme0n1p2", "md0");
    machine.hold("md0", "dm-3");
    machine.mount("253:3", "/dev/mapper/vg-root", "/");
    assert_eq!(
        refusal(&machine, Faults::default()),
        [
            "nvme0n1p2 is a part of md0: mdadm --stop /dev/md0 first",
            "dm-3 (vg-root) holds the running system (mounted at /): use another controller",
        ]
    );
}

#[test]
fn swap_on_a_mapped_device_is_traced_through_its_link() {
    let machine = machine();
    machine.disk("dm-0", "253:0");
    machine.link("dev/mapper/swap", "dev/dm-0");
    machine.hold("nvme0n1", "dm-0");
    machine.swap("/dev/mapper/swap");
    let refused = refusal(&machine, Faults::default());
    assert!(
        refused[0].starts_with("nvme0n1 is a part of dm-0: close it first"),
        "{refused:?}"
    );
    assert_eq!(refused[1], "dm-0 is swap space in use: swapoff /dev/dm-0 first");
}

#[test]
fn holders_in_a_ring_end_the_search() {
    let machine = machine();
    machine.disk("dm-0", "253:0");
    machine.disk("dm-1", "253:1");
    machine.hold("nvme0n1", "dm-0");
    machine.hold("dm-0", "dm-1");
    machine.hold("dm-1", "dm-0");
    assert_eq!(refusal(&machine, Faults::default()).len(), 1);
}

#[test]
fn user_that_no_table_names_is_refused() {
    let faults = Faults {
        busy: vec!["nvme0n1"],
        ..Faults::default()
    };
    let refused = refusal(&machine(), faults);
    assert_eq!(refused.len(), 1);
    assert!(
        refused[0].starts_with("nvme0n1 is in use: the kernel refuses exclusive access: "),
        "{refused:?}"
    );
}

#[test]
fn namespace_that_cannot_be_checked_is_refused() {
    let faults = Faults {
        open_error: Some(io::ErrorKind::PermissionDenied),
        ..Faults::default()
    };
    assert_eq!(
        refusal(&machine(), faults),
        ["the users of nvme0n1 are unknown: permission denied: run as root"]
    );
    let machine = machine();
    machine.remove("dev/nvme0n1");
    let refused = refusal(&machine, Faults::default());
    assert!(
        refused[0].starts_with("the users of nvme0n1 are unknown: no such file: "),
        "{refused:?}"
    );
}

#[test]
fn group_with_a_device_of_another_driver_is_refused() {
    let machine = machine();
    machine.function("0000:01:00.1", "0x020000", "15");
    machine.bind("0000:01:00.1", "e1000");
    machine.function("0000:01:00.2", "0x020000", "15");
    assert_eq!(
        refusal(&machine, Faults::default()),
        [
            "0000:01:00.1 in the same IOMMU group 15 is bound to e1000: free 0000:01:00.1 from e1000 first, or \
             move the controller to another slot"
        ]
    );
}

#[test]
fn controller_of_a_third_driver_is_refused() {
    let machine = machine();
    machine.bind(ADDRESS, "uio_pci_generic");
    assert_eq!(
        refusal(&machine, Faults::default()),
        ["bound to uio_pci_generic: free it from uio_pci_generic first"]
    );
}

#[test]
fn all_obstacles_are_named_at_once() {
    let machine = machine();
    machine.remove(&format!("{}/iommu_group", device(ADDRESS)));
    machine.mount("259:1", "/dev/nvme0n1p1", "/data");
    machine.swap("/dev/nvme0n1p2");
    assert_eq!(refusal(&machine, Faults::default()).len(), 3);
    let (system, _) = system(&machine, Faults::default());
    let error = bind(&system, ADDRESS.parse().unwrap()).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 4, "{error}");
}
