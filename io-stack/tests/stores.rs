//! Stores to columns through a stack on host threads: the vector add, losses of power, failed writes, and refusals.
//! Without a C++ compiler the tests print "skipped" and pass.

#[path = "../../driver/tests/files/lossy_storage.rs"]
#[allow(dead_code)] // the driver's tests use the rest
mod lossy_storage;
#[path = "../../driver/tests/support/random.rs"]
mod random;

use std::sync::Arc;
use std::time::Duration;

use grampus_cuda::{Device, Module, host_compiler};
use grampus_driver::controller::ControllerOptions;
use grampus_driver::storage::{MemoryStorage, Storage};
use grampus_io_bench::BenchError;
use grampus_io_bench::vector_add::{VectorAdd, VectorFiles, sum, value};
use grampus_io_stack::StagingOptions;
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::error::Reason;
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::{Stack, StackError, StackOptions};
use lossy_storage::LossyStorage;
use random::Random;

/// Rows of a file of 32 lines; three files do not fit into the cache of 64 lines.
const ROWS: u64 = 16_383;
/// Rows of a file that is larger than the cache.
const LONG_ROWS: u64 = 40_959;

fn options() -> StackOptions {
    StackOptions {
        queues: QueueOptions {
            count: 2,
            depth_log2: 4,
            bounce_bytes: 4096,
        },
        cache: CacheOptions {
            bytes: 0, // the smallest: 64 lines
            sector_log2: 9,
            group_log2: 3,
        },
        controller: ControllerOptions { threads: 1, depth: 8 },
        staging: StagingOptions {
            bytes: 64 << 10,
            count: 2,
        },
        timeout: Duration::from_secs(30),
        max_lines: 8,
    }
}

/// A device of host threads, and the kernels for it.
fn device() -> Option<(Device, Arc<Module>)> {
    if let Err(e) = host_compiler() {
        grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
        return None;
    }
    let device = Device::host(3, 1 << 30);
    let kernels = VectorAdd::kernels(&device).expect("the kernels compile");
    Some((device, kernels))
}

fn words(file: u64) -> Vec<u8> {
    let bytes = (0..ROWS + 1).flat_map(|row| value(file, row).to_le_bytes());
    bytes.collect()
}

/// The vector add over two storages in memory, into a third one.
fn add(device: &Device, kernels: &Arc<Module>, options: StackOptions, target: Arc<dyn Storage>) -> VectorAdd {
    let storages: Vec<Arc<dyn Storage>> = vec![
        Arc::new(MemoryStorage::new(words(0))),
        Arc::new(MemoryStorage::new(words(1))),
        target,
    ];
    VectorAdd::new(device, kernels.clone(), storages, options, ROWS).expect("a stack")
}

/// A target without sums.
fn target(power_after: u64) -> LossyStorage {
    let storage = LossyStorage::new(vec![0; (ROWS as usize + 1) * 8], 512);
    storage.lose_power_after(power_after);
    storage
}

/// The value of a row in an image.
fn row_of(image: &[u8], row: u64) -> u64 {
    u64::from_le_bytes(image[row as usize * 8..][..8].try_into().expect("8 bytes"))
}

fn reason(result: Result<(Duration, grampus_io_stack::abi::Stats), BenchError>) -> Reason {
    match result.expect_err("it fails") {
        BenchError::Stack(StackError::Device(e)) => e.reason,
        other => panic!("{other}"),
    }
}

#[test]
fn vector_add_over_files_larger_than_the_cache() {
    let Some((device, kernels)) = device() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    for (kernel, rows) in [
        ("store_tiles", LONG_ROWS),
        ("add_tiles", LONG_ROWS),
        ("add_scattered", ROWS / 4),
        ("add_through", LONG_ROWS),
    ] {
        let files = VectorFiles::create(folder.path(), rows).expect("writable");
        let add = VectorAdd::new(
            &device,
            kernels.clone(),
            files.storages().expect("opens"),
            options(),
            rows,
        )
        .expect("a stack");
        assert_eq!(add.stack.cache().lines(), 64);
        add.launch(kernel, 2).expect("runs");
        let (_, flushed) = add.launch("flush_stores", 2).expect("flushes");
        assert_eq!(flushed.flushes, 1, "one storage takes writes");
        let wrong = match kernel {
            "store_tiles" => files.wrong_rows(|row| row),
            _ => files.wrong_rows(sum),
        };
        assert_eq!(wrong.expect("readable"), 0, "{kernel}");
        add.launch("read_tiles", 2).expect("reads");
        add.check_total().expect("the sources are as they were");
        add.stack.empty_cache().expect("nothing is dirty");
    }
}

#[test]
fn tiles_fetch_no_sector_that_they_cover_and_hits_write_nothing() {
    let Some((device, kernels)) = device() else { return };
    let mut roomy = options();
    roomy.cache.group_log2 = 5; // 256 lines: all three storages stay
    let add = add(&device, &kernels, roomy, Arc::new(target(u64::MAX)));
    let (_, stored) = add.launch("add_tiles", 2).expect("runs");
    // Both sources, whole, and the target's last sector, which has a word behind the last row.
    assert_eq!(stored.command_bytes, 2 * 8 * (ROWS + 1) + 512);
    assert_eq!(stored.writes, 0);
    let (_, again) = add.launch("add_tiles", 2).expect("runs");
    assert_eq!(again.commands, 0, "all of it is in the cache");
    let (_, flushed) = add.launch("flush_stores", 2).expect("flushes");
    assert_eq!((flushed.command_bytes, flushed.writes), (8 * (ROWS + 1), 32));
    let (_, clean) = add.launch("flush_stores", 2).expect("flushes");
    assert_eq!((clean.writes, clean.flushes), (0, 1));
}

/// The power is lost after any number of blocks and flushes. A loss before the flush has completed may leave any of
/// the stores; one after it leaves all.
#[test]
fn losses_of_power_leave_old_or_new_rows_and_all_that_was_flushed() {
    let Some((device, kernels)) = device() else { return };
    let cases = std::env::var("GRAMPUS_TEST_CASES").map_or(8, |n| n.parse::<u64>().expect("a number"));
    let mut random = Random(0x5eed);
    let mut whole = 0;
    for case in 0..cases {
        // Each run writes 256 blocks or more, and flushes once.
        let steps = if case == 0 { u64::MAX } else { random.below(330) };
        let storage = target(steps);
        let add = add(&device, &kernels, options(), Arc::new(storage.clone()));
        let kernel = ["add_tiles", "add_through"][case as usize % 2];
        let stored = add.launch(kernel, 2).and_then(|_| add.launch("flush_stores", 2));
        let image = storage.after_loss(&mut random);
        for row in 0..ROWS {
            let found = row_of(&image, row);
            let good = found == sum(row) || (stored.is_err() && found == 0);
            assert!(good, "case {case}, {kernel}, {steps} steps, row {row}: {found:#x}");
        }
        whole += u64::from(stored.is_ok());
    }
    println!("{whole} of {cases} runs flushed before the power was lost");
    assert!(whole > 0);
}

#[test]
fn stores_survive_a_failed_write_and_the_next_flush_writes_them() {
    let Some((device, kernels)) = device() else { return };
    for steps in [0, 1, 30, 200] {
        let storage = target(steps);
        let add = add(&device, &kernels, options(), Arc::new(storage.clone()));
        let done = add
            .launch("add_tiles", 2)
            .map(|_| ())
            .and_then(|()| add.launch("flush_stores", 2));
        assert!(matches!(reason(done), Reason::Nvme(_)), "{steps} steps");
        assert!(matches!(add.stack.empty_cache(), Err(StackError::Unflushed { .. })));
        // The drive takes writes again.
        storage.lose_power_after(u64::MAX);
        add.launch("flush_stores", 2).expect("flushes");
        let image = storage.after_loss(&mut Random(1));
        let sums = (0..ROWS).filter(|row| row_of(&image, *row) == sum(*row)).count() as u64;
        let others = (0..ROWS)
            .filter(|row| ![0, sum(*row)].contains(&row_of(&image, *row)))
            .count();
        assert_eq!(others, 0, "{steps} steps");
        // What the kernel had stored when it ended is there: 64 lines less those that it read.
        assert!(sums > 0, "{steps} steps");
        add.launch("add_tiles", 2).expect("runs to its end");
        add.launch("flush_stores", 2).expect("flushes");
        let image = storage.after_loss(&mut Random(1));
        assert!((0..ROWS).all(|row| row_of(&image, row) == sum(row)), "{steps} steps");
    }
}

#[test]
fn stores_to_a_storage_or_stack_without_writes_are_refused() {
    let Some((device, kernels)) = device() else { return };
    let add = add(&device, &kernels, options(), Arc::new(MemoryStorage::new(words(2))));
    for kernel in ["add_tiles", "add_scattered"] {
        assert_eq!(reason(add.launch(kernel, 2)), Reason::ReadOnly);
    }
    let no_bounce = StackOptions {
        queues: QueueOptions {
            bounce_bytes: 0,
            ..options().queues
        },
        ..options()
    };
    let refused = Stack::writable(&device, Vec::new(), no_bounce, &[]).expect_err("no bounce slots");
    assert!(matches!(refused, StackError::NoBounce), "{refused}");
}

#[test]
fn closing_a_storage_drops_its_stores_and_no_others() {
    let Some((device, kernels)) = device() else { return };
    let mut add = add(&device, &kernels, options(), Arc::new(target(u64::MAX)));
    add.launch("add_tiles", 2).expect("runs");
    let dirty = add.stack.cache().dirty_lines().expect("readable");
    assert!(dirty > 0);
    add.stack.retire([0]);
    assert_eq!(add.stack.cache().dirty_lines().expect("readable"), dirty);
    add.stack.retire([2]);
    assert_eq!(add.stack.cache().dirty_lines().expect("readable"), 0);
}
