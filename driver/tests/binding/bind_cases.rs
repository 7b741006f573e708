//! `bind` and `unbind`: the writes, their order, and the way back from a failure at each of them.

use std::io;
use std::rc::Rc;

use grampus_driver::binding::{BindingError, Change, Inventory, Obstacle, bind, unbind};
use grampus_test_support::fake_machine::{FakeMachine, device};

use crate::fake_kernel::{Faults, system};

const ADDRESS: &str = "0000:01:00.0";
const TO_VFIO: [&str; 3] = [
    "sys/bus/pci/devices/0000:01:00.0/driver_override = \"vfio-pci\"",
    "sys/bus/pci/drivers/nvme/unbind = \"0000:01:00.0\"",
    "sys/bus/pci/drivers_probe = \"0000:01:00.0\"",
];
const TO_NVME: [&str; 3] = [
    "sys/bus/pci/devices/0000:01:00.0/driver_override = \"\\n\"",
    "sys/bus/pci/drivers/vfio-pci/unbind = \"0000:01:00.0\"",
    "sys/bus/pci/drivers_probe = \"0000:01:00.0\"",
];

fn kernels_controller() -> Rc<FakeMachine> {
    let machine = Rc::new(FakeMachine::new());
    machine.controller(ADDRESS, "nvme0", "15");
    machine.namespace(ADDRESS, "nvme0", "nvme0n1", "259:0");
    machine
}

fn vfio_controller() -> Rc<FakeMachine> {
    let machine = Rc::new(FakeMachine::new());
    machine.vfio_controller(ADDRESS, "15");
    machine
}

/// The driver and the text of its override.
fn state(machine: &FakeMachine) -> (Option<String>, String) {
    let link = std::fs::read_link(machine.path(&format!("{}/driver", device(ADDRESS)))).ok();
    let driver = link.and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    let wanted = machine.text(&format!("{}/driver_override", device(ADDRESS)));
    (driver, wanted.trim().to_owned())
}

fn bound(driver: &str, wanted: &str) -> (Option<String>, String) {
    (Some(driver.to_owned()), wanted.to_owned())
}

#[test]
fn bind_overrides_unbinds_and_probes() {
    let machine = kernels_controller();
    let (system, record) = system(&machine, Faults::default());
    assert_eq!(bind(&system, ADDRESS.parse().unwrap()).unwrap(), Change::Done);
    assert_eq!(record.take(), TO_VFIO);
    assert_eq!(state(&machine), bound("vfio-pci", "vfio-pci"));
}

#[test]
fn namespaces_are_held_until_vfio_has_the_controller() {
    let machine = kernels_controller();
    machine.namespace(ADDRESS, "nvme0", "nvme0n2", "259:5");
    let (system, record) = system(&machine, Faults::default());
    bind(&system, ADDRESS.parse().unwrap()).unwrap();
    assert_eq!(record.claims(), [2, 2, 2]);
}

#[test]
fn bound_controller_is_left_alone() {
    let (system, record) = system(&vfio_controller(), Faults::default());
    assert_eq!(bind(&system, ADDRESS.parse().unwrap()).unwrap(), Change::Unchanged);
    assert_eq!(record.take(), [""; 0]);
}

#[test]
fn controller_without_a_driver_is_bound_by_a_probe() {
    let machine = vfio_controller();
    machine.remove(&format!("{}/driver", device(ADDRESS)));
    let (system, record) = system(&machine, Faults::default());
    assert_eq!(bind(&system, ADDRESS.parse().unwrap()).unwrap(), Change::Done);
    assert_eq!(record.take(), [TO_VFIO[0], TO_VFIO[2]]);
}

#[test]
fn unbind_clears_the_override_unbinds_and_probes() {
    let machine = vfio_controller();
    let (system, record) = system(&machine, Faults::default());
    assert_eq!(unbind(&system, ADDRESS.parse().unwrap()).unwrap(), Change::Done);
    assert_eq!(record.take(), TO_NVME);
    assert_eq!(state(&machine), bound("nvme", ""));
    assert_eq!(unbind(&system, ADDRESS.parse().unwrap()).unwrap(), Change::Unchanged);
    assert_eq!(record.take(), [""; 0]);
}

#[test]
fn bind_and_unbind_return_to_the_first_state() {
    let machine = kernels_controller();
    let (system, _) = system(&machine, Faults::default());
    bind(&system, ADDRESS.parse().unwrap()).unwrap();
    unbind(&system, ADDRESS.parse().unwrap()).unwrap();
    assert_eq!(state(&machine), bound("nvme", ""));
}

#[test]
fn failed_write_of_bind_restores_the_driver() {
    for failing in 0..3 {
        let machine = kernels_controller();
        let faults = Faults {
            failing_writes: vec![failing],
            ..Faults::default()
        };
        let (system, record) = system(&machine, faults);
        let error = bind(&system, ADDRESS.parse().unwrap()).unwrap_err();
        assert!(matches!(error, BindingError::Restored { .. }), "{error}");
        assert!(error.to_string().contains("cannot write"), "{error}");
        assert_eq!(state(&machine), bound("nvme", ""), "write {failing}");
        // The override goes first: otherwise the probe would offer the controller to vfio-pci again.
        let writes = record.take();
        assert_eq!(writes[failing + 1], TO_NVME[0]);
        let probes = writes[failing + 2..].to_vec();
        assert_eq!(probes, if failing == 2 { &TO_NVME[2..] } else { &[] });
    }
}

#[test]
fn failed_probe_of_vfio_restores_the_driver_and_its_override() {
    let machine = kernels_controller();
    machine.file(&format!("{}/driver_override", device(ADDRESS)), "nvme\n");
    let faults = Faults {
        failing_drivers: vec!["vfio-pci"],
        ..Faults::default()
    };
    let (system, record) = system(&machine, faults);
    let error = bind(&system, ADDRESS.parse().unwrap()).unwrap_err().to_string();
    assert!(
        error.contains("vfio-pci did not take it") && error.contains("old driver again"),
        "{error}"
    );
    assert_eq!(record.take().len(), 5);
    assert_eq!(state(&machine), bound("nvme", "nvme"));
}

#[test]
fn failed_restoration_names_the_state_that_is_left() {
    let machine = kernels_controller();
    let faults = Faults {
        failing_drivers: vec!["vfio-pci", "nvme"],
        ..Faults::default()
    };
    let (system, _) = system(&machine, faults);
    let error = bind(&system, ADDRESS.parse().unwrap()).unwrap_err();
    assert!(matches!(error, BindingError::NotRestored { .. }), "{error}");
    assert!(
        error
            .to_string()
            .starts_with("0000:01:00.0 is bound to no driver now: "),
        "{error}"
    );
    assert_eq!(state(&machine), (None, String::new()));
}

#[test]
fn failure_of_unbind_restores_vfio() {
    let faults = [
        Faults {
            failing_drivers: vec!["nvme"],
            ..Faults::default()
        },
        Faults {
            failing_writes: vec![1],
            ..Faults::default()
        },
        Faults {
            failing_writes: vec![2],
            ..Faults::default()
        },
    ];
    for fault in faults {
        let machine = vfio_controller();
        let (system, _) = system(&machine, fault);
        let error = unbind(&system, ADDRESS.parse().unwrap()).unwrap_err();
        assert!(matches!(error, BindingError::Restored { .. }), "{error}");
        assert_eq!(state(&machine), bound("vfio-pci", "vfio-pci"));
    }
}

#[test]
fn controller_that_a_process_uses_is_neither_usable_nor_unbound() {
    let faults = Faults {
        busy: vec!["vfio/15"],
        ..Faults::default()
    };
    let (system, record) = system(&vfio_controller(), faults);
    let list = Inventory::read(&system).unwrap();
    assert!(!list.controllers[0].usable);
    let error = unbind(&system, ADDRESS.parse().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "0000:01:00.0 keeps its driver: another process uses /dev/vfio/15: end that process first"
    );
    assert_eq!(record.take(), [""; 0]);
}

#[test]
fn group_that_this_user_may_not_open_is_an_obstacle() {
    let faults = Faults {
        open_error: Some(io::ErrorKind::PermissionDenied),
        ..Faults::default()
    };
    let (system, _) = system(&vfio_controller(), faults);
    let list = Inventory::read(&system).unwrap();
    let [obstacle @ Obstacle::GroupNode { .. }] = list.controllers[0].obstacles.as_slice() else {
        panic!("{list:?}");
    };
    assert_eq!(obstacle.to_string(), "/dev/vfio/15 cannot be opened: permission denied");
    assert_eq!(obstacle.advice(), "run as root, or chown /dev/vfio/15");
}

#[test]
fn unbind_refuses_a_third_driver() {
    let machine = vfio_controller();
    machine.bind(ADDRESS, "uio_pci_generic");
    let error = unbind(&system(&machine, Faults::default()).0, ADDRESS.parse().unwrap()).unwrap_err();
    assert!(matches!(error, BindingError::Refused { .. }), "{error}");
}

#[test]
fn change_without_permission_is_refused_before_the_first_write() {
    let faults = || Faults {
        write_permission: Some(io::ErrorKind::PermissionDenied),
        ..Faults::default()
    };
    let (kernels, record) = system(&kernels_controller(), faults());
    let error = bind(&kernels, ADDRESS.parse().unwrap()).unwrap_err();
    assert!(matches!(error, BindingError::NotWritable { .. }), "{error}");
    assert_eq!(record.take(), [""; 0]);
    let (vfio, record) = system(&vfio_controller(), faults());
    let error = unbind(&vfio, ADDRESS.parse().unwrap()).unwrap_err();
    assert!(matches!(error, BindingError::NotWritable { .. }), "{error}");
    assert_eq!(record.take(), [""; 0]);
}

#[test]
fn other_addresses_are_errors() {
    let machine = kernels_controller();
    machine.function("0000:00:02.0", "0x020000", "1");
    let (system, _) = system(&machine, Faults::default());
    let error = bind(&system, "0000:05:00.0".parse().unwrap()).unwrap_err();
    assert!(matches!(error, BindingError::NoDevice { .. }), "{error}");
    let error = unbind(&system, "00:02.0".parse().unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "0000:00:02.0 is no NVMe controller: its class is 0x020000, not 0x010802"
    );
}
