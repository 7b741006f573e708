//! The stack on host threads in place of a GPU: queues, cache, controller, and a kernel compiled from the device
//! headers, through both backings. Without a C++ compiler the tests print "skipped" and pass.

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grampus_cuda::{
    Args, CudaError, Device, DeviceBuffer, Event, MappedFile, Module, Part, PinnedBuffer, Stream, compile_for,
    host_compiler, slots,
};
use grampus_driver::controller::ControllerOptions;
use grampus_driver::storage::{CachedFile, FaultAction, FaultRule, FaultyStorage, Storage};
use grampus_io_stack::StagingOptions;
use grampus_io_stack::abi::IoStack;
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::{Column, Run, Stack, StackError, StackOptions};

const KERNELS: &str = r"
using namespace grampus;

struct Parameters {
    IoStack io;
    ColumnDesc column;
    u64 rows;
    u64* sums;
};

// Bit-sums of a column's values, tile by tile, and of every seventh row again by single fetches.
template <class Backing>
GRAMPUS_DEVICE void sum(const Parameters& p) {
    ColumnArray<u64, Backing> array(p.io, p.column);
    u64 total = 0;
    for (u64 row = launch_warp() * 64ull; row < p.rows; row += launch_warps() * 64ull) {
        u64 value[64], again;
        u32 rows = p.rows - row < 64 ? (u32)(p.rows - row) : 64;
        if (!array.template ahead(row, rows)) return;
        if (!array.template tile_across<64>(row, rows, value)) return;
        for (u32 i = 0; i < rows; i++) total += value[i];
        for (u32 i = 0; i < rows; i += 7) {
            if (!array.fetch(true, row + i, again)) return;
            total += again;
        }
    }
    p.sums[launch_warp()] = total;
}
GRAMPUS_KERNEL(sum_mapped, Parameters, p) { sum<Mapped>(p); }
GRAMPUS_KERNEL(sum_queued, Parameters, p) { sum<Queued<>>(p); }
";

fn device() -> Option<(Device, Module)> {
    if let Err(e) = host_compiler() {
        grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
        return None;
    }
    let device = Device::host(3, 1 << 30);
    let text = grampus_io_stack::device_headers::prelude() + KERNELS;
    let compiled = compile_for(&device, &text, "sums").expect("the kernels compile");
    let module = Module::load(&device, &compiled.cubin).expect("and load");
    Some((device, module))
}

const ROWS: u64 = 40_000;
const FIRST_BYTE: u64 = 13;

fn value(row: u64) -> u64 {
    (row + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn expected() -> u64 {
    expected_of(value)
}

fn expected_of(value: impl Fn(u64) -> u64) -> u64 {
    let all = (0..ROWS).fold(0u64, |sum, row| sum.wrapping_add(value(row)));
    let seventh = (0..ROWS).filter(|row| row % 64 % 7 == 0);
    seventh.fold(all, |sum, row| sum.wrapping_add(value(row)))
}

fn file() -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(&vec![0xA5; FIRST_BYTE as usize]).expect("writable");
    let bytes: Vec<u8> = (0..ROWS).flat_map(|row| value(row).to_le_bytes()).collect();
    file.write_all(&bytes).expect("writable");
    file
}

fn stack(device: &Device, storage: Arc<dyn Storage>, timeout: Duration) -> Stack {
    let options = StackOptions {
        queues: QueueOptions {
            count: 2,
            depth_log2: 4,
            bounce_bytes: 4096,
        },
        cache: CacheOptions {
            bytes: 2 << 20,
            sector_log2: 9,
            group_log2: 3,
        },
        controller: ControllerOptions { threads: 1, depth: 8 },
        staging: StagingOptions {
            bytes: 64 << 10,
            count: 2,
        },
        timeout,
        max_lines: 8,
    };
    Stack::new(device, vec![storage], options, &[]).expect("a stack")
}

fn run(device: &Device, module: &Module, name: &str, stack: &Stack, column: &Column) -> Result<u64, StackError> {
    run_counted(device, module, name, stack, column).map(|(sum, _)| sum)
}

/// The sum, and device code's number of commands. The controller's own counters may come later.
fn run_counted(
    device: &Device,
    module: &Module,
    name: &str,
    stack: &Stack,
    column: &Column,
) -> Result<(u64, u64), StackError> {
    let warps = 8;
    let sums = DeviceBuffer::filled(device, warps * 8, 0)?;
    let stream = Stream::new(device)?;
    stack.begin()?;
    let mut args = Args::new().with_bytes(&blob(&stack.io(), column, ROWS, sums.address()));
    module.kernel(name)?.launch(&stream, warps as u32, 32, &mut args)?;
    stream.synchronize()?;
    let stats = stack.finish()?;
    let sum = sums.read::<u64>(0, warps)?.into_iter().fold(0, u64::wrapping_add);
    Ok((sum, stats.commands))
}

/// The parameter struct as bytes, as a code generator would write it.
fn blob(io: &IoStack, column: &Column, rows: u64, sums: u64) -> Vec<u8> {
    let mut bytes = grampus_io_stack::abi::bytes_of(io);
    bytes.extend(grampus_io_stack::abi::bytes_of(&column.desc()));
    bytes.extend(rows.to_le_bytes());
    bytes.extend(sums.to_le_bytes());
    bytes
}

fn column(stack: &Stack, mapped: u64) -> Column {
    let half = ROWS / 2;
    let run = |first: u64, rows: u64| Run {
        source: 0,
        byte: FIRST_BYTE + first * 8,
        rows,
        mapped,
    };
    stack
        .column(8, &[run(0, half), run(half, ROWS - half)])
        .expect("inside the file")
}

#[test]
fn both_backings_give_the_files_values() {
    let Some((device, module)) = device() else { return };
    let file = file();
    let storage = Arc::new(CachedFile::open(file.path()).expect("opens"));
    let stack = stack(&device, storage, Duration::from_secs(10));
    let mapping = MappedFile::open(&device, file.path()).expect("maps");
    let mapped = mapping.device_address().expect("host threads read any mapping");
    let through_mapping = run(&device, &module, "sum_mapped", &stack, &column(&stack, mapped));
    assert_eq!(through_mapping.expect("runs"), expected());
    for again in [false, true] {
        let through_queues = run_counted(&device, &module, "sum_queued", &stack, &column(&stack, 0));
        let (sum, commands) = through_queues.expect("runs");
        assert_eq!(sum, expected());
        // Each command carries at most 8 lines.
        assert!(
            again || commands * 8 * 4096 >= ROWS * 8,
            "{commands} commands were sent"
        );
    }
}

#[test]
fn storages_are_added_and_closed_and_the_cache_stays() {
    let Some((device, module)) = device() else { return };
    let (first, second) = (file(), file());
    let open = |file: &tempfile::NamedTempFile| Arc::new(CachedFile::open(file.path()).expect("opens"));
    let mut stack = stack(&device, open(&first), Duration::from_secs(10));
    let of_first = column(&stack, 0);
    let mut sent = Vec::new();
    let mut sum = |stack: &Stack, column: &Column| {
        let (sum, commands) = run_counted(&device, &module, "sum_queued", stack, column).expect("runs");
        sent.push(commands);
        sum
    };
    assert_eq!(sum(&stack, &of_first), expected());
    let added = stack.add(vec![open(&second)]).expect("opens");
    assert_eq!(added, 1);
    assert_eq!(sum(&stack, &of_first), expected());
    let run_of_second = Run {
        source: added,
        byte: FIRST_BYTE,
        rows: ROWS,
        mapped: 0,
    };
    let of_second = stack.column(8, &[run_of_second]).expect("inside the file");
    assert_eq!(sum(&stack, &of_second), expected());
    stack.retire([0]);
    assert!(
        stack
            .column(
                8,
                &[Run {
                    source: 0,
                    ..run_of_second
                }]
            )
            .is_err(),
        "it is closed"
    );
    assert_eq!(sum(&stack, &of_second), expected());
    assert!(
        sent[0] > 0 && sent[1..].iter().sum::<u64>() < 3 * sent[0],
        "{sent:?} commands for one file, and again, for another, and again"
    );
}

/// A stack over a storage whose reads inside `bytes` fail, `at_most` of them.
fn failing_stack(device: &Device, file: &tempfile::NamedTempFile, bytes: Range<u64>, at_most: u64) -> Stack {
    let storage = Box::new(CachedFile::open(file.path()).expect("opens"));
    let rule = FaultRule {
        bytes,
        every: 1,
        at_most,
        action: FaultAction::Fail(grampus_driver::spec::StatusCode::UnrecoveredReadError),
    };
    let faulty = Arc::new(FaultyStorage::new(storage, vec![rule]));
    stack(device, faulty, Duration::from_secs(10))
}

#[test]
fn failed_read_is_the_querys_error_and_the_next_query_works() {
    let Some((device, module)) = device() else { return };
    let file = file();
    let stack = failing_stack(&device, &file, 100_000..200_000, u64::MAX);
    let failed = run(&device, &module, "sum_queued", &stack, &column(&stack, 0)).expect_err("reads fail");
    assert!(matches!(failed, StackError::Device(_)), "{failed}");
    assert!(failed.to_string().contains("NVMe status"), "{failed}");
    // The rows before the bytes that cannot be read, four times.
    let rows = ROWS / 4;
    let before = Run {
        source: 0,
        byte: FIRST_BYTE,
        rows,
        mapped: 0,
    };
    let readable = stack.column(8, &[before; 4]).expect("inside the file");
    let again = run(&device, &module, "sum_queued", &stack, &readable);
    assert_eq!(again.expect("works again"), expected_of(|row| value(row % rows)));
}

/// The first commands of a tile read ahead. When such a command fails, its readers ask again.
#[test]
fn failed_prefetch_fails_no_reader() {
    let Some((device, module)) = device() else { return };
    let file = file();
    for line in [0, 7, 30, 64] {
        let stack = failing_stack(&device, &file, line * 4096..(line + 8) * 4096, 1);
        let sum = run(&device, &module, "sum_queued", &stack, &column(&stack, 0));
        assert_eq!(sum.expect("only a prefetch fails"), expected(), "from line {line}");
    }
}

/// What has arrived serves the next query, also after one that ended early.
#[test]
fn resetting_the_stack_keeps_the_sectors_that_have_arrived() {
    let Some((device, module)) = device() else { return };
    let file = file();
    let storage = Arc::new(CachedFile::open(file.path()).expect("opens"));
    let stack = stack(&device, storage, Duration::from_secs(10));
    let run = || run_counted(&device, &module, "sum_queued", &stack, &column(&stack, 0)).expect("runs");
    let (sum, first) = run();
    assert!(sum == expected() && first > 0);
    stack.reset().expect("resets");
    assert_eq!(run(), (expected(), 0), "commands for what was there");
    stack.empty_cache().expect("empties");
    assert_eq!(run(), (expected(), first));
}

#[test]
fn launches_are_asynchronous_and_events_follow_them() {
    let Some((device, module)) = device() else { return };
    let file = file();
    let storage = Box::new(CachedFile::open(file.path()).expect("opens"));
    let rule = FaultRule {
        bytes: 0..u64::MAX,
        every: 1,
        at_most: u64::MAX,
        action: FaultAction::Delay(Duration::from_secs(4)),
    };
    let stalled = Arc::new(FaultyStorage::new(storage, vec![rule]));
    let stack = stack(&device, stalled, Duration::from_secs(30));
    let column = column(&stack, 0);
    let sums = DeviceBuffer::filled(&device, 64, 0).expect("memory");
    let (stream, event) = (
        Stream::new(&device).expect("stream"),
        Event::new(&device, false).expect("event"),
    );
    stack.begin().expect("begins");
    let mut args = Args::new().with_bytes(&blob(&stack.io(), &column, ROWS, sums.address()));
    let kernel = module.kernel("sum_queued").expect("there");
    let began = Instant::now();
    kernel.launch(&stream, 4, 32, &mut args).expect("starts");
    event.record(&stream).expect("records");
    assert!(!event.reached().expect("asks"), "nothing can be read yet");
    stack.abort_handle().abort();
    event.synchronize().expect("ends");
    assert!(began.elapsed() < Duration::from_secs(20), "the abort word ended it");
    let failed = stack.finish().expect_err("was cancelled");
    assert!(!failed.to_string().is_empty());
}

#[test]
fn arguments_and_memory_are_checked() {
    let Some((device, module)) = device() else { return };
    let stream = Stream::new(&device).expect("stream");
    let kernel = module.kernel("sum_mapped").expect("there");
    let refused = kernel
        .launch(&stream, 1, 32, &mut Args::new().with_bytes(&[0; 24]))
        .expect_err("too short");
    assert!(matches!(refused, CudaError::Arguments { .. }), "{refused}");
    assert!(module.kernel("nothing").is_err());
    let refused = DeviceBuffer::new(&device, 2 << 30).expect_err("more than there is");
    assert!(refused.is_out_of_memory() && !refused.is_sticky(), "{refused}");
    let before = device.facts().expect("facts").free_bytes;
    drop(DeviceBuffer::new(&device, 1 << 20).expect("fits"));
    assert_eq!(device.facts().expect("facts").free_bytes, before);
}

#[test]
fn slots_carry_bytes_to_the_device() {
    let device = Device::host(1, 1 << 20);
    let stream = Stream::new(&device).expect("stream");
    let to = DeviceBuffer::filled(&device, 8192, 0).expect("memory");
    let part = |from, to_offset, len| Part {
        from,
        len,
        to: &to,
        to_offset,
    };
    let buffer = PinnedBuffer::new(&device, 2 * 4096).expect("pinned");
    let mut ring = slots(buffer, 4096).expect("slots");
    let mut slot = ring.pop().expect("two");
    slot.bytes_mut()[5..9].copy_from_slice(&[1, 2, 3, 4]);
    let pushed = slot
        .upload(&stream, &[part(4, 4100, 6), part(0, 0, 4)])
        .expect("starts");
    let slot = pushed.finish().expect("arrives");
    assert_eq!(to.read::<u8>(4100, 6).expect("reads"), [0, 1, 2, 3, 4, 0]);
    let refused = slot
        .upload(&stream, &[part(4000, 0, 97)])
        .expect_err("past the slot's end");
    assert!(matches!(refused, CudaError::Arguments { .. }));
}
