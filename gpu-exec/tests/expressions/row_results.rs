//! Expressions by row: a kernel's value for each row against the interpreter's.

use grampus_cuda::Module;
use grampus_gpu_exec::abi::query::Refusal;
use grampus_gpu_exec::codegen::{Access, Grouping, QueryKernel};
use grampus_gpu_exec::program::{Column, Expr, Function, Program, Type};

use crate::common::interpreter::{self, Cell, Scalar};
use crate::common::kernel_runner::{BLOCK_WARPS, DeviceTable, Division, Table, Target, run, targets};
use crate::common::random::Random;
use crate::common::result_check::check;
use crate::common::{aggregate, col, column, shape};

/// A program that returns each expression for each row. Column 0 is the row's number, and the key.
pub(crate) fn by_row(columns: Vec<Column>, arguments: Vec<Type>, exprs: Vec<Expr>) -> Program {
    let mut all = vec![column("id", Type::Int64, false)];
    all.extend(columns);
    let mut program = Program {
        columns: all,
        arguments,
        conjuncts: vec![],
        keys: vec![col(0)],
        aggregates: vec![],
    };
    let returned = |e: Expr| match program.type_of(&e) {
        // An extreme has eight bytes.
        Ok(Type::Decimal { .. }) => aggregate(Function::Sum, Some(e)),
        _ => aggregate(Function::Max, Some(e)),
    };
    program.aggregates = exprs.into_iter().map(returned).collect();
    program
}

/// Runs over rows (without their numbers) and checks the values.
fn answer(
    target: &Target,
    kernel: &QueryKernel,
    module: &Module,
    program: &Program,
    arguments: &[Scalar],
    rows: &[Vec<Cell>],
) -> Result<(), Refusal> {
    let id = |row: usize| Some(Scalar::Int(row as i64 * 7 - 100));
    let mut cells: Vec<Vec<Cell>> = vec![(0..rows.len()).map(id).collect()];
    cells.extend((1..program.columns.len()).map(|c| rows.iter().map(|row| row[c - 1]).collect()));
    let table = Table {
        types: program.columns.iter().map(|c| c.ty).collect(),
        layouts: Vec::new(),
        cells,
        runs: if rows.is_empty() {
            vec![]
        } else {
            vec![(0, rows.len() as u64)]
        },
    };
    let shape = shape(program, Access::Plain, true, Grouping::Global);
    let placed = DeviceTable::new(&mut Random(rows.len() as u64), target, &table, &shape);

    let division = Division {
        warps: 3,
        ends: vec![0.4],
        flush: false,
        group_capacity: 2048,
        ranges: vec![],
        block_warps: BLOCK_WARPS,
    };
    let merged = run(&placed, kernel, module, arguments, &division)?;
    let expected = interpreter::run(program, table.rows(), arguments).expect("rows that have answers");
    check(&expected, &merged, &program.to_string());
    Ok(())
}

/// Checks the values of all rows that have one. Each of the other rows alone must be refused.
pub(crate) fn compare(target: &Target, program: &Program, arguments: &[Scalar], rows: Vec<Vec<Cell>>) {
    program.check().unwrap_or_else(|e| panic!("{e}: {program}"));
    let shape = shape(program, Access::Plain, true, Grouping::Global);
    let kernel = QueryKernel::generate(program, &shape).expect("a valid program");
    let module = target.module(&kernel);
    let has_answers = |row: &Vec<Cell>| {
        let cells = [Some(Scalar::Int(0))].into_iter().chain(row.iter().copied()).collect();
        interpreter::run(program, std::iter::once(cells), arguments).is_ok()
    };
    let (good, bad): (Vec<_>, Vec<_>) = rows.into_iter().partition(has_answers);
    println!("{} rows with answers, {} without: {program}", good.len(), bad.len());
    for some in good.chunks(1000) {
        let done = answer(target, &kernel, &module, program, arguments, some);
        assert_eq!(done, Ok(()), "refused: {program}");
    }
    for row in bad.iter().take(60) {
        let row = vec![row.clone()];
        let done = answer(target, &kernel, &module, program, arguments, &row);
        assert_eq!(done, Err(Refusal::Value), "not refused: {row:?} {program}");
    }
}

/// Runs a test on each device but lanes in lockstep, which would add nothing: each lane computes for itself.
pub(crate) fn on_each_device(test: impl Fn(&Target)) {
    targets().iter().filter(|t| !t.is_lockstep()).for_each(test);
}
