//! Faults while a query runs: files that change, decoders that fail, storages that err or stall, callers that cancel.
//!
//! Each fault ends in an error with the reason, and the next query works. The tests are skipped without a C++ compiler.

mod temporary_table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use grampus_driver::error::StorageError;
use grampus_driver::spec::StatusCode;
use grampus_driver::storage::{CachedFile, Channel, FaultAction, FaultRule, FaultyStorage};
use grampus_driver::storage::{ReadDone, ReadRequest, Storage};
use grampus_gpu_exec::RunError;
use grampus_gpu_exec::input::{Decode, Decoded, FileVersion, Placement, Segment};
use grampus_gpu_exec::program::Value;
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Request, RuntimeOptions};
use temporary_table::{ALL, Kind, Shape, Table, answer, gpu, program, run, value};

const STRIPES: &[&[u64]] = &[&[20_000, 7_001], &[9_999]];

#[test]
fn changed_file_fails_the_query_and_its_new_version_answers() {
    for backing in ALL {
        let mut table = Table::raw(STRIPES, 2);
        let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
            return;
        };
        let sums = program(2, &[], &[0, 1]);
        let before = run(&gpu, &table, &sums, 100.0, backing).unwrap();
        assert_eq!(answer(&before), table.expected(100.0, &[0, 1]));
        // The first value of column 0 is changed so that it passes.
        let Placement::Direct(segments) = &table.input.stripes[0].columns[0] else {
            panic!()
        };
        let at = segments[0].offset as usize;
        let mut bytes = std::fs::read(table.path(0)).unwrap();
        bytes[at..at + 8].copy_from_slice(&5000.0f64.to_le_bytes());
        std::thread::sleep(Duration::from_millis(20)); // file times have steps
        std::fs::write(table.path(0), bytes).unwrap();
        let refused = run(&gpu, &table, &sums, 100.0, backing).unwrap_err();
        assert!(matches!(refused, RunError::FileChanged { .. }), "{refused}");
        assert!(refused.to_string().contains("written to"), "{refused}");
        table.input.files[0] = FileVersion::of(&table.path(0)).unwrap();
        let after = answer(&run(&gpu, &table, &sums, 100.0, backing).unwrap());
        let (count, totals) = table.expected(100.0, &[0, 1]);
        let (new_count, new_sum) = match value(0, 0) {
            old if old >= 100.0 => (count, totals[0].unwrap() - old + 5000.0),
            _ => (count + 1, totals[0].unwrap() + 5000.0),
        };
        assert_eq!((after.0, after.1[0]), (new_count, Some(new_sum)), "{backing:?}");
    }
}

#[test]
fn truncated_and_missing_files_are_reported() {
    for backing in ALL {
        let table = Table::raw(STRIPES, 2);
        let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
            return;
        };
        let sums = program(2, &[], &[1]);
        run(&gpu, &table, &sums, 100.0, backing).unwrap();
        let file = std::fs::File::options().write(true).open(table.path(0)).unwrap();
        file.set_len(1000).unwrap();
        let refused = run(&gpu, &table, &sums, 100.0, backing).unwrap_err();
        assert!(refused.to_string().contains("has 1000 now"), "{refused}");
        std::fs::remove_file(table.path(0)).unwrap();
        let refused = run(&gpu, &table, &sums, 100.0, backing).unwrap_err();
        assert!(
            matches!(&refused, RunError::File { path, .. } if path.ends_with("0.bytes")),
            "{refused}"
        );
        let other = Table::raw(STRIPES, 2);
        let output = run(&gpu, &other, &sums, 100.0, backing).unwrap();
        assert_eq!(answer(&output), other.expected(100.0, &[1]));
    }
}

#[test]
fn failing_decoder_is_reported_and_partial_data_is_dropped() {
    let table = Table::new(&Shape {
        stripes: STRIPES,
        kinds: &[Kind::Raw, Kind::Decoded],
        segments: 1,
        group_rows: Some(1000),
    });
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sums = program(2, &[1], &[0, 1]);
    *table.decoder.fail.lock().unwrap() = Some("trips.orc, stripe 3: a run ends early".to_owned());
    let refused = run(&gpu, &table, &sums, 100.0, BackingChoice::Auto).unwrap_err();
    assert_eq!(refused.to_string(), "trips.orc, stripe 3: a run ends early");
    assert_eq!(gpu.resident_bytes(), 0);
    *table.decoder.fail.lock().unwrap() = None;
    let output = run(&gpu, &table, &sums, 100.0, BackingChoice::Auto).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[0, 1]));
    // The column has NULLs though the planner declared none.
    let refused = run(&gpu, &table, &program(2, &[], &[1]), 100.0, BackingChoice::Auto);
    gpu.forget().unwrap();
    let refused = refused
        .and(run(&gpu, &table, &program(2, &[], &[1]), 100.0, BackingChoice::Auto))
        .unwrap_err();
    assert!(matches!(refused, RunError::Decode(_)), "{refused}");
}

/// A panic of a thread that reads columns or pages is the caller's, and no other thread waits for it.
#[test]
fn panic_while_a_column_is_decoded_ends_the_query_and_the_next_one_works() {
    let table = Table::new(&Shape {
        stripes: STRIPES,
        kinds: &[Kind::Raw, Kind::Decoded],
        segments: 1,
        group_rows: Some(1000),
    });
    let sums = program(2, &[1], &[0, 1]);
    for backing in ALL {
        for later in 1..4 {
            let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
                return;
            };
            let calls = table.decoder.calls.load(Ordering::Relaxed);
            table.decoder.panics_at.store(calls + later, Ordering::Relaxed);
            let ran = catch_unwind(AssertUnwindSafe(|| run(&gpu, &table, &sums, 100.0, backing)));
            assert!(ran.is_err(), "{backing:?}, call {later}");
            let output = run(&gpu, &table, &sums, 100.0, backing).unwrap();
            assert_eq!(
                answer(&output),
                table.expected(100.0, &[0, 1]),
                "{backing:?}, call {later}"
            );
        }
    }
}

#[test]
fn cancelled_query_ends_and_the_next_one_works() {
    let table = Table::raw(STRIPES, 2);
    let (reads, first_read) = mpsc::channel();
    let reads = Mutex::new(reads);
    let options = RuntimeOptions {
        timeout: Duration::from_secs(3600), // only the cancellation ends the query
        open_storage: Arc::new(move |file, _| {
            let file = CachedFile::open(&file.path)?;
            let reads = reads.lock().unwrap().clone();
            Ok(SilentStorage { file, reads }.into())
        }),
        ..RuntimeOptions::default()
    };
    let Some(gpu) = gpu(None, options) else {
        return;
    };
    let sums = program(2, &[], &[1]);
    let cancel = Arc::new(AtomicBool::new(true));
    let request = Request {
        program: &sums,
        arguments: &[Value::Float(100.0)],
        input: &Arc::new(table.input.clone()),
        backing: BackingChoice::All(Backing::Queued),
        decompression: Decompression::default(),
        selectivity: 0.01,
        waits_for_memory: false,
        cancel: &cancel,
    };
    assert!(matches!(gpu.run(request), Err(RunError::Cancelled)));
    assert!(first_read.try_recv().is_err(), "a cancelled query reads");
    cancel.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let cancel = &cancel;
        scope.spawn(move || {
            first_read.recv().expect("the kernel reads"); // and waits for its values
            cancel.store(true, Ordering::Relaxed);
        });
        let ended = gpu.run(request);
        assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");
    });
    let output = run(&gpu, &table, &sums, 100.0, BackingChoice::All(Backing::Mapped)).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1]));
}

/// A file that answers no read, and reports each that starts.
#[derive(Debug)]
struct SilentStorage {
    file: CachedFile,
    reads: mpsc::Sender<()>,
}

impl Storage for SilentStorage {
    fn describe(&self) -> String {
        self.file.describe()
    }

    fn size_bytes(&self) -> u64 {
        self.file.size_bytes()
    }

    fn channel(&self, _depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        let (reads, started) = (self.reads.clone(), Vec::new());
        Ok(Box::new(SilentChannel { reads, started }))
    }
}

struct SilentChannel {
    reads: mpsc::Sender<()>,
    started: Vec<ReadRequest>,
}

impl Channel for SilentChannel {
    fn start(&mut self, request: ReadRequest) -> Result<(), ReadRequest> {
        self.started.push(request);
        let _ = self.reads.send(());
        Ok(())
    }

    fn poll(&mut self, _done: &mut Vec<ReadDone>) {}

    fn in_flight(&self) -> usize {
        0 // as if forgotten: no thread waits for them
    }
}

/// A file on a drive that reads whole blocks of 4 KiB, and nothing else.
#[derive(Debug)]
struct LongBlocks(CachedFile);

impl Storage for LongBlocks {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn block_bytes(&self) -> u64 {
        4096
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        Ok(Box::new(LongBlocksChannel(self.0.channel(depth)?)))
    }
}

struct LongBlocksChannel(Box<dyn Channel>);

impl Channel for LongBlocksChannel {
    fn start(&mut self, request: ReadRequest) -> Result<(), ReadRequest> {
        let (at, len) = (request.offset_bytes, request.memory.len());
        assert!(
            at.is_multiple_of(4096) && len.is_multiple_of(4096),
            "{len} bytes at {at}"
        );
        self.0.start(request)
    }

    fn poll(&mut self, done: &mut Vec<ReadDone>) {
        self.0.poll(done);
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }
}

#[test]
fn drives_of_long_blocks_are_read_in_whole_blocks() {
    let table = Table::raw(STRIPES, 3);
    for sector_log2 in [9, 12] {
        let options = RuntimeOptions {
            sector_log2,
            open_storage: Arc::new(|file, _| Ok(LongBlocks(CachedFile::open(&file.path)?).into())),
            ..RuntimeOptions::default()
        };
        let Some(gpu) = gpu(None, options) else { return };
        for bound in [100.0, 120.0, 0.0] {
            let queued = BackingChoice::All(Backing::Queued);
            let output = run(&gpu, &table, &program(3, &[], &[1, 2]), bound, queued).unwrap();
            assert_eq!(
                answer(&output),
                table.expected(bound, &[1, 2]),
                "{sector_log2}, {bound}"
            );
        }
    }
}

/// Options for a fault of the first file's storage.
fn faulty(rule: FaultRule) -> RuntimeOptions {
    RuntimeOptions {
        timeout: Duration::from_secs(3),
        open_storage: Arc::new(move |file, _| {
            let storage = CachedFile::open(&file.path)?;
            if !file.path.ends_with("0.bytes") {
                return Ok(storage.into());
            }
            Ok(FaultyStorage::new(Box::new(storage), vec![rule.clone()]).into())
        }),
        ..RuntimeOptions::default()
    }
}

#[test]
fn storage_faults_are_reported_and_the_next_query_works() {
    let table = Table::raw(STRIPES, 3);
    let sums = program(3, &[], &[1, 2]);
    let queued = BackingChoice::All(Backing::Queued);
    let late = FaultRule {
        bytes: 0..u64::MAX,
        every: 3,
        at_most: 1,
        action: FaultAction::Delay(Duration::from_millis(3500)),
    };
    let Some(gpu) = gpu(None, faulty(late)) else {
        return;
    };
    let refused = run(&gpu, &table, &sums, 100.0, queued).unwrap_err();
    assert!(matches!(refused, RunError::Stack(_)), "{refused:?}");
    assert!(refused.to_string().contains("no answer came in time"), "{refused}");
    let output = run(&gpu, &table, &sums, 100.0, queued).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1, 2]));
}

/// The reads of column 2 fail, some or all. A prefetch that fails is read again; a read that a kernel waits for is not.
#[test]
fn failed_reads_are_reported_and_failed_prefetches_are_read_again() {
    let table = Table::raw(STRIPES, 3);
    let queued = BackingChoice::All(Backing::Queued);
    let Placement::Direct(segments) = &table.input.stripes[0].columns[2] else {
        panic!()
    };
    let first = segments[0].offset.next_multiple_of(4096);
    for action in [FaultAction::Fail(StatusCode::UnrecoveredReadError), FaultAction::Short] {
        let rule = |at_most| FaultRule {
            bytes: first..first + 100_000,
            every: 1,
            at_most,
            action,
        };
        let Some(broken) = gpu(None, faulty(rule(u64::MAX))) else {
            return;
        };
        let refused = run(&broken, &table, &program(3, &[], &[1, 2]), 100.0, queued).unwrap_err();
        assert!(matches!(refused, RunError::Stack(_)), "{refused:?}");
        assert!(refused.to_string().contains("NVMe status"), "{refused}");
        let sums = program(2, &[], &[1]);
        let output = run(&broken, &table, &sums, 100.0, queued).unwrap_or_else(|e| panic!("{action:?}: {e}"));
        assert_eq!(answer(&output), table.expected(100.0, &[1]), "{action:?}");

        // Dependent columns are prefetched, so that the first read of each line is a prefetch.
        let Some(once) = gpu(None, faulty(rule(1))) else { return };
        let output = run(&once, &table, &program(3, &[], &[1, 2]), 100.0, queued);
        let output = output.unwrap_or_else(|e| panic!("{action:?}: {e}"));
        assert_eq!(answer(&output), table.expected(100.0, &[1, 2]), "{action:?}");
    }
}

#[test]
fn stalled_storage_costs_one_stack_and_not_the_device() {
    let table = Table::raw(STRIPES, 2);
    let sums = program(2, &[], &[1]);
    let rule = FaultRule {
        bytes: 0..u64::MAX,
        every: 2,
        at_most: 1,
        action: FaultAction::Drop,
    };
    let Some(gpu) = gpu(None, faulty(rule)) else { return };
    let refused = run(&gpu, &table, &sums, 100.0, BackingChoice::All(Backing::Queued)).unwrap_err();
    assert!(matches!(refused, RunError::Stack(_)), "{refused}");
    let output = run(&gpu, &table, &sums, 100.0, BackingChoice::All(Backing::Resident)).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1]));
}

#[test]
fn unopenable_storage_names_the_file() {
    let table = Table::raw(STRIPES, 1);
    let options = RuntimeOptions {
        open_storage: Arc::new(|_, _| Err(std::io::Error::other("no such drive"))),
        ..RuntimeOptions::default()
    };
    let Some(gpu) = gpu(None, options) else { return };
    let refused = run(
        &gpu,
        &table,
        &program(1, &[], &[0]),
        1.0,
        BackingChoice::All(Backing::Queued),
    )
    .unwrap_err();
    assert!(refused.to_string().contains("bytes: no such drive"), "{refused}");
}

#[test]
fn insufficient_device_memory_is_reported() {
    let table = Table::raw(STRIPES, 2);
    let Some(gpu) = gpu(Some(2_000), RuntimeOptions::default()) else {
        return;
    };
    let sums = program(2, &[], &[1]);
    let refused = run(&gpu, &table, &sums, 100.0, BackingChoice::All(Backing::Resident)).unwrap_err();
    assert!(matches!(refused, RunError::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("too few"), "{refused}");
    let output = run(&gpu, &table, &sums, 100.0, BackingChoice::All(Backing::Mapped)).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1]));
}

/// A decoder that truncates a file while it is being read.
#[derive(Debug)]
struct TruncatingDecoder(std::path::PathBuf);

impl Decode for TruncatingDecoder {
    fn decode(
        &self,
        _: usize,
        _: usize,
        rows: std::ops::Range<u64>,
    ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>> {
        std::fs::File::options().write(true).open(&self.0)?.set_len(300_000)?;
        Ok(Decoded {
            values: vec![0; (rows.end - rows.start) as usize * 8],
            valid: None,
        })
    }
}

#[test]
fn file_truncated_during_a_read_is_reported() {
    let mut table = Table::new(&Shape {
        stripes: &[&[20_000, 20_000, 20_000]],
        kinds: &[Kind::Decoded, Kind::Raw],
        segments: 1,
        group_rows: Some(1000),
    });
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    table.input.decoder = Arc::new(TruncatingDecoder(table.path(0)));
    let refused = run(&gpu, &table, &program(2, &[0], &[1]), 0.0, BackingChoice::Auto).unwrap_err();
    assert!(matches!(refused, RunError::FileChanged { .. }), "{refused}");
    assert_eq!(gpu.resident_bytes(), 0);
}

#[test]
fn inputs_that_point_outside_their_files_are_refused() {
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sums = program(1, &[], &[0]);
    let refuse = |change: &dyn Fn(&mut Table), words: &str| {
        let mut table = Table::raw(STRIPES, 1);
        change(&mut table);
        for backing in ALL {
            let refused = run(&gpu, &table, &sums, 1.0, backing).unwrap_err();
            assert!(matches!(refused, RunError::Invalid(_)), "{refused}");
            assert!(refused.to_string().contains(words), "{refused}");
        }
    };
    let segment = |first_row, rows, offset| {
        Placement::Direct(vec![Segment {
            first_row,
            rows,
            offset,
        }])
    };
    refuse(
        &|t| t.input.stripes[0].columns[0] = segment(0, 20_000, u64::MAX - 7),
        "outside",
    );
    refuse(
        &|t| t.input.stripes[0].columns[0] = segment(0, 20_000, t.input.files[0].bytes),
        "outside",
    );
    refuse(
        &|t| t.input.stripes[0].columns[0] = segment(0, 19_999, 0),
        "19999 rows of 20000",
    );
    refuse(&|t| t.input.stripes[0].columns[0] = segment(1, 19_999, 0), "nowhere");
    refuse(
        &|t| t.input.stripes[0].selected = std::iter::once(5..5).collect(),
        "selected",
    );
    refuse(
        &|t| t.input.stripes[0].selected = std::iter::once(0..20_001).collect(),
        "selected",
    );
    refuse(&|t| t.input.stripes[0].selected = vec![5..9, 8..10], "selected");
    refuse(&|t| t.input.stripes[1].file = 7, "file 7 of 2");
    refuse(&|t| t.input.column_ids.clear(), "column ids");
    refuse(&|t| t.input.stripes[0].columns[0] = Placement::Constant(None), "NULL");
}
