//! A kernel that traps kills the primary context, which all devices of a process share. Each of them works again.
//!
//! A file of its own: the context of other tests in the same process would die too.

#[path = "temporary_table/mod.rs"]
mod temporary_table;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use grampus_gpu_exec::{Backing, BackingChoice, Gpu, GpuOptions, RunError, RuntimeOptions, Target};
use grampus_io_stack::cuda::{self, Args, Device, Module, Stream};
use grampus_test_support::{Resource, missing};
use temporary_table::{Table, answer, program, run};

/// Ends the context of every device of this process.
fn kill_context() {
    let device = Device::open(0).expect("the context lives");
    let compiled = cuda::compile_for(
        &device,
        "extern \"C\" __global__ void trap() { asm volatile(\"trap;\"); }",
        "trap",
    )
    .expect("one instruction");
    let module = Module::load(&device, &compiled.cubin).expect("loads");
    let stream = Stream::new(&device).expect("a stream");
    let kernel = module.kernel("trap").expect("its entry");
    kernel.launch(&stream, 1, 1, &mut Args::new()).expect("starts");
    let error = stream.synchronize().expect_err("the kernel traps");
    assert!(error.is_sticky(), "{error}");
}

fn opened() -> Gpu {
    let options = GpuOptions {
        target: Target::Cuda(0),
        cache_bytes: Some(256 << 20),
        pin_bytes: None,
        kernel_folder: Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        threads: 2,
    };
    Gpu::open_with(options, RuntimeOptions::default()).expect("a GPU")
}

/// Asks until the device answers, and returns how many queries failed.
fn failures(gpu: &Gpu, table: &Table) -> usize {
    let sums = program(2, &[], &[0, 1]);
    for failed in 0..100 {
        match run(gpu, table, &sums, 100.0, BackingChoice::All(Backing::Resident)) {
            Ok(output) => {
                assert_eq!(answer(&output), table.expected(100.0, &[0, 1]));
                return failed;
            }
            Err(RunError::Cuda(_) | RunError::Stack(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the device does not answer again");
}

#[test]
fn every_device_of_a_dead_context_works_again() {
    if let Err(e) = cuda::compiler_version().and_then(|_| Device::open(0)) {
        missing(Resource::Gpu, e);
        return;
    }
    let table = Table::raw(&[&[20_000, 7_001], &[9_999]], 2);
    let gpus = [opened(), opened(), opened()];
    let failed = || gpus.each_ref().map(|gpu| failures(gpu, &table));
    assert_eq!(failed(), [0; 3]);
    for _ in 0..3 {
        kill_context();
        // The first one sees the error. The others were closed with it, one of them without a query of its own.
        assert_eq!(failed(), [1, 0, 0]);
    }

    // The same while all of them are busy.
    let (ended, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for gpu in &gpus {
            let (ended, answered, table) = (&ended, &answered, &table);
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    failures(gpu, table);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..5 {
            let before = answered.load(Ordering::Relaxed);
            kill_context();
            while answered.load(Ordering::Relaxed) < before + 30 {
                std::thread::yield_now();
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(failed(), [0; 3]);
}
