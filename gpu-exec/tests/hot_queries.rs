//! Queries that are asked again with the same input: their plans are kept while their columns are resident.

#[path = "temporary_table/mod.rs"]
mod temporary_table;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use grampus_gpu_exec::input::Input;
use grampus_gpu_exec::output::Output;
use grampus_gpu_exec::program::{Program, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, Request, RunError, RuntimeOptions};
use temporary_table::{Kind, Shape, Table, answer, gpu, program};

const STRIPES: &[&[u64]] = &[&[3000, 2000], &[4000]];

fn ask(gpu: &Gpu, input: &Arc<Input>, program: &Program, bound: f64) -> Result<Output, RunError> {
    gpu.run(Request {
        program,
        arguments: &[Value::Float(bound)],
        input,
        backing: BackingChoice::All(Backing::Resident),
        decompression: Decompression::default(),
        selectivity: 0.0025,
        waits_for_memory: true,
        cancel: &Arc::new(AtomicBool::new(false)),
    })
}

fn table() -> Table {
    Table::new(&Shape {
        stripes: STRIPES,
        kinds: &[Kind::Raw, Kind::Decoded, Kind::Stored, Kind::Constant(2.5)],
        segments: 3,
        group_rows: Some(temporary_table::GROUP_ROWS),
    })
}

#[test]
fn runs_of_one_input_have_one_answer_and_literals_of_their_own() {
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let table = table();
    let (input, sums) = (Arc::new(table.first_columns(4)), program(4, &[1, 2], &[0, 1, 2, 3]));
    let mut first = None;
    for bound in [100.0, 100.0, 100.0, 110.0, 0.0, 100.0] {
        let output = ask(&gpu, &input, &sums, bound).unwrap();
        assert_eq!(answer(&output), table.expected(bound, &[0, 1, 2, 3]), "{bound}");
        let moved = output.cost.moved_bytes();
        assert_eq!(moved == 0, first.replace(moved).is_some(), "{moved} bytes");
    }
    // Another program over the input, and the first one again.
    for (columns, sums) in [(4, &[2, 1][..]), (4, &[0, 1, 2, 3])] {
        let program = program(columns, &[1, 2], sums);
        for _ in 0..3 {
            let output = ask(&gpu, &input, &program, 100.0).unwrap();
            assert_eq!(answer(&output), table.expected(100.0, sums));
        }
    }
}

#[test]
fn columns_that_are_gone_are_loaded_again() {
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let table = table();
    let (input, sums) = (Arc::new(table.first_columns(3)), program(3, &[1, 2], &[0, 1, 2]));
    for round in 0..3 {
        for run in 0..3 {
            let output = ask(&gpu, &input, &sums, 100.0).unwrap();
            assert_eq!(answer(&output), table.expected(100.0, &[0, 1, 2]));
            assert_eq!(output.cost.moved_bytes() == 0, run > 0, "round {round}, run {run}");
        }
        gpu.forget().unwrap();
        assert_eq!(gpu.resident_bytes(), 0);
    }
}

#[test]
fn a_file_that_has_changed_ends_a_query_that_was_hot() {
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let table = table();
    let (input, sums) = (Arc::new(table.first_columns(3)), program(3, &[1, 2], &[0, 1, 2]));
    for _ in 0..3 {
        ask(&gpu, &input, &sums, 100.0).unwrap();
    }
    let bytes = std::fs::read(table.path(1)).unwrap();
    std::fs::write(table.path(1), [&bytes[..], b"!"].concat()).unwrap();
    for _ in 0..2 {
        let error = ask(&gpu, &input, &sums, 100.0).unwrap_err();
        assert!(matches!(error, RunError::FileChanged { .. }), "{error}");
    }
}

/// Threads ask for tables that have space one at a time: each evicts what the others' plans rely on.
#[test]
fn plans_whose_columns_others_evict_never_give_wrong_answers() {
    let tables: Vec<Table> = (0..3).map(|_| Table::raw(STRIPES, 2)).collect();
    let inputs: Vec<Arc<Input>> = tables.iter().map(|table| Arc::new(table.first_columns(2))).collect();
    let bytes = tables[0].rows * 16;
    let Some(gpu) = gpu(Some(bytes * 2 + bytes / 2), RuntimeOptions::default()) else {
        return;
    };
    let (gpu, sums) = (&gpu, &program(2, &[], &[0, 1]));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (tables, inputs) = (&tables, &inputs);
            scope.spawn(move || {
                for round in 0..30 {
                    let at = (thread + round / 5) % tables.len();
                    let output = ask(gpu, &inputs[at], sums, 100.0).unwrap();
                    assert_eq!(answer(&output), tables[at].expected(100.0, &[0, 1]));
                }
            });
        }
    });
}

/// Rows of a range that ends within a stripe are loaded once. A few rows of a stripe alone are loaded as they are, and
/// the whole stripe once they are needed again.
#[test]
#[allow(clippy::single_range_in_vec_init)] // one range of rows, or several
fn the_ends_of_a_range_are_kept_with_its_middle() {
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sums = program(3, &[1, 2], &[0, 1, 2]);
    for (selected, are_parts) in [
        ([&[100..3000][..], &[0..2000], &[0..400]], false),
        ([&[], &[], &[0..400, 700..900]], true),
    ] {
        gpu.forget().unwrap();
        let mut table = table();
        for (stripe, rows) in table.input.stripes.iter_mut().zip(selected) {
            stripe.selected = rows.to_vec();
        }
        let input = Arc::new(table.first_columns(3));
        let moved = [(); 3].map(|()| {
            let output = ask(&gpu, &input, &sums, 100.0).unwrap();
            assert_eq!(answer(&output), table.expected(100.0, &[0, 1, 2]));
            output.cost.moved_bytes()
        });
        match are_parts {
            false => assert!(moved[0] > 0 && moved[1..] == [0, 0], "{moved:?}"),
            true => assert!(moved[0] > 0 && moved[1] > moved[0] && moved[2] == 0, "{moved:?}"),
        }
    }
}
