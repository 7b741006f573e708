//! A query of which few rows pass: two conditions over raw columns, and sums of two columns that are stored.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grampus_cuda::Nvcomp;
use grampus_gpu_exec::input::Placement;
use grampus_gpu_exec::output::{Output, ResultValues};
use grampus_gpu_exec::program::{BinaryOp, Expr, Program, Type, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, Request, RunError};
use grampus_orc_layout::codec::Codec;

use super::compression::CODECS;
use super::{GROUP_ROWS, Kind, Shape, Table, is_cuda, is_null, program, value};

pub(crate) const PAGED: BackingChoice = BackingChoice::All(Backing::Paged);
pub(crate) const WHOLE: BackingChoice = BackingChoice::All(Backing::Resident);
pub(crate) const STRIPES: &[&[u64]] = &[&[60_000, 40_001], &[777, 30_000]];
/// Few enough rows pass that few row groups have one.
pub(crate) const BOUNDS: [f64; 2] = [100.0, 118.0];

/// Bytes of all columns in device memory: values of eight bytes, and a bit for each row of the columns with NULLs.
pub(crate) fn resident_bytes(table: &Table) -> u64 {
    let stripes = table.input.stripes.iter();
    let validity: u64 = stripes.map(|stripe| stripe.rows.div_ceil(8)).sum();
    4 * 8 * table.rows + 2 * validity
}

/// `count(*), sum(c2), sum(c3) WHERE c0 >= $0 AND c1 >= $1`.
fn sparse() -> Program {
    let mut program = program(4, &[2, 3], &[2, 3]);
    program.arguments.push(Type::Float64);
    program.conjuncts.push(Expr::Binary {
        op: BinaryOp::GtEq,
        left: Box::new(Expr::Column(1)),
        right: Box::new(Expr::Argument(1)),
    });
    program
}

/// A table whose columns c2 and c3 are of a kind.
pub(crate) fn sparse_table(stripes: &[&[u64]], kind: Kind) -> Table {
    table_of(stripes, [Kind::Raw, Kind::Raw, kind, kind])
}

/// A table with columns of these kinds. The conditions' columns have no NULLs.
pub(crate) fn table_of(stripes: &[&[u64]], kinds: [Kind; 4]) -> Table {
    Table::new(&Shape {
        stripes,
        kinds: &kinds,
        segments: 1,
        group_rows: Some(GROUP_ROWS),
    })
}

fn passing(table: &Table, bounds: [f64; 2]) -> Vec<u64> {
    let passes = |row: &u64| value(0, *row) >= bounds[0] && value(1, *row) >= bounds[1];
    table.selected_rows().filter(passes).collect()
}

/// The answer by plain loops.
pub(crate) fn expected(table: &Table, bounds: [f64; 2]) -> (i64, [f64; 2]) {
    let rows = passing(table, bounds);
    let sum = |column: usize| -> f64 {
        let has_nulls = table.kinds[column] == Kind::Stored;
        let values = rows.iter().filter(|row| !has_nulls || !is_null(**row));
        values.map(|row| value(column, *row)).sum()
    };
    (rows.len() as i64, [sum(2), sum(3)])
}

/// The number of pages of `page_rows` rows of one column with a row that passes.
pub(crate) fn touched_pages(table: &Table, bounds: [f64; 2], page_rows: u64) -> u64 {
    let rows = passing(table, bounds);
    let (mut first, mut touched) = (0, 0);
    for stripe in &table.input.stripes {
        let within = rows.iter().filter(|row| (first..first + stripe.rows).contains(row));
        let pages: BTreeSet<u64> = within.map(|row| (row - first) / page_rows).collect();
        touched += pages.len() as u64;
        first += stripe.rows;
    }
    touched
}

/// Bytes of the stored columns in their files.
pub(crate) fn stored_bytes(table: &Table) -> u64 {
    let columns = table.input.stripes.iter().flat_map(|stripe| &stripe.columns);
    let bytes = |placement: &Placement| match placement {
        Placement::Decoded { stored_bytes, .. } => *stored_bytes,
        _ => 0,
    };
    columns.map(bytes).sum()
}

/// nvCOMP on a GPU, if it is there; its stand-in on host threads.
pub(crate) fn nvcomp() -> Option<Arc<Nvcomp>> {
    if is_cuda() {
        let found = Nvcomp::load(None);
        return found.inspect_err(|e| println!("without nvCOMP: {e}")).ok();
    }
    Some(Nvcomp::load(Some(&grampus_host_nvcomp::file())).unwrap_or_else(|e| panic!("{e}")))
}

/// The codecs that the device decompresses, by kernels of its own and by nvCOMP.
pub(crate) fn codecs(library: Option<&Nvcomp>) -> Vec<(Codec, Option<&Nvcomp>)> {
    let own = CODECS.map(|codec| (codec, None));
    let by_library = [Codec::Snappy, Codec::Zstd, Codec::Zlib].map(|codec| (codec, library));
    own.into_iter()
        .chain(by_library.into_iter().filter(|(_, library)| library.is_some()))
        .collect()
}

pub(crate) fn ask(
    gpu: &Gpu,
    table: &Table,
    bounds: [f64; 2],
    backing: BackingChoice,
    library: Option<&Nvcomp>,
) -> Result<Output, RunError> {
    run_program(gpu, table, (&sparse(), &bounds), backing, library)
}

/// The bits of the sums of c2 / 0.7 and c3 / 0.7, which are not exact: they depend on the order of additions.
pub(crate) fn bits_of_sums(gpu: &Gpu, table: &Table, bounds: [f64; 2], backing: BackingChoice) -> (Output, [u64; 2]) {
    let mut program = sparse();
    program.arguments.push(Type::Float64);
    for aggregate in &mut program.aggregates {
        aggregate.argument = aggregate.argument.take().map(|value| Expr::Binary {
            op: BinaryOp::Divide,
            left: Box::new(value),
            right: Box::new(Expr::Argument(2)),
        });
    }
    let arguments = [bounds[0], bounds[1], 0.7];
    let output = run_program(gpu, table, (&program, &arguments), backing, None).unwrap();
    let (_, sums) = count_and_sums(&output);
    (output, sums.map(f64::to_bits))
}

fn run_program(
    gpu: &Gpu,
    table: &Table,
    (program, arguments): (&Program, &[f64]),
    backing: BackingChoice,
    library: Option<&Nvcomp>,
) -> Result<Output, RunError> {
    let arguments: Vec<Value> = arguments.iter().map(|value| Value::Float(*value)).collect();
    gpu.run(Request {
        program,
        arguments: &arguments,
        input: &Arc::new(table.input.clone()),
        backing,
        decompression: Decompression { library },
        selectivity: 0.0025,
        waits_for_memory: true,
        cancel: &Arc::new(AtomicBool::new(false)),
    })
}

/// Count and sums.
pub(crate) fn count_and_sums(output: &Output) -> (i64, [f64; 2]) {
    let number = |at: usize| match &output.aggregates[at].values {
        ResultValues::Float(values) => values[0],
        _ => panic!("a sum of floats is a float"),
    };
    let ResultValues::Int(count) = &output.aggregates[0].values else {
        panic!("a count is an integer")
    };
    (count[0], [number(1), number(2)])
}

pub(crate) fn cpu_calls(table: &Table) -> usize {
    table.decoder.calls.load(Ordering::Relaxed)
}
