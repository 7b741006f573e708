//! Queries on host threads whose groups have codes, against plain loops: dense kernels and kernels by row, with ranges
//! that hold all values, some, and few. The tests are skipped, with a message, without a C++ compiler.

mod temporary_table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grampus_gpu_exec::output::ResultValues;
use grampus_gpu_exec::program::{Expr, MathFunction, Program, Type, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, Output, Request, RuntimeOptions};
use temporary_table::{Kind, Shape, Table, gpu, is_null, program, value};

fn whole(value: Expr) -> Expr {
    Expr::Cast {
        value: Box::new(Expr::Math {
            function: MathFunction::Floor,
            value: Box::new(value),
        }),
        to: Type::Int32,
    }
}

/// `count(*), sum(c1)` by the whole part of c0 and by c2, of the rows with c0 of at least the argument.
fn grouped_query() -> Program {
    let mut program = program(3, &[2], &[1]);
    program.keys = vec![whole(Expr::Column(0)), Expr::Column(2)];
    program
}

struct Query<'a> {
    gpu: &'a Gpu,
    table: &'a Table,
    program: &'a Program,
    bound: f64,
    selectivity: f64,
    backing: BackingChoice,
    ranges: &'a [(f64, f64)],
}

impl Query<'_> {
    fn ask<T>(&self, question: impl FnOnce(Request<'_>) -> T) -> T {
        let mut input = self.table.first_columns(self.program.columns.len());
        let range = |&(least, most): &(f64, f64)| vec![(Value::Float(least), Value::Float(most))];
        input.value_ranges = self.ranges.iter().map(range).collect();
        question(Request {
            program: self.program,
            arguments: &[Value::Float(self.bound)],
            input: &Arc::new(input),
            backing: self.backing,
            selectivity: self.selectivity,
            waits_for_memory: true,
            decompression: Decompression::default(),
            cancel: &Arc::new(AtomicBool::new(false)),
        })
    }

    fn shape(&self) -> String {
        self.ask(|request| self.gpu.plan(request)).expect("a plan").kernel_shape
    }

    fn groups(&self) -> BTreeMap<(i64, Option<u64>), (i64, f64)> {
        let output: Output = self.ask(|request| self.gpu.run(request)).expect("an answer");
        let (ResultValues::Int(first), ResultValues::Float(second)) = (&output.keys[0].values, &output.keys[1].values)
        else {
            panic!("an integer and a float")
        };
        let (ResultValues::Int(counts), ResultValues::Float(sums)) =
            (&output.aggregates[0].values, &output.aggregates[1].values)
        else {
            panic!("a count and a sum")
        };
        let second = |at: usize| {
            let there = output.keys[1].valid.as_ref().is_none_or(|valid| valid[at]);
            there.then(|| second[at].to_bits())
        };
        let groups: BTreeMap<_, _> = (0..output.groups)
            .map(|at| ((first[at], second(at)), (counts[at], sums[at])))
            .collect();
        assert_eq!(groups.len(), output.groups, "each group once");
        groups
    }

    fn expected(&self) -> BTreeMap<(i64, Option<u64>), (i64, f64)> {
        let mut groups = BTreeMap::new();
        for row in self.table.selected_rows() {
            let [a, b, c] = [0, 1, 2].map(|column| value(column, row));
            if a >= self.bound {
                let c = (!is_null(row)).then_some(c.to_bits());
                let group: &mut (i64, f64) = groups.entry((a.floor() as i64, c)).or_default();
                group.0 += 1;
                group.1 += b;
            }
        }
        groups
    }
}

#[test]
fn queries_with_codes_match_plain_loops() {
    let table = Table::new(&Shape {
        stripes: &[&[20_000, 7_001], &[1], &[33_333, 512, 9_999]],
        kinds: &[Kind::Raw, Kind::Raw, Kind::Decoded],
        segments: 3,
        group_rows: Some(1000),
    });
    let program = grouped_query();
    let mut unfiltered = program.clone();
    unfiltered.conjuncts.clear();
    unfiltered.arguments.clear();
    let whole = [(0.0, 125.0), (0.0, 125.0), (0.0, 125.0)];
    // Rows of c0 and c2 that lie outside.
    let narrow = [(20.0, 60.0), (0.0, 0.0), (5.0, 90.0)];
    let far = [(-3.0, 1e9), (0.0, 0.0), (0.0, 20.0)];
    let cases = [
        (
            &program,
            30.0,
            0.5,
            &whole,
            "dense, 16002 groups by code in a table for each block",
        ),
        (
            &program,
            30.0,
            0.5,
            &narrow,
            "dense, 3567 groups by code in a table for each warp",
        ),
        (
            &program,
            30.0,
            0.5,
            &far,
            "a table for each block, rare values in device memory",
        ),
        (&program, 110.0, 0.01, &whole, "by row, groups of warps"),
    ];
    for launch_rows in [None, Some(4096)] {
        for backing in [BackingChoice::Auto, BackingChoice::All(Backing::Mapped)] {
            let options = RuntimeOptions {
                launch_rows,
                ..RuntimeOptions::default()
            };
            let Some(gpu) = gpu(None, options) else { return };
            for (program, bound, selectivity, ranges, words) in cases {
                let query = Query {
                    gpu: &gpu,
                    table: &table,
                    program,
                    bound,
                    selectivity,
                    backing,
                    ranges,
                };
                let shape = query.shape();
                assert!(shape.contains(words), "{words}, not {shape}");
                assert_eq!(
                    query.groups(),
                    query.expected(),
                    "{shape}, {backing:?}, {launch_rows:?}"
                );
            }
            let query = Query {
                gpu: &gpu,
                table: &table,
                program: &unfiltered,
                bound: 0.0,
                selectivity: 1.0,
                backing,
                ranges: &whole,
            };
            let output = query.ask(|request| {
                gpu.run(Request {
                    arguments: &[],
                    ..request
                })
            });
            assert_eq!(output.expect("an answer").groups, query.expected().len());
        }
    }
}
