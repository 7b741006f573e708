//! Cases of volumes: striping and replication on the submitting side, over namespaces and controllers.

use std::sync::Arc;

use grampus_driver::error::DriverError;
use grampus_driver::host::{Device, DeviceOptions, DmaPool, Member, Volume};

use crate::Start;
use crate::machine::{ControllerSetup, Fault, Machine, MachineSetup, NamespaceSetup, image_path, pattern};
use crate::random::Random;

const MIB: usize = 1 << 20;
const UNIT_BLOCKS: u32 = 16;

/// Two controllers, the first with two namespaces, the second with one: three members.
fn setup(faults: [&[Fault]; 3]) -> MachineSetup {
    let namespace = |faults: &[Fault]| NamespaceSetup {
        faults: faults.to_vec(),
        ..NamespaceSetup::new(MIB as u64, 9)
    };
    let controller = |namespaces| ControllerSetup {
        namespaces,
        mdts: 2, // 16 KiB: commands are cut
        queues: 8,
    };
    let first = vec![namespace(faults[0]), namespace(faults[1])];
    MachineSetup {
        controllers: vec![controller(first), controller(vec![namespace(faults[2])])],
    }
}

/// Opens the controllers. Each namespace is a member with two queues, of four entries so that they are full at times.
fn open(machine: &dyn Machine) -> (Vec<Device>, Vec<Member>, Arc<DmaPool>) {
    let pool = DmaPool::new(machine.memory());
    let (mut devices, mut members) = (Vec::new(), Vec::new());
    for c in 0..2 {
        let options = DeviceOptions::default();
        let mut device = Device::open(machine.registers(c), pool.clone(), options).expect("it opens");
        for namespace in device.namespaces().expect("namespaces") {
            members.push(Member {
                name: format!("{} namespace {}", device.identity().serial, namespace.nsid),
                namespace,
                queues: (0..2).map(|_| device.create_queue(4).expect("a queue")).collect(),
            });
        }
        devices.push(device);
    }
    (devices, members, pool)
}

fn images(machine: Box<dyn Machine>, devices: Vec<Device>) -> [Vec<u8>; 3] {
    devices
        .into_iter()
        .for_each(|device| device.shutdown().expect("it shuts down"));
    let folder = machine.stop();
    [(0, 0), (0, 1), (1, 0)].map(|(c, n)| std::fs::read(image_path(folder.path(), c, n)).expect("an image"))
}

pub(crate) fn striped_volume_reads_and_writes_in_units(start: Start) {
    let Some(machine) = start(setup([&[], &[], &[]])) else {
        return;
    };
    let (devices, members, pool) = open(&*machine);
    let mut volume = Volume::striped(members, UNIT_BLOCKS).expect("a volume");
    assert_eq!((volume.blocks(), volume.block_bytes()), (3 * 2048, 512));
    // Unit u lies on member u mod 3, at that member's unit u / 3.
    let unit = UNIT_BLOCKS as usize * 512;
    let mut model: Vec<u8> = (0..3 * MIB / unit)
        .flat_map(|u| pattern((u / 3 * unit) as u64, unit))
        .collect();
    let buffer = pool.allocate(128 << 10).expect("memory");
    let mut random = Random(5);
    for round in 0..300u64 {
        let blocks = 1 + random.below(200) as u32;
        let slba = random.below(volume.blocks() - u64::from(blocks) + 1);
        let (at, length, offset) = (
            slba as usize * 512,
            blocks as usize * 512,
            random.below(1000) as usize * 4,
        );
        let range = buffer.range(offset, length).expect("inside");
        if round % 3 == 0 {
            let bytes: Vec<u8> = (0..length).map(|i| (i as u64 * 7 + round) as u8).collect();
            buffer.write(offset, &bytes);
            volume.write(slba, blocks, &range).expect("a write");
            model[at..at + length].copy_from_slice(&bytes);
        } else {
            volume.read(slba, blocks, &range).expect("a read");
            assert!(
                buffer.bytes(offset, length) == model[at..at + length],
                "{blocks} blocks at {slba}"
            );
        }
    }
    volume.flush().expect("a flush");
    let refused = volume
        .read(volume.blocks() - 1, 2, &buffer.range(0, 1024).expect("inside"))
        .unwrap_err();
    assert!(matches!(refused, DriverError::BlockRange { .. }), "{refused}");
    assert!(volume.failures().is_empty());
    drop(volume);
    for (m, image) in images(machine, devices).iter().enumerate() {
        for (u, bytes) in image.chunks(unit).enumerate() {
            assert!(*bytes == model[(u * 3 + m) * unit..][..unit], "unit {u} of member {m}");
        }
    }
}

pub(crate) fn replicas_survive_failed_reads_and_writes(start: Start) {
    // The first replica cannot read sector 40, the second cannot write sector 80.
    let Some(machine) = start(setup([&[Fault::Read(40)], &[Fault::Write(80)], &[]])) else {
        return;
    };
    let (devices, members, pool) = open(&*machine);
    let mut volume = Volume::replicated(members).expect("a volume");
    assert_eq!(volume.blocks(), 2048);
    let buffer = pool.allocate(64 << 10).expect("memory");
    let mut model = pattern(0, MIB);
    let mut failed = Vec::new();
    for slba in 0..60u64 {
        let range = buffer.range(0, 8192).expect("inside");
        volume.read(slba, 16, &range).expect("another replica answers");
        assert!(
            buffer.bytes(0, 8192) == model[slba as usize * 512..][..8192],
            "at {slba}"
        );
        failed.extend(volume.failures());
    }
    assert!(!failed.is_empty(), "each third read goes to the first replica");
    for failure in &failed {
        assert_eq!(failure.member, "S0 namespace 1");
        assert!(
            failure.error.to_string().contains("Unrecovered Read Error"),
            "{}",
            failure.error
        );
        assert!(!failure.out_of_service, "a bad sector leaves the replica in service");
    }
    // 64 KiB in four commands for each replica.
    buffer.fill(0x5a);
    let range = buffer.range(0, 64 << 10).expect("inside");
    volume.write(64, 128, &range).expect("two replicas have the bytes");
    model[64 * 512..192 * 512].fill(0x5a);
    let failures = volume.failures();
    assert_eq!(failures.len(), 1);
    assert!(failures[0].member == "S0 namespace 2" && failures[0].out_of_service);
    for slba in (56..200).step_by(8) {
        volume
            .read(slba, 16, &buffer.range(0, 8192).expect("inside"))
            .expect("a read");
        assert!(
            buffer.bytes(0, 8192) == model[slba as usize * 512..][..8192],
            "no old bytes at {slba}"
        );
    }
    volume.flush().expect("a flush");
    drop(volume);
    let [first, _, third] = images(machine, devices);
    assert!(first == model && third == model);
}

pub(crate) fn stripe_failure_names_its_member(start: Start) {
    let Some(machine) = start(setup([&[], &[], &[Fault::Read(40)]])) else {
        return;
    };
    let (mut devices, members, pool) = open(&*machine);
    let mut volume = Volume::striped(members, UNIT_BLOCKS).expect("a volume");
    let buffer = pool.allocate(8192).expect("memory");
    let range = buffer.range(0, 8192).expect("inside");
    // Member 2's sector 40 is in its unit 2: the volume's unit 8.
    let error = volume.read(8 * 16, 16, &range).unwrap_err();
    let words = error.to_string();
    assert!(
        words.starts_with("volume member S1 namespace 1: read of 16 blocks at LBA 32"),
        "{words}"
    );
    volume.read(7 * 16, 16, &range).expect("another unit");
    // A controller that is reset under the volume.
    devices[1].reset().expect("a reset");
    let error = volume.read(2 * 16, 16, &range).unwrap_err();
    assert!(
        error.to_string().starts_with("volume member S1 namespace 1: queue"),
        "{error}"
    );
    volume.read(0, 16, &range).expect("the other controller");
    assert!(buffer.bytes(0, 8192) == pattern(0, 8192));
    drop(volume);
    images(machine, devices);
}
