//! Paged columns: a missed page is loaded once and cached, and answers equal those of fully resident columns to the
//! bit. Faults during paging are tested as well.
//!
//! The tests are skipped, with a message, without a C++ compiler.

mod temporary_table;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grampus_gpu_exec::RunError;
use grampus_gpu_exec::input::{Decode, Decoded, FileVersion};
use grampus_gpu_exec::output::{Output, ResultValues};
use grampus_gpu_exec::program::{BinaryOp, Expr, Program, Type, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, Request, RuntimeOptions};
use temporary_table::{Kind, Shape, Table, answer, gpu, is_cuda, program, run};

const PAGED: BackingChoice = BackingChoice::All(Backing::Paged);
const WHOLE: BackingChoice = BackingChoice::All(Backing::Resident);

/// Runs with one argument for each conjunct, and returns the bits of the sums.
fn bits(gpu: &Gpu, table: &Table, program: &Program, arguments: &[f64], backing: BackingChoice) -> (Output, Vec<u64>) {
    let arguments: Vec<Value> = arguments.iter().map(|a| Value::Float(*a)).collect();
    let output = gpu.run(Request {
        program,
        arguments: &arguments,
        input: &Arc::new(table.first_columns(program.columns.len())),
        backing,
        decompression: Decompression::default(),
        selectivity: 0.0025,
        waits_for_memory: false,
        cancel: &Arc::new(AtomicBool::new(false)),
    });
    let output = output.unwrap_or_else(|e| panic!("{backing:?}: {e}"));
    let of = |values: &ResultValues| match values {
        ResultValues::Int(values) => values.iter().map(|v| *v as u64).collect(),
        ResultValues::Float(values) => values.iter().map(|v| v.to_bits()).collect::<Vec<u64>>(),
        _ => panic!("neither decimals nor moments here"),
    };
    let bits = output.aggregates.iter().flat_map(|a| of(&a.values)).collect();
    (output, bits)
}

/// Sums of `c / 0.7`, which are not exact: their bits depend on the order of additions.
fn inexact(mut program: Program) -> Program {
    let last = program.arguments.len();
    program.arguments.push(Type::Float64);
    for aggregate in &mut program.aggregates {
        aggregate.argument = aggregate.argument.take().map(|value| Expr::Binary {
            op: BinaryOp::Divide,
            left: Box::new(value),
            right: Box::new(Expr::Argument(last)),
        });
    }
    program
}

#[test]
fn missed_pages_are_loaded_once_and_cached() {
    let table = Table::raw(&[&[100_000, 100_000], &[33_333]], 4);
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sums = program(4, &[], &[1, 2, 3]);
    let filter = table.rows * 8;
    let (first, _) = bits(&gpu, &table, &sums, &[100.0], PAGED);
    assert_eq!(answer(&first), table.expected(100.0, &[1, 2, 3]));
    let cost = &first.cost;
    assert!(cost.passed > 100 && cost.pages <= 3 * cost.passed, "{cost:?}");
    assert!(cost.pages > 2 * cost.passed, "few rows share a page: {cost:?}");
    // Pages up to 2 KiB apart, about half of these, are read with the bytes between them.
    assert!(
        (cost.pages * 2 * 64..cost.pages * 2048).contains(&cost.page_bytes),
        "{cost:?}"
    );
    assert_eq!(
        (cost.pushed_bytes, cost.moved_bytes()),
        (filter, filter + cost.page_bytes)
    );
    assert_eq!(cost.needed_bytes, filter + 3 * 8 * cost.passed);
    assert_eq!(cost.passes, 2, "one finds all that a step misses");
    let (again, _) = bits(&gpu, &table, &sums, &[100.0], PAGED);
    assert_eq!(
        (again.cost.moved_bytes(), again.cost.pages, again.cost.passes),
        (0, 0, 1)
    );
    assert!(again.cost.resident_bytes > filter, "{:?}", again.cost);
    // Other literals miss pages that only they need. Then all pages are resident, and the column is no longer paged.
    let (more, _) = bits(&gpu, &table, &sums, &[99.0], PAGED);
    assert_eq!(answer(&more), table.expected(99.0, &[1, 2, 3]));
    assert!(
        more.cost.pages > 0 && more.cost.pages < 3 * more.cost.passed,
        "{:?}",
        more.cost
    );
    let (all, _) = bits(&gpu, &table, &sums, &[0.0], PAGED);
    assert_eq!(answer(&all), table.expected(0.0, &[1, 2, 3]));
    // The list of host threads is small.
    let least = if is_cuda() { 2 } else { 11 };
    assert!(
        all.cost.passes >= least,
        "more pages than the list holds: {:?}",
        all.cost
    );
    let pages = 3 * table.input.stripes.iter().map(|s| s.rows.div_ceil(8)).sum::<u64>();
    assert_eq!(cost.pages + more.cost.pages + all.cost.pages, pages);
    assert_eq!(gpu.resident_bytes(), 4 * filter, "no bits of pages are left");
    let (whole, _) = bits(&gpu, &table, &sums, &[100.0], WHOLE);
    assert_eq!((answer(&whole), whole.cost.moved_bytes()), (answer(&first), 0));
}

#[test]
fn paged_answers_equal_resident_answers_to_the_bit() {
    let table = Table::raw(&[&[100_000, 50_000]], 3);
    for launch_bytes in [1, 300_000, 64 << 20] {
        let options = RuntimeOptions {
            launch_bytes,
            ..RuntimeOptions::default()
        };
        let Some(gpu) = gpu(None, options) else { return };
        let sums = inexact(program(3, &[], &[1, 2]));
        let arguments = [95.0, 0.7];
        let first = bits(&gpu, &table, &sums, &arguments, PAGED);
        assert!(first.0.cost.passes > 1);
        let again = bits(&gpu, &table, &sums, &arguments, PAGED);
        assert_eq!((again.0.cost.passes, again.1), (1, first.1.clone()));
        gpu.forget().unwrap();
        let whole = bits(&gpu, &table, &sums, &arguments, WHOLE);
        assert_eq!(whole.1, first.1, "launches of {launch_bytes} bytes");
    }
}

/// `c0 >= $0 AND c1 >= $1 AND c2 >= $2`, as many of these as there are arguments.
fn cascade(columns: usize, nullable: &[usize], sums: &[usize], conjuncts: usize) -> Program {
    let mut program = program(columns, nullable, sums);
    for at in 1..conjuncts {
        program.arguments.push(Type::Float64);
        program.conjuncts.push(Expr::Binary {
            op: BinaryOp::GtEq,
            left: Box::new(Expr::Column(at)),
            right: Box::new(Expr::Argument(at)),
        });
    }
    program
}

#[test]
fn each_step_of_a_cascade_may_miss_something() {
    let kinds = [
        Kind::Raw,
        Kind::Raw,
        Kind::Decoded,
        Kind::Raw,
        Kind::Decoded,
        Kind::Constant(1.5),
    ];
    let table = Table::new(&Shape {
        stripes: &[&[40_000, 30_001], &[1], &[20_000]],
        kinds: &kinds,
        segments: 3,
        group_rows: Some(1000),
    });
    for conjuncts in [2, 3] {
        let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
            return;
        };
        let program = cascade(6, &[2, 4], &[3, 4, 5], conjuncts);
        for bounds in [[100.0, 100.0, 60.0], [100.0, 20.0, 100.0], [100.0, 0.0, 0.0]] {
            let bounds = &bounds[..conjuncts];
            gpu.forget().unwrap();
            let (paged, found) = bits(&gpu, &table, &program, bounds, PAGED);
            let (again, same) = bits(&gpu, &table, &program, bounds, PAGED);
            assert_eq!((again.cost.passes, &same), (1, &found));
            assert!(
                (2..=conjuncts as u64 + 2).contains(&paged.cost.passes),
                "{:?}",
                paged.cost
            );
            let other = temporary_table::gpu(None, RuntimeOptions::default()).unwrap();
            let (_, whole) = bits(&other, &table, &program, bounds, WHOLE);
            assert_eq!(found, whole, "{bounds:?}");
        }
    }
}

#[test]
fn only_row_groups_with_rows_that_pass_are_decoded() {
    let table = Table::new(&Shape {
        stripes: &[&[60_000, 60_000], &[777, 40_000]],
        kinds: &[Kind::Raw, Kind::Decoded, Kind::Decoded],
        segments: 1,
        group_rows: Some(104),
    });
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sums = program(3, &[1, 2], &[1, 2]);
    let output = run(&gpu, &table, &sums, 100.0, PAGED).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1, 2]));
    let (passed, calls) = (output.cost.passed, table.decoder.calls.load(Ordering::Relaxed) as u64);
    assert!(
        passed > 100 && calls > passed && calls <= 2 * passed,
        "{calls} for {passed} rows"
    );
    assert_eq!((output.cost.pages, output.cost.page_bytes), (calls, 0));
    const GROUP_BYTES: u64 = 104 * 8 + 104 / 8;
    let missing = GROUP_BYTES * calls + table.rows * 8 - output.cost.pushed_bytes;
    assert!(
        missing < GROUP_BYTES,
        "whole groups, but for a stripe's last: {:?}",
        output.cost
    );
    run(&gpu, &table, &sums, 100.0, PAGED).unwrap();
    assert_eq!(table.decoder.calls.load(Ordering::Relaxed) as u64, calls, "kept");
}

#[test]
fn stripe_without_a_row_index_is_one_page() {
    let table = Table::new(&Shape {
        stripes: &[&[600_000], &[5_000]],
        kinds: &[Kind::Raw, Kind::Decoded],
        segments: 1,
        group_rows: None,
    });
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sums = program(2, &[1], &[1]);
    let output = run(&gpu, &table, &sums, 100.0, PAGED).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1]));
    assert_eq!(output.cost.pages, 2);
    let calls = table.decoder.calls.load(Ordering::Relaxed);
    assert_eq!(calls, 3, "the first is more than a slot holds");
    assert_eq!(gpu.resident_bytes(), table.rows * 16 + table.rows / 8, "both are whole");
}

/// Neighbours of 100 rows share a byte of validity, so that neither can come alone.
#[test]
fn row_groups_that_share_bytes_of_validity_come_together() {
    let table = Table::new(&Shape {
        stripes: &[&[60_000], &[777]],
        kinds: &[Kind::Raw, Kind::Decoded],
        segments: 1,
        group_rows: Some(100),
    });
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sums = program(2, &[1], &[1]);
    let output = run(&gpu, &table, &sums, 100.0, PAGED).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1]));
    assert_eq!((output.cost.pages, output.cost.passes), (0, 1));
    assert_eq!(gpu.resident_bytes(), table.rows * 16 + 60_000 / 8 + 777_u64.div_ceil(8));
}

#[test]
fn stripes_larger_than_the_pool_stream_through_windows() {
    let table = Table::new(&Shape {
        stripes: &[&[60_000, 60_000], &[60_000]],
        kinds: &[Kind::Raw, Kind::Decoded, Kind::Raw],
        segments: 2,
        group_rows: Some(1000),
    });
    for room in [100_000, 1_000_000, 3_000_000, 5_000_000, 8_000_000] {
        let Some(gpu) = gpu(Some(room), RuntimeOptions::default()) else {
            return;
        };
        let sums = program(3, &[1], &[1, 2]);
        for bound in [100.0, 90.0, 100.0] {
            let output = run(&gpu, &table, &sums, bound, PAGED).unwrap();
            assert_eq!(answer(&output), table.expected(bound, &[1, 2]), "{room} bytes");
            assert_eq!(
                output.cost.pages > 0 || output.cost.moved_bytes() == 0,
                room >= 5_000_000 || output.cost.passes > 1,
                "{room}: {:?}",
                output.cost
            );
            assert!(gpu.resident_bytes() <= room);
        }
    }
}

#[test]
fn partially_resident_columns_are_evicted_and_dropped_with_their_file() {
    let tables: Vec<Table> = (0..4).map(|_| Table::raw(&[&[30_000, 30_000]], 2)).collect();
    let Some(gpu) = gpu(Some(1_950_000), RuntimeOptions::default()) else {
        return;
    };
    let sums = program(2, &[], &[1]);
    for table in tables.iter().chain(&tables) {
        let output = run(&gpu, table, &sums, 100.0, PAGED).unwrap();
        assert_eq!(answer(&output), table.expected(100.0, &[1]));
        assert!(output.cost.pages > 0, "the others took its room");
        assert!(gpu.resident_bytes() <= 2_000_000);
    }
    // The next file changes.
    let mut table = Table::raw(&[&[30_000]], 2);
    run(&gpu, &table, &sums, 100.0, PAGED).unwrap();
    let mut bytes = std::fs::read(table.path(0)).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20)); // file times have steps
    bytes.push(0);
    std::fs::write(table.path(0), bytes).unwrap();
    let refused = run(&gpu, &table, &sums, 100.0, PAGED).unwrap_err();
    assert!(matches!(refused, RunError::FileChanged { .. }), "{refused}");
    table.input.files[0] = FileVersion::of(&table.path(0)).unwrap();
    let output = run(&gpu, &table, &sums, 100.0, PAGED).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1]));
    assert!(output.cost.pages > 0, "nothing of its earlier state was taken");
}

/// A decoder that calls a function when the first row group is decoded.
struct InterferingDecoder<F>(F);

impl<F> std::fmt::Debug for InterferingDecoder<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InterferingDecoder")
    }
}

impl<F: Fn() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync> Decode for InterferingDecoder<F> {
    fn decode(
        &self,
        _: usize,
        _: usize,
        rows: Range<u64>,
    ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>> {
        (self.0)()?;
        Ok(Decoded {
            values: vec![0; (rows.end - rows.start) as usize * 8],
            valid: None,
        })
    }
}

/// Runs over raw, decoded, and raw columns. The second conjunct needs the decoded one, so that the third is loaded
/// after it.
fn meddled(
    meddle: impl Fn() -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
) -> (Table, Program) {
    let mut table = Table::new(&Shape {
        stripes: &[&[40_000, 30_000]],
        kinds: &[Kind::Raw, Kind::Decoded, Kind::Raw],
        segments: 1,
        group_rows: Some(1000),
    });
    table.input.decoder = Arc::new(InterferingDecoder(meddle));
    (table, cascade(3, &[1], &[2], 2))
}

fn attempt(gpu: &Gpu, table: &Table, program: &Program, cancel: &Arc<AtomicBool>) -> Result<Output, RunError> {
    gpu.run(Request {
        program,
        arguments: &[Value::Float(100.0), Value::Float(0.0)],
        input: &Arc::new(table.input.clone()),
        backing: PAGED,
        decompression: Decompression::default(),
        selectivity: 0.0025,
        waits_for_memory: false,
        cancel,
    })
}

/// Checks that the next query works.
fn is_well(gpu: &Gpu) {
    assert_eq!(gpu.resident_bytes(), 0, "nothing half done is kept");
    let table = Table::raw(&[&[20_000]], 2);
    let output = run(gpu, &table, &program(2, &[], &[1]), 100.0, PAGED).unwrap();
    assert_eq!(answer(&output), table.expected(100.0, &[1]));
    assert_eq!(output.cost.passes, 2, "nothing is left in the list");
}

#[test]
fn query_cancelled_during_paging_ends() {
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let cancel = Arc::new(AtomicBool::new(false));
    let flag = cancel.clone();
    let (table, program) = meddled(move || {
        flag.store(true, Ordering::Relaxed);
        Ok(())
    });
    let ended = attempt(&gpu, &table, &program, &cancel);
    assert!(matches!(ended, Err(RunError::Cancelled)), "{ended:?}");
    is_well(&gpu);
}

#[test]
fn failing_decoder_and_truncated_file_during_paging_are_reported() {
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let cancel = Arc::new(AtomicBool::new(false));
    let (table, program) = meddled(|| Err("trips.orc, stripe 3: a run ends early".into()));
    let refused = attempt(&gpu, &table, &program, &cancel).unwrap_err();
    assert_eq!(refused.to_string(), "trips.orc, stripe 3: a run ends early");
    is_well(&gpu);
    gpu.forget().unwrap();
    // The raw column's values lie behind those of the filter.
    let path = Arc::new(std::sync::OnceLock::<std::path::PathBuf>::new());
    let cut = path.clone();
    let (table, program) = meddled(move || {
        let path = cut.get().expect("set before the query");
        Ok(std::fs::File::options().write(true).open(path)?.set_len(330_000)?)
    });
    path.set(table.path(0)).unwrap();
    let refused = attempt(&gpu, &table, &program, &cancel).unwrap_err();
    assert!(
        matches!(&refused, RunError::FileChanged { reason, .. } if reason.contains("has 330000 now")),
        "{refused}"
    );
    is_well(&gpu);
}
