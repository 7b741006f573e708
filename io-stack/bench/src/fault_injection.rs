//! Injected faults: each must end soon with the right error, and the next query on the same stack must work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use grampus_driver::controller::ControllerOptions;
use grampus_driver::spec::StatusCode;
use grampus_driver::storage::{CachedFile, FaultAction, FaultRule, FaultyStorage};
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::error::{Reason, StackError};
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::StackOptions;

use crate::error::BenchError;
use crate::report::Report;
use crate::setup::{Bed, Setup, wrong};

const LIMIT: Duration = Duration::from_millis(250);

fn bed(setup: &Setup, action: FaultAction, cache_bytes: u64) -> Result<Bed, BenchError> {
    let rule = FaultRule {
        bytes: 0..u64::MAX,
        every: 7,
        at_most: 1,
        action,
    };
    let file = CachedFile::open(&setup.file()?)?;
    let storage = Arc::new(FaultyStorage::new(Box::new(file), vec![rule]));
    let options = StackOptions {
        queues: QueueOptions {
            count: 4,
            depth_log2: 6,
            bounce_bytes: 4096,
        },
        cache: CacheOptions {
            bytes: cache_bytes,
            sector_log2: 12,
            group_log2: 2,
        },
        controller: ControllerOptions { threads: 2, depth: 64 },
        timeout: LIMIT,
        ..StackOptions::default()
    };
    setup.bed(storage, options, 0)
}

pub(crate) fn fault_injection(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let tiles = 2048.min(setup.rows() / 512);
    let expected = setup.plain("expected_4k", 0, tiles, 1)?;
    let code = StatusCode::UnrecoveredReadError;
    type Right = fn(&Reason) -> bool;
    let cases: [(&str, FaultAction, Right); 4] = [
        ("a dropped completion", FaultAction::Drop, |r| {
            *r == Reason::NoCompletion
        }),
        ("an error status", FaultAction::Fail(code), |r| {
            matches!(r, Reason::Nvme(_))
        }),
        (
            "a storage that stalls",
            FaultAction::Delay(Duration::from_millis(600)),
            |r| *r == Reason::NoCompletion,
        ),
        ("a short read", FaultAction::Short, |r| matches!(r, Reason::Nvme(_))),
    ];
    for (name, action, right) in cases {
        let bed = bed(setup, action, 64 << 20)?;
        let began = Instant::now();
        let failed = setup.on_stack(&bed, "queued_4k", 4, tiles, 1);
        let took = began.elapsed();
        let words = check_error(name, failed.map(|_| ()), right)?;
        let again = setup.on_stack(&bed, "queued_4k", 4, tiles, 1)?;
        if again.sum != expected.sum {
            return Err(wrong(name, "the next query read something else".to_owned()));
        }
        at_most_a_second(report, name, took, &words);
    }

    let bed = bed(setup, FaultAction::Delay(Duration::ZERO), 64 << 20)?;
    let handle = bed.stack.abort_handle();
    let began = Instant::now();
    let aborter = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        handle.abort();
    });
    let failed = setup.on_stack(&bed, "wait_for_nothing", 4, 0, 1);
    let took = began.elapsed();
    let _ = aborter.join();
    let words = check_error("an aborted query", failed.map(|_| ()), |r| *r == Reason::Aborted)?;
    let again = setup.on_stack(&bed, "queued_4k", 4, tiles, 1)?;
    if again.sum != expected.sum {
        return Err(wrong("abort", "the next query read something else".to_owned()));
    }
    at_most_a_second(report, "an aborted query", took, &words);

    // A cache of 32 lines, and far more warps, which each want a line of their own at the same time.
    let bed = self::bed(setup, FaultAction::Delay(Duration::ZERO), 1)?;
    let unchecked = |kernel: &str, blocks: u32, n: u64| {
        bed.stack.begin()?;
        setup.on_begun_stack(&bed, kernel, blocks, n, 1)
    };
    let began = Instant::now();
    let tight = unchecked("queued_4k", setup.blocks, tiles);
    let took = began.elapsed();
    let words = match tight {
        Ok(run) if run.sum == expected.sum => "no error: all pins found room in turn".to_owned(),
        Ok(_) => return Err(wrong("a small cache", "read something else".to_owned())),
        failed => check_error("a cache smaller than the pins", failed.map(|_| ()), |r| {
            *r == Reason::CacheFull
        })?,
    };
    let again = unchecked("queued_4k", 1, 64)?;
    if again.sum != setup.plain("expected_4k", 0, 64, 1)?.sum {
        return Err(wrong("a small cache", "the next query read something else".to_owned()));
    }
    at_most_a_second(report, "a cache smaller than the pins", took, &words);
    // One warp that keeps every line pinned and wants one more.
    let began = Instant::now();
    let full = unchecked("pin_all_and_one", 1, 32);
    let took = began.elapsed();
    let words = check_error("every line pinned", full.map(|_| ()), |r| *r == Reason::CacheFull)?;
    let again = unchecked("queued_4k", 1, 64)?;
    if again.sum != setup.plain("expected_4k", 0, 64, 1)?.sum {
        return Err(wrong(
            "every line pinned",
            "the next query read something else".to_owned(),
        ));
    }
    at_most_a_second(report, "every line pinned, one more wanted", took, &words);
    let refused = setup.on_stack(&bed, "queued_4k", setup.blocks, tiles, 1);
    let words = match &refused {
        Err(BenchError::Stack(e @ StackError::CacheTooSmall { .. })) => e.to_string(),
        _ => return Err(wrong("a small cache", "the launch was not refused".to_owned())),
    };
    report
        .add("a launch whose pins exceed the cache is refused", 1.0, "yes")
        .at_least(1.0)
        .note(words);
    Ok(())
}

fn at_most_a_second(report: &mut Report, name: &str, took: Duration, words: &str) {
    report
        .add(name, 1.0 / took.as_secs_f64().max(1e-3), "1/s")
        .at_least(1.0)
        .note(format!("{:.2} s: {words}", took.as_secs_f64()));
}

fn check_error(name: &str, result: Result<(), BenchError>, right: fn(&Reason) -> bool) -> Result<String, BenchError> {
    match result {
        Err(BenchError::Stack(StackError::Device(e))) if right(&e.reason) => Ok(e.to_string()),
        Err(e) => Err(wrong(name, format!("ended with another error: {e}"))),
        Ok(()) => Err(wrong(name, "nobody noticed".to_owned())),
    }
}
