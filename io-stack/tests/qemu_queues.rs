//! The text of the GPU's queues, compiled for the host, drives the queues of QEMU's NVMe device by MMIO doorbells.
//!
//! A store to a mapped doorbell cannot reach QEMU's qtest socket. The doorbells therefore lie in shared memory, and a
//! thread of this test forwards each change to the device's register. A register that misses intermediate values is no
//! difference: a tail or head moves by less than a ring before the device has seen it.

mod common;
#[path = "../../driver/tests/nvme/qtest_registers.rs"]
mod qtest_registers;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::test_program::{Build, TestProgram};
use grampus_driver::host::{Device, DeviceOptions, DmaBuffer, DmaPool, QueuePlace, QueueTicket};
use grampus_driver::registers::Registers;
use grampus_test_support::qemu::Qemu;

/// Lines of 4 KiB in the namespace.
const LINES: usize = 4096;
/// Bytes of a bounce slot (tests/cpp/qemu_queues.cc).
const BOUNCE_BYTES: usize = 512;
const WORKERS: usize = 4;
/// Lanes of a warp in the build with lanes.
const LANES: usize = 32;

static PROGRAM: TestProgram = TestProgram::new("qemu_queues");

/// Forwards doorbell words to registers until `ended`. Word 2 i is queue i's tail, word 2 i + 1 its head.
fn forward(words: &DmaBuffer, tickets: &[QueueTicket], registers: &dyn Registers, ended: &AtomicBool) {
    let doorbells = tickets
        .iter()
        .flat_map(|ticket| [ticket.sq_doorbell, ticket.cq_doorbell]);
    let doorbells: Vec<usize> = doorbells.collect();
    let mut last = vec![0; doorbells.len()];
    while !ended.load(Ordering::Acquire) {
        let mut idle = true;
        for (i, doorbell) in doorbells.iter().enumerate() {
            // Acquire: what the program wrote before its store is in memory before the register is written.
            let value = words.load_acquire(4 * i);
            if value != last[i] {
                (last[i], idle) = (value, false);
                registers.write32(*doorbell, value);
            }
        }
        if idle {
            std::thread::yield_now();
        }
    }
}

/// A load on `queues` queue pairs of `1 << depth_log2` entries, with a fresh controller. `mode`: "load" reads, and
/// "store" also stores and flushes; then the image must hold the bytes that the program expects.
fn load(program: &Path, mode: &str, depth_log2: u32, queues: usize, servers: usize, seed: u64) -> Option<()> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = folder.path().join("image");
    let made = Command::new(program)
        .arg("image")
        .arg(&image)
        .arg(LINES.to_string())
        .status();
    assert!(made.expect("a program just built runs").success());
    let arguments = [
        "-drive".to_owned(),
        format!("file={},if=none,id=d,format=raw", image.display()),
        "-device".to_owned(),
        "nvme,addr=1,serial=S1,drive=d".to_owned(),
    ];
    let qemu = Arc::new(Qemu::start(64, &arguments)?);
    let registers: Arc<dyn Registers> = Arc::new(qtest_registers::QtestRegisters::new(&qemu, 1));
    let pool = DmaPool::new(qtest_registers::memory(&qemu));
    let mut device = Device::open(registers.clone(), pool.clone(), DeviceOptions::default()).expect("it opens");
    let depth = 1usize << depth_log2;
    let words = pool.allocate(4096).expect("memory");
    // Half of the storage's lines, and two lines for each lane's raw commands.
    let data_bytes = (LINES / 2 + WORKERS * LANES * 2) * 4096;
    let data = pool.allocate_contiguous(data_bytes).expect("memory");
    let mut tickets = Vec::new();
    let mut rings = Vec::new();
    for _ in 0..queues {
        let ring = |bytes| pool.allocate_contiguous(depth * bytes).expect("memory");
        let parts = [ring(64), ring(16), ring(BOUNCE_BYTES)];
        let place = QueuePlace {
            sq_bus: parts[0].bus_address(0),
            cq_bus: parts[1].bus_address(0),
            entries: depth as u32,
            vector: None,
        };
        tickets.push(device.create_queue_at(place).expect("a queue"));
        rings.push(parts);
    }
    let mut command = Command::new(program);
    command.arg(mode).arg(qemu.ram());
    let numbers = [depth_log2 as u64, LINES as u64, WORKERS as u64, servers as u64, seed];
    let places = [words.bus_address(0), data.bus_address(0)];
    let rings = rings.iter().flatten().map(|part| part.bus_address(0));
    command.args(numbers.into_iter().chain(places).chain(rings).map(|n| n.to_string()));
    let before = device.smart_log().expect("a log");
    let ended = AtomicBool::new(false);
    let out = std::thread::scope(|scope| {
        scope.spawn(|| forward(&words, &tickets, &*registers, &ended));
        let out = command.output().expect("a program just built runs");
        ended.store(true, Ordering::Release);
        out
    });
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "depth {depth}, {queues} queues, seed {seed}: {said}"
    );
    println!(
        "{mode}, depth {depth}, {queues} queues, {servers} servers: {}",
        said.trim().replace('\n', ", ")
    );
    let count = |name: &str| {
        said.lines()
            .find_map(|line| line.strip_prefix(name))
            .expect("a count")
            .to_owned()
    };
    let after = device.smart_log().expect("a log");
    // The program's own counts against the controller's.
    assert_eq!(
        (after.read_commands - before.read_commands).to_string(),
        count("reads ")
    );
    assert_eq!(
        (after.write_commands - before.write_commands).to_string(),
        count("writes ")
    );
    if mode == "store" {
        assert!(count("writes ") != "0");
        let image = std::fs::read(&image).expect("the image is readable");
        let differs = image
            .iter()
            .zip(&out.stderr)
            .position(|(found, expected)| found != expected);
        assert_eq!(
            (image.len(), differs),
            (out.stderr.len(), None),
            "length, and the first other byte"
        );
    }
    device.shutdown().expect("it shuts down");
    Some(())
}

#[test]
fn queue_text_drives_qemu_at_depths_from_4_to_1024() {
    let Some(program) = PROGRAM.built(Build::Lanes) else {
        return;
    };
    for (i, depth_log2) in [2, 3, 4, 6, 8, 10].into_iter().enumerate() {
        // Commands of one line, and of up to eight, in turn; every third time with servers.
        let (queues, servers) = (1 + i % 3, usize::from(i % 3 == 2));
        if load(program, "load", depth_log2, queues, servers, i as u64 + 1).is_none() {
            return;
        }
    }
}

#[test]
fn stores_through_qemu_are_in_its_image_after_a_flush() {
    for build in [Build::Lanes, Build::Plain] {
        let Some(program) = PROGRAM.built(build) else { return };
        for (depth_log2, queues, servers, seed) in [(2, 2, 0, 31), (5, 1, 1, 32), (8, 3, 0, 33)] {
            if load(program, "store", depth_log2, queues, servers, seed).is_none() {
                return;
            }
        }
    }
}

#[test]
fn queue_text_of_one_lane_drives_qemu() {
    let Some(program) = PROGRAM.built(Build::Plain) else {
        return;
    };
    for (depth_log2, seed) in [(2, 21), (5, 22), (10, 23)] {
        if load(program, "load", depth_log2, 2, 0, seed).is_none() {
            return;
        }
    }
}
