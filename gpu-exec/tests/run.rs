//! Programs run on host threads over temporary files: every backing gives the answer of a plain loop, and every trouble ends in an
//! error that says what happened, after which the next query works. Skipped, and says so, without a C++ compiler.

mod support;

use grampus_gpu_exec::gpu::{BackingChoice, Gpu, Tuning};
use support::{ALL, Table, answer, gpu, program, run};

const STRIPES: &[&[u64]] = &[&[20_000, 7_001], &[1], &[33_333, 512, 9_999]];

fn check(gpu: &Gpu, table: &Table, columns: usize, nullable: &[usize], sums: &[usize], backing: BackingChoice) {
    let program = program(columns, nullable, sums);
    for bound in [100.0, 0.0, 1000.0] {
        let output = run(gpu, table, &program, bound, backing).unwrap_or_else(|e| panic!("{backing:?}: {e}"));
        assert_eq!(
            answer(&output),
            table.expected(bound, sums),
            "{backing:?}, bound {bound}"
        );
        assert_eq!(output.cost.rows, table.selected_rows().count() as u64);
    }
}

#[test]
fn every_backing_gives_the_same_answer() {
    let table = Table::raw(STRIPES, 6);
    for backing in ALL {
        let Some(gpu) = gpu(None, Tuning::default()) else {
            return;
        };
        check(&gpu, &table, 1, &[], &[0], backing);
        check(&gpu, &table, 6, &[], &[0, 1, 2, 3, 4, 5], backing);
        check(&gpu, &table, 6, &[], &[0, 1, 2, 3, 4, 5], backing);
    }
}
