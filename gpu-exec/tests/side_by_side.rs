//! Queries of several threads on one device: each makes progress while others run, whatever they share.
//!
//! The order of events is asserted, not times. The tests are skipped, with a message, without a C++ compiler.

mod temporary_table;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use grampus_driver::storage::{CachedFile, FaultAction, FaultRule, FaultyStorage};
use grampus_gpu_exec::input::{Decode, Decoded, Input};
use grampus_gpu_exec::program::{Program, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, Output, Request, RunError, RuntimeOptions};
use temporary_table::{ALL, Kind, Shape, Table, answer, gpu, program, run};

const STRIPES: &[&[u64]] = &[&[20_000, 7_001], &[9_999]];
const RESIDENT: BackingChoice = BackingChoice::All(Backing::Resident);
/// Longest wait for an event that must come. A test that waits so long fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A gate that a decoder waits at.
#[derive(Debug, Default)]
struct Gate {
    open: Mutex<bool>,
    reached: AtomicUsize,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    /// False: the gate was not opened.
    fn pass(&self) -> bool {
        self.reached.fetch_add(1, Ordering::SeqCst);
        let open = self.open.lock().unwrap();
        !self
            .changed
            .wait_timeout_while(open, PATIENCE, |open| !*open)
            .unwrap()
            .1
            .timed_out()
    }

    fn wait_until_reached(&self) {
        while self.reached.load(Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
}

/// A decoder that waits at a gate.
#[derive(Debug)]
struct GatedDecoder {
    inner: Arc<dyn Decode>,
    gate: Arc<Gate>,
}

impl Decode for GatedDecoder {
    fn decode(
        &self,
        stripe: usize,
        column: usize,
        rows: Range<u64>,
    ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>> {
        match self.gate.pass() {
            true => self.inner.decode(stripe, column, rows),
            false => Err("no other query came to its end meanwhile".into()),
        }
    }
}

fn decoded_table() -> Table {
    Table::new(&Shape {
        stripes: STRIPES,
        kinds: &[Kind::Raw, Kind::Decoded],
        segments: 1,
        group_rows: Some(1000),
    })
}

fn gated(table: &Table, gate: &Arc<Gate>) -> Arc<Input> {
    let mut input = table.input.clone();
    input.decoder = Arc::new(GatedDecoder {
        inner: table.decoder.clone(),
        gate: gate.clone(),
    });
    Arc::new(input)
}

fn run_input(
    gpu: &Gpu,
    input: &Arc<Input>,
    program: &Program,
    backing: BackingChoice,
    cancel: &Arc<AtomicBool>,
) -> Result<Output, RunError> {
    gpu.run(Request {
        program,
        arguments: &[Value::Float(100.0)],
        input,
        backing,
        decompression: Decompression::default(),
        selectivity: 0.0025,
        waits_for_memory: false,
        cancel,
    })
}

fn never() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

/// A query waits for its decoder. Others of each backing, over the same and over another file, come to their ends
/// meanwhile; so do plans.
#[test]
fn queries_come_to_their_ends_while_another_one_loads() {
    let (slow, other) = (decoded_table(), Table::raw(STRIPES, 2));
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let gate = Arc::new(Gate::default());
    let (input, sums) = (gated(&slow, &gate), program(2, &[1], &[0, 1]));
    std::thread::scope(|scope| {
        let long = scope.spawn(|| run_input(&gpu, &input, &sums, RESIDENT, &never()));
        gate.wait_until_reached();
        for backing in ALL {
            let output = run(&gpu, &other, &program(2, &[], &[0, 1]), 100.0, backing).unwrap();
            assert_eq!(answer(&output), other.expected(100.0, &[0, 1]), "{backing:?}");
            // Of the same columns, which the long query is loading.
            let output = run(&gpu, &slow, &sums, 100.0, backing).unwrap();
            assert_eq!(answer(&output), slow.expected(100.0, &[0, 1]), "{backing:?}");
        }
        let request = Request {
            program: &sums,
            arguments: &[Value::Float(100.0)],
            input: &input,
            backing: BackingChoice::Auto,
            decompression: Decompression::default(),
            selectivity: 0.0025,
            waits_for_memory: false,
            cancel: &never(),
        };
        assert_eq!(gpu.plan(request).unwrap().columns.len(), 2);
        assert!(gpu.kernel_source(request).unwrap().contains("grampus"));
        assert!(!long.is_finished());
        gate.open();
        let output = long.join().unwrap().unwrap();
        assert_eq!(answer(&output), slow.expected(100.0, &[0, 1]));
    });
}

/// Row groups that kernels miss are decoded while another query pages the same column.
#[test]
fn one_column_is_paged_by_two_queries_at_once() {
    let table = decoded_table();
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let gate = Arc::new(Gate::default());
    let (input, sums) = (gated(&table, &gate), program(2, &[1], &[1]));
    let paged = BackingChoice::All(Backing::Paged);
    std::thread::scope(|scope| {
        let long = scope.spawn(|| run_input(&gpu, &input, &sums, paged, &never()));
        gate.wait_until_reached();
        for _ in 0..3 {
            let output = run(&gpu, &table, &sums, 100.0, paged).unwrap();
            assert_eq!(answer(&output), table.expected(100.0, &[1]));
        }
        gate.open();
        assert_eq!(answer(&long.join().unwrap().unwrap()), table.expected(100.0, &[1]));
    });
    let again = run(&gpu, &table, &sums, 100.0, paged).unwrap();
    assert_eq!((answer(&again), again.cost.pages), (table.expected(100.0, &[1]), 0));
}

/// A query that is cancelled while others load leaves at once, and so does one that waits for a file's pages.
#[test]
fn cancelled_queries_leave_at_once() {
    let table = decoded_table();
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let gate = Arc::new(Gate::default());
    let (input, sums) = (gated(&table, &gate), program(2, &[1], &[1]));
    let cancel = never();
    std::thread::scope(|scope| {
        let queries: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| run_input(&gpu, &input, &sums, RESIDENT, &cancel)))
            .collect();
        gate.wait_until_reached();
        cancel.store(true, Ordering::Relaxed);
        gate.open(); // decoders are not interrupted
        for query in queries {
            assert!(matches!(query.join().unwrap(), Err(RunError::Cancelled)));
        }
    });
    let output = run(&gpu, &table, &sums, 100.0, BackingChoice::Auto).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1]));
}

/// Storages that delay every read, and count.
fn delayed(reads: &Arc<AtomicUsize>) -> RuntimeOptions {
    let reads = reads.clone();
    RuntimeOptions {
        open_storage: Arc::new(move |file, _| {
            reads.fetch_add(1, Ordering::SeqCst);
            let rule = FaultRule {
                bytes: 0..u64::MAX,
                every: 1,
                at_most: u64::MAX,
                action: FaultAction::Delay(Duration::from_millis(2)),
            };
            Ok(FaultyStorage::new(Box::new(CachedFile::open(&file.path)?), vec![rule]).into())
        }),
        launch_rows: Some(4096),
        ..RuntimeOptions::default()
    }
}

/// Queries that read by command take turns between launches: a short one ends before a long one that began first.
#[test]
fn a_short_query_by_command_ends_before_a_long_one() {
    let (long, short) = (Table::raw(&[&[400_000]], 2), Table::raw(&[&[2_000]], 2));
    let opened = Arc::new(AtomicUsize::new(0));
    let Some(gpu) = gpu(None, delayed(&opened)) else { return };
    let (sums, queued) = (program(2, &[], &[1]), BackingChoice::All(Backing::Queued));
    // The kernel is compiled before.
    run(&gpu, &short, &sums, 100.0, queued).unwrap();
    let before = opened.load(Ordering::SeqCst);
    let ended = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let output = run(&gpu, &long, &sums, 100.0, queued).unwrap();
            (ended.fetch_add(1, Ordering::SeqCst), answer(&output))
        });
        while opened.load(Ordering::SeqCst) == before {
            std::thread::yield_now(); // the long one has the stack from now on
        }
        let output = run(&gpu, &short, &sums, 100.0, queued).unwrap();
        let order = ended.fetch_add(1, Ordering::SeqCst);
        assert_eq!((order, answer(&output)), (0, short.expected(100.0, &[1])));
        let (order, answer) = first.join().unwrap();
        assert_eq!((order, answer), (1, long.expected(100.0, &[1])));
    });
}

/// Memory is given back while kernels wait for the controller. The driver's calls for that wait for kernels, and the
/// controller's copies for these calls.
#[test]
fn memory_is_given_back_beside_a_query_by_command() {
    let (long, short) = (Table::raw(&[&[200_000]], 2), Table::raw(&[&[2_000]], 2));
    let options = RuntimeOptions {
        timeout: Duration::from_secs(5), // else the kernel gives up
        ..delayed(&Arc::default())
    };
    let Some(gpu) = gpu(None, options) else { return };
    let sums = program(2, &[], &[1]);
    std::thread::scope(|scope| {
        let by_command = scope.spawn(|| run(&gpu, &long, &sums, 100.0, BackingChoice::All(Backing::Queued)));
        // Of so many queries that end at once, some leave resources that are not kept.
        let beside = || {
            while !by_command.is_finished() {
                let output = run(&gpu, &short, &sums, 100.0, RESIDENT).unwrap();
                assert_eq!(answer(&output), short.expected(100.0, &[1]));
            }
        };
        std::thread::scope(|scope| (0..7).for_each(|_| drop(scope.spawn(beside))));
        let output = by_command.join().unwrap().unwrap();
        assert_eq!(answer(&output), long.expected(100.0, &[1]));
    });
}

/// The columns of two queries do not fit together. One that may wait for memory is not refused.
#[test]
fn a_query_waits_for_the_memory_of_another_if_it_may() {
    let (first, second) = (decoded_table(), Table::raw(&[&[60_000]], 2));
    // The first query's columns take nearly all of it, and windows do not fit beside them.
    let first_bytes = first.rows * 16 + first.rows.div_ceil(8);
    let Some(gpu) = gpu(Some(first_bytes + 20_000), RuntimeOptions::default()) else {
        return;
    };
    let gate = Arc::new(Gate::default());
    let (input, sums) = (gated(&first, &gate), program(2, &[1], &[1]));
    std::thread::scope(|scope| {
        let long = scope.spawn(|| run_input(&gpu, &input, &sums, RESIDENT, &never()));
        gate.wait_until_reached();
        let sums = program(2, &[], &[1]);
        let second_input = Arc::new(second.input.clone());
        let refused = run_input(&gpu, &second_input, &sums, RESIDENT, &never()).unwrap_err();
        assert!(matches!(refused, RunError::Refused(_)), "{refused}");
        let gpu = &gpu;
        let waits = scope.spawn(move || {
            gpu.run(Request {
                program: &sums,
                arguments: &[Value::Float(100.0)],
                input: &second_input,
                backing: RESIDENT,
                decompression: Decompression::default(),
                selectivity: 0.0025,
                waits_for_memory: true,
                cancel: &never(),
            })
        });
        gate.open();
        assert!(long.join().unwrap().is_ok());
        let output = waits.join().unwrap().unwrap();
        assert_eq!(answer(&output), second.expected(100.0, &[1]));
    });
}

/// Random queries of four threads over shared tables, in little memory, with cancellations.
#[test]
fn answers_of_queries_at_once_are_those_of_one_at_a_time() {
    let tables: Vec<Table> = (0..3)
        .map(|_| {
            Table::new(&Shape {
                stripes: &[&[20_000, 7_001], &[9_999]],
                kinds: &[Kind::Raw, Kind::Decoded, Kind::Constant(2.5), Kind::Stored, Kind::Raw],
                segments: 2,
                group_rows: Some(1000),
            })
        })
        .collect();
    let inputs: Vec<Arc<Input>> = tables.iter().map(|table| Arc::new(table.input.clone())).collect();
    for cache_bytes in [Some(900_000), Some(4_000_000), None] {
        let options = RuntimeOptions {
            launch_rows: Some(8192),
            ..RuntimeOptions::default()
        };
        let Some(gpu) = gpu(cache_bytes, options) else { return };
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (gpu, tables, inputs) = (&gpu, &tables, &inputs);
                scope.spawn(move || {
                    let mut state = 0x2545_F491_4F6C_DD1Du64.wrapping_mul(thread + 1);
                    let mut below = |n: u64| {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        state % n
                    };
                    let sums = program(5, &[1, 3], &[0, 1, 2, 3, 4]);
                    for query in 0..12 {
                        let at = below(3) as usize;
                        let (table, input) = (&tables[at], &inputs[at]);
                        let backing = ALL[below(5) as usize];
                        let cancel = never();
                        let ended = std::thread::scope(|scope| {
                            if below(4) == 0 {
                                let (cancel, after) = (cancel.clone(), below(5_000));
                                scope.spawn(move || {
                                    std::thread::sleep(Duration::from_micros(after));
                                    cancel.store(true, Ordering::Relaxed);
                                });
                            }
                            run_input(gpu, input, &sums, backing, &cancel)
                        });
                        match ended {
                            Ok(output) => assert_eq!(
                                answer(&output),
                                table.expected(100.0, &[0, 1, 2, 3, 4]),
                                "thread {thread}, query {query}, {backing:?}, {cache_bytes:?}"
                            ),
                            Err(RunError::Cancelled | RunError::Refused(_)) => {}
                            Err(e) => panic!("thread {thread}, query {query}, {backing:?}, {cache_bytes:?}: {e}"),
                        }
                    }
                });
            }
        });
    }
}
