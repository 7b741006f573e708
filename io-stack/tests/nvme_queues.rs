//! Kernels drive the queues of an NVMe controller: the software's registers in this process, and QEMU's device over
//! its qtest socket. The vector add reads two ranges of a namespace and stores to a third one, on host threads and, if
//! there is one, on a GPU.
//!
//! The numbers of commands are the controller's own (SMART), and the sums are read from the image.

#[path = "../../driver/tests/nvme/qtest_registers.rs"]
mod qtest_registers;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use grampus_cuda::{Device, Module, compiler_version, host_compiler};
use grampus_driver::controller::{Namespace, VirtualController, VirtualOptions};
use grampus_driver::files::{Drive, NamespaceRange};
use grampus_driver::host::{Device as Controller, DeviceOptions, DmaPool, MappedMemory};
use grampus_driver::raw::SharedMemory;
use grampus_driver::registers::Registers;
use grampus_driver::spec::{StatusCode, registers as reg};
use grampus_driver::storage::{FaultAction, FaultRule, FaultyStorage, WritableFile};
use grampus_io_bench::BenchError;
use grampus_io_bench::vector_add::{VectorAdd, sum, value};
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::error::Reason;
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::{Stack, StackError, StackOptions};
use grampus_test_support::Resource;
use grampus_test_support::qemu::Qemu;

/// Rows of each of three ranges of 64 lines; the cache has 64 lines for all of them.
const ROWS: u64 = 32_767;
const RANGE_BYTES: u64 = (ROWS + 1) * 8;
/// The first range begins behind so many bytes of the namespace.
const LEAD_BYTES: u64 = 3 * 4096;

/// Namespaces of an image whose reads of a block fail, unless it is `None`.
type Start = fn(&Path, Option<u64>) -> Option<Drive>;

fn drive(registers: Arc<dyn Registers>, pool: Arc<DmaPool>) -> Drive {
    let controller = Controller::open(registers, pool, DeviceOptions::default()).expect("it opens");
    Drive::open("0000:01:00.0", Arc::new(Mutex::new(controller)), 1).expect("namespace 1")
}

fn software(image: &Path, bad_lba: Option<u64>) -> Option<Drive> {
    let rule = bad_lba.map(|lba| FaultRule {
        bytes: lba * 512..(lba + 1) * 512,
        every: 1,
        at_most: u64::MAX,
        action: FaultAction::Fail(StatusCode::UnrecoveredReadError),
    });
    Some(software_with(image, rule.into_iter().collect()))
}

fn software_with(image: &Path, rules: Vec<FaultRule>) -> Drive {
    let file = WritableFile::open(image).expect("an image");
    let storage = FaultyStorage::new(Box::new(file), rules);
    let memory = SharedMemory::anonymous(7 << 20).expect("memory");
    let memory = Arc::new(MappedMemory::linear(memory, 0x12_3400_0000));
    let options = VirtualOptions {
        serial: "S1".to_owned(),
        queues: 4,
        mdts: 7,
    };
    let controller = VirtualController::new(options, vec![Namespace::new(1, Arc::new(storage))], memory.clone());
    drive(Arc::new(controller), DmaPool::new(memory))
}

fn qemu(image: &Path, bad_lba: Option<u64>) -> Option<Drive> {
    let rule = bad_lba.map(|lba| {
        format!(r#","inject-error":[{{"event":"none","iotype":"read","sector":{lba},"errno":5,"once":false}}]"#)
    });
    let disk = format!(
        concat!(
            r#"{{"driver":"raw","node-name":"d","file":{{"driver":"blkdebug","#,
            r#""image":{{"driver":"file","filename":"{}"}}{}}}}}"#
        ),
        image.display(),
        rule.unwrap_or_default()
    );
    let arguments = ["-blockdev", &disk, "-device", "nvme,addr=1,serial=S1,drive=d"];
    let qemu = Arc::new(Qemu::start(64, &arguments.map(str::to_owned))?);
    let pool = DmaPool::new(qtest_registers::memory(&qemu));
    Some(drive(Arc::new(qtest_registers::QtestRegisters::new(&qemu, 1)), pool))
}

/// Devices that run kernels, with their kernels.
fn devices() -> Vec<(Device, Arc<Module>)> {
    let mut devices = Vec::new();
    match host_compiler() {
        Ok(_) => devices.push(Device::host(3, 1 << 30)),
        Err(e) => grampus_test_support::missing(Resource::Compiler, e),
    }
    match compiler_version().and_then(|_| Device::open(0)) {
        Ok(gpu) => devices.push(gpu),
        Err(e) => grampus_test_support::missing(Resource::Gpu, e),
    }
    let with_kernels = |device: Device| {
        let kernels = VectorAdd::kernels(&device).expect("the kernels compile");
        (device, kernels)
    };
    devices.into_iter().map(with_kernels).collect()
}

fn options(count: u32, depth_log2: u32) -> StackOptions {
    StackOptions {
        queues: QueueOptions {
            count,
            depth_log2,
            bounce_bytes: 4096,
        },
        cache: CacheOptions {
            bytes: 0, // the smallest: 64 lines
            sector_log2: 9,
            group_log2: 3,
        },
        timeout: Duration::from_secs(30),
        ..StackOptions::default()
    }
}

/// An image with the values of both files, and zeros for the sums.
fn image(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("image");
    let mut bytes = vec![0xA5; LEAD_BYTES as usize];
    for file in 0..2 {
        bytes.extend((0..=ROWS).flat_map(|row| value(file, row).to_le_bytes()));
    }
    bytes.resize(bytes.len() + RANGE_BYTES as usize, 0);
    std::fs::write(&path, bytes).expect("writable");
    path
}

fn ranges(drive: &Drive) -> Vec<NamespaceRange> {
    let range = |i: u64| NamespaceRange::new(drive, &format!("file {i}"), LEAD_BYTES + i * RANGE_BYTES, RANGE_BYTES);
    (0..3).map(|i| range(i).expect("inside the namespace")).collect()
}

fn vector_add(device: &Device, kernels: &Arc<Module>, drive: &Drive, options: StackOptions) -> VectorAdd {
    let stack = Stack::on_controller(device, ranges(drive), options, true).expect("a stack");
    VectorAdd::over(stack, device, kernels.clone(), ROWS).expect("columns")
}

/// Read and write commands that the controller has carried out.
fn commands(drive: &Drive) -> [u128; 2] {
    let mut controller = drive.device().lock().unwrap_or_else(PoisonError::into_inner);
    let log = controller.smart_log().expect("a log");
    [log.read_commands, log.write_commands]
}

fn kernels_read_and_store(start: Start) {
    for (device, kernels) in devices() {
        for (queues, depth_log2) in [(1, 2), (3, 5), (64, 12)] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let path = image(folder.path());
            let Some(drive) = start(&path, None) else { return };
            let before = commands(&drive);
            let add = vector_add(&device, &kernels, &drive, options(queues, depth_log2));
            let (_, read) = add.launch("read_tiles", 2).expect("reads");
            add.check_total().expect("both files");
            let (_, stored) = add.launch("add_tiles", 2).expect("stores");
            let (_, flushed) = add.launch("flush_stores", 2).expect("flushes");
            let after = commands(&drive);
            let writes = stored.writes + flushed.writes;
            let reads = read.commands + stored.commands + flushed.commands - writes - flushed.flushes;
            assert_eq!(
                [after[0] - before[0], after[1] - before[1]],
                [u128::from(reads), u128::from(writes)],
                "the controller's count"
            );
            // Both passes read 64 lines of both files, of which the second finds up to the cache's 64.
            assert!(reads >= 3 * 64 && writes >= 64, "{reads} reads, {writes} writes");
            drop(add);
            let bytes = std::fs::read(&path).expect("the image");
            let sums = &bytes[(LEAD_BYTES + 2 * RANGE_BYTES) as usize..];
            let sums = sums
                .chunks_exact(8)
                .map(|row| u64::from_le_bytes(row.try_into().expect("8 bytes")));
            let wrong = sums
                .take(ROWS as usize)
                .enumerate()
                .find(|(row, found)| *found != sum(*row as u64));
            assert_eq!(wrong, None, "{queues} queues of {} entries", 1 << depth_log2);
            assert!(bytes[..LEAD_BYTES as usize].iter().all(|byte| *byte == 0xA5));
            println!(
                "{queues} queues of {} entries: {reads} reads, {writes} writes",
                1 << depth_log2
            );
        }
    }
}

/// A read that fails, and the queues after it.
fn failed_reads_name_their_place(start: Start) {
    for (device, kernels) in devices() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bad_lba = (LEAD_BYTES + RANGE_BYTES) / 512 + 80;
        let Some(drive) = start(&image(folder.path()), Some(bad_lba)) else {
            return;
        };
        let free = || {
            drive
                .device()
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .free_queues()
        };
        let all = free();
        let add = vector_add(&device, &kernels, &drive, options(2, 4));
        assert_eq!(free(), all - 2);
        for _ in 0..3 {
            let error = match add.launch("read_tiles", 2).expect_err("a block cannot be read") {
                BenchError::Stack(StackError::Device(error)) => error,
                other => panic!("{other}"),
            };
            assert!(matches!(error.reason, Reason::Nvme(_)), "{error}");
            let place = error.storage.as_deref().unwrap_or_default();
            assert_eq!(place, "0000:01:00.0, namespace 1: file 1", "{error}");
            assert_eq!(error.offset, Some(80 * 512), "{error}");
        }
        let before = commands(&drive);
        let file = |i: usize| vec![ranges(&drive).swap_remove(i)];
        let mut first = Stack::on_controller(&device, file(0), options(1, 4), false).expect("another stack");
        assert_eq!(first.add_ranges(file(2)).expect("of the same controller"), 1);
        drop((first, add));
        assert_eq!(free(), all, "the queues are given back");
        assert_eq!(commands(&drive), before);
    }
}

fn stacks_keep_to_one_controller(start: Start) {
    let Some((device, _)) = devices().into_iter().next() else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let second = tempfile::tempdir().expect("a temporary folder");
    let images = (image(folder.path()), image(second.path()));
    let (Some(drive), Some(other)) = (start(&images.0, None), start(&images.1, None)) else {
        return;
    };
    let mixed = vec![ranges(&drive).swap_remove(0), ranges(&other).swap_remove(1)];
    let error = Stack::on_controller(&device, mixed, options(1, 4), false).expect_err("two controllers");
    assert!(matches!(error, StackError::OtherController(_)), "{error}");
    let bytes = LEAD_BYTES + 3 * RANGE_BYTES;
    assert!(NamespaceRange::new(&drive, "too long", 4096, bytes).is_err());
    assert!(NamespaceRange::new(&drive, "within a page", 512, 4096).is_err());
    let reads = commands(&drive)[0];
    let all = NamespaceRange::new(&drive, "all", 0, bytes).expect("inside");
    let whole = Stack::on_controller(&device, vec![all], options(1, 4), false).expect("a stack");
    drop(whole);
    assert_eq!(commands(&drive)[0], reads);
}

/// Another agent disables the controller.
fn disable(drive: &Drive) {
    let registers = {
        let controller = drive.device().lock().unwrap_or_else(PoisonError::into_inner);
        controller.registers().clone()
    };
    registers.write32(reg::CC, 0);
}

/// A controller that fails between two queries is reset before the second one, not found by a wait of 30 seconds.
fn disabled_controllers_are_reset_before_a_query(start: Start) {
    for (device, kernels) in devices() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let Some(drive) = start(&image(folder.path()), None) else {
            return;
        };
        let add = vector_add(&device, &kernels, &drive, options(2, 4));
        for _ in 0..3 {
            let began = Instant::now();
            let (_, read) = add.launch("read_tiles", 2).expect("reads");
            assert!(
                read.commands > 0 && began.elapsed() < Duration::from_secs(20),
                "{read:?}"
            );
            disable(&drive);
        }
    }
}

/// Kernels that wait for a controller that fails end at once, and the next query has its answers.
#[test]
fn kernels_do_not_wait_for_a_controller_that_fails() {
    let lost = FaultRule {
        bytes: LEAD_BYTES + RANGE_BYTES..LEAD_BYTES + 2 * RANGE_BYTES,
        every: 1,
        at_most: 1,
        action: FaultAction::Drop,
    };
    for (device, kernels) in devices() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let drive = software_with(&image(folder.path()), vec![lost.clone()]);
        let add = vector_add(&device, &kernels, &drive, options(2, 4));
        let began = Instant::now();
        let ended = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(500));
                disable(&drive);
            });
            add.launch("read_tiles", 2).map(|_| ())
        });
        match ended.expect_err("a command is lost") {
            BenchError::Stack(StackError::Device(error)) => {
                assert_eq!(error.reason, Reason::Controller, "{error}");
                assert!(error.to_string().contains("disabled by another agent"), "{error}");
            }
            other => panic!("{other}"),
        }
        // The bound of a wait is 30 seconds.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        let (_, read) = add.launch("read_tiles", 2).expect("reads");
        assert!(read.commands > 0);
    }
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        mod software_registers {
            $(#[test]
            fn $case() {
                crate::$case(crate::software);
            })*
        }

        mod qtest {
            $(#[test]
            fn $case() {
                crate::$case(crate::qemu);
            })*
        }
    };
}

cases! {
    kernels_read_and_store,
    failed_reads_name_their_place,
    stacks_keep_to_one_controller,
    disabled_controllers_are_reset_before_a_query,
}
