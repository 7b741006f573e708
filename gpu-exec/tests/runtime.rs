//! Queries on host threads over temporary files. Every backing gives the answer of a plain loop, whatever is cached and
//! however small the device memory.
//!
//! fault_injection.rs tests failures. The tests are skipped, with a message, without a C++ compiler.

mod temporary_table;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use grampus_gpu_exec::input::Placement;
use grampus_gpu_exec::output::ResultValues;
use grampus_gpu_exec::program::{Expr, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, RuntimeOptions};
use temporary_table::{ALL, Kind, Shape, Table, answer, gpu, program, run};

const STRIPES: &[&[u64]] = &[&[20_000, 7_001], &[1], &[33_333, 512, 9_999]];
const MIXED: &[Kind] = &[Kind::Raw, Kind::Decoded, Kind::Constant(2.5), Kind::Raw, Kind::Decoded];

fn check(gpu: &Gpu, table: &Table, nullable: &[usize], sums: &[usize], backing: BackingChoice) {
    let program = program(1 + sums.iter().max().unwrap(), nullable, sums);
    for bound in [100.0, 0.0, 1000.0] {
        let output = run(gpu, table, &program, bound, backing).unwrap_or_else(|e| panic!("{backing:?}: {e}"));
        assert_eq!(
            answer(&output),
            table.expected(bound, sums),
            "{backing:?}, bound {bound}"
        );
        assert_eq!(output.cost.rows, table.selected_rows().count() as u64);
        assert_eq!(output.cost.passed, table.expected(bound, &[]).0 as u64);
    }
}

#[test]
fn every_backing_gives_the_same_answer() {
    let table = Table::raw(STRIPES, 6);
    for backing in ALL {
        let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
            return;
        };
        check(&gpu, &table, &[], &[0], backing);
        check(&gpu, &table, &[], &[0, 1, 2, 3, 4, 5], backing);
        check(&gpu, &table, &[], &[0, 1, 2, 3, 4, 5], backing);
    }
}

#[test]
fn raw_decoded_and_constant_columns_mix() {
    let table = Table::new(&Shape {
        stripes: STRIPES,
        kinds: MIXED,
        segments: 3,
        group_rows: Some(1000),
    });
    for backing in ALL {
        let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
            return;
        };
        check(&gpu, &table, &[1, 4], &[0, 1, 2, 3, 4], backing);
        let calls = table.decoder.calls.load(Ordering::Relaxed);
        check(&gpu, &table, &[1, 4], &[0, 1, 2, 3, 4], backing);
        assert_eq!(
            table.decoder.calls.load(Ordering::Relaxed),
            calls,
            "what was decoded is kept"
        );
    }
}

/// The device alone decodes stored columns: resident and through windows, with staging memory for all of it and for two
/// batches.
#[test]
fn encoded_columns_are_decoded_by_the_device() {
    let kinds = [Kind::Stored, Kind::Raw, Kind::Stored, Kind::Constant(2.5), Kind::Stored];
    let mut table = Table::new(&Shape {
        group_rows: None,
        stripes: STRIPES,
        kinds: &kinds,
        segments: 2,
    });
    for first in [None, Some(104), Some(100)] {
        if let Some(first) = first {
            table.input.stripes[0].selected = vec![first..10_007, 15_000..20_000];
            table.input.stripes[2].selected = Vec::new();
            table.input.stripes[3].selected = vec![0..1, 2..3, 9_000..9_600];
        }
        for (cache_bytes, staging_bytes) in [
            (None, 1 << 20),
            (None, 1 << 28),
            (Some(400 << 10), 1),
            (Some(2 << 20), 1),
        ] {
            let options = RuntimeOptions {
                staging_bytes: Some(staging_bytes),
                launch_bytes: 100_000,
                ..RuntimeOptions::default()
            };
            let Some(gpu) = gpu(cache_bytes, options) else { return };
            check(&gpu, &table, &[0, 2, 4], &[0, 1, 2, 3, 4], BackingChoice::Auto);
            check(&gpu, &table, &[0, 2, 4], &[2, 4], BackingChoice::All(Backing::Resident));
            let calls = table.decoder.calls.swap(0, Ordering::Relaxed);
            // Row groups begin within bytes of the validity of rows from 100 on.
            assert!(calls == 0 || first == Some(100), "the CPU decoded something");
        }
    }
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    table
        .input
        .stripes
        .iter_mut()
        .for_each(|s| s.selected = std::iter::once(0..s.rows).collect());
    let cost = run(&gpu, &table, &program(1, &[0], &[0]), 0.0, BackingChoice::Auto)
        .unwrap()
        .cost;
    let stored = |s: &grampus_gpu_exec::input::Stripe| match s.columns[0] {
        Placement::Decoded { stored_bytes, .. } => stored_bytes,
        _ => 0,
    };
    assert_eq!(
        cost.pushed_bytes,
        table.input.stripes.iter().map(stored).sum::<u64>(),
        "what is stored, once"
    );
}

/// If the device cannot decode a stream, the decoder is called, and nothing of the attempt is cached.
#[test]
fn streams_that_the_device_cannot_decode_go_to_the_decoder() {
    let table = Table::new(&Shape {
        group_rows: None,
        stripes: STRIPES,
        kinds: &[Kind::Raw, Kind::Stored, Kind::Stored],
        segments: 1,
    });
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    {
        let mut stored = table.decoder.stored.lock().unwrap();
        let mut encoded = (*stored[&(3, 2)]).clone();
        encoded.data.entries[7].end -= 8;
        stored.insert((3, 2), encoded.into());
    }
    check(&gpu, &table, &[1, 2], &[1, 2], BackingChoice::Auto);
    assert!(table.decoder.calls.load(Ordering::Relaxed) > 0);
    // The decoder's message is the query's.
    *table.decoder.fail.lock().unwrap() = Some("row 7 is odd".to_owned());
    gpu.forget().unwrap();
    let error = run(&gpu, &table, &program(3, &[1, 2], &[1, 2]), 0.0, BackingChoice::Auto).unwrap_err();
    assert_eq!(error.to_string(), "row 7 is odd");
}

#[test]
fn filter_with_nulls_and_column_of_nulls() {
    let mut table = Table::new(&Shape {
        stripes: STRIPES,
        kinds: &[Kind::Decoded, Kind::Raw, Kind::Decoded],
        segments: 1,
        group_rows: Some(1000),
    });
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    check(&gpu, &table, &[0, 2], &[0, 1, 2], BackingChoice::Auto);
    for stripe in &mut table.input.stripes {
        stripe.columns[2] = Placement::Constant(None);
    }
    let output = run(&gpu, &table, &program(3, &[0, 2], &[1, 2]), 100.0, BackingChoice::Auto).unwrap();
    let (count, sums) = answer(&output);
    let (expected_count, expected_sums) = table.expected(100.0, &[1]);
    assert_eq!((count, sums), (expected_count, vec![expected_sums[0], None]));
}

/// A Hive partition column has a constant for each file. The buffers of all of them are in use at once.
#[test]
fn constants_of_many_stripes_stay_apart() {
    const ROWS: u64 = 100;
    let counts = [ROWS; 3000];
    let mut table = Table::raw(&[&counts], 2);
    for (at, stripe) in table.input.stripes.iter_mut().enumerate() {
        stripe.columns[1] = Placement::Constant(Some(Value::Float(at as f64)));
    }
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sum: u64 = (0..counts.len() as u64).map(|at| at * ROWS).sum();
    for _ in 0..2 {
        let output = run(&gpu, &table, &program(2, &[], &[1]), 0.0, BackingChoice::Auto).unwrap();
        assert_eq!(answer(&output), (table.rows as i64, vec![Some(sum as f64)]));
    }
}

#[test]
fn only_selected_rows_are_read() {
    let mut table = Table::new(&Shape {
        stripes: STRIPES,
        kinds: MIXED,
        segments: 2,
        group_rows: Some(1000),
    });
    let stripes = &mut table.input.stripes;
    stripes[0].selected = vec![100..10_007, 15_000..20_000];
    stripes[1].selected = std::iter::once(7_000..7_001).collect();
    stripes[2].selected = Vec::new();
    stripes[3].selected = vec![0..1, 2..3, 9_000..9_600];
    for backing in ALL {
        let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
            return;
        };
        check(&gpu, &table, &[1, 4], &[0, 1, 2, 3, 4], backing);
        check(&gpu, &table, &[1, 4], &[0, 1, 2, 3, 4], backing);
    }
}

#[test]
fn query_without_rows_answers() {
    let mut table = Table::raw(STRIPES, 2);
    table.input.stripes.iter_mut().for_each(|s| s.selected.clear());
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    for backing in ALL {
        let output = run(&gpu, &table, &program(2, &[], &[1]), 0.0, backing).unwrap();
        assert_eq!(answer(&output), (0, vec![None]));
    }
    table.input.stripes.clear();
    let output = run(&gpu, &table, &program(2, &[], &[1]), 0.0, BackingChoice::Auto).unwrap();
    assert_eq!(answer(&output), (0, vec![None]));
}

#[test]
fn second_query_uses_cached_columns() {
    let table = Table::raw(STRIPES, 3);
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let resident = BackingChoice::All(Backing::Resident);
    let first = run(&gpu, &table, &program(3, &[], &[1, 2]), 100.0, resident)
        .unwrap()
        .cost;
    assert_eq!((first.pushed_bytes, first.resident_bytes), (table.rows * 24, 0));
    let second = run(&gpu, &table, &program(3, &[], &[2]), 1.0, resident).unwrap().cost;
    assert_eq!((second.pushed_bytes, second.resident_bytes), (0, table.rows * 24));
    assert_eq!(gpu.resident_bytes(), table.rows * 24);
    let sums = program(3, &[], &[1, 2]);
    let again = run(&gpu, &table, &sums, 100.0, BackingChoice::Auto).unwrap();
    assert_eq!(again.cost.moved_bytes(), 0, "auto uses what is there");
    gpu.forget().unwrap();
    assert_eq!(gpu.resident_bytes(), 0);
    check(&gpu, &table, &[], &[0, 1, 2], resident);
}

#[test]
fn columns_larger_than_the_pool_stream_through_windows() {
    let table = Table::new(&Shape {
        stripes: &[&[60_000, 60_000], &[60_000], &[777, 40_000]],
        kinds: MIXED,
        segments: 2,
        group_rows: Some(1000),
    });
    let launch_bytes = [1, 64 << 20];
    for (cache_bytes, launch_bytes) in [100_000, 400_000, 2_000_000, 8_000_000]
        .into_iter()
        .zip(launch_bytes.into_iter().cycle())
    {
        for backing in [BackingChoice::Auto, BackingChoice::All(Backing::Resident)] {
            let options = RuntimeOptions {
                launch_bytes,
                ..RuntimeOptions::default()
            };
            let Some(gpu) = gpu(Some(cache_bytes), options) else {
                return;
            };
            check(&gpu, &table, &[1, 4], &[0, 1, 2, 3, 4], backing);
            check(&gpu, &table, &[1, 4], &[0, 3, 4], backing);
            assert!(gpu.resident_bytes() <= cache_bytes);
            let again = run(&gpu, &table, &program(4, &[1], &[0, 3]), 100.0, backing)
                .unwrap()
                .cost;
            let fits = table.rows * 30 < cache_bytes;
            assert_eq!(again.pushed_bytes == 0, fits, "{cache_bytes}: {again:?}");
        }
    }
}

/// Random tables, selections, device memory and backings, with several queries of each on one device.
#[test]
fn answers_do_not_depend_on_cached_data() {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let mut below = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % n
    };
    for round in 0..6 {
        let room = [200_000, 600_000, 1_500_000, 6_000_000][below(4) as usize];
        let options = RuntimeOptions {
            launch_bytes: 1 << below(24),
            ..RuntimeOptions::default()
        };
        let Some(gpu) = gpu(Some(room), options) else { return };
        let mut tables: Vec<Table> = (0..3)
            .map(|_| {
                let files: Vec<Vec<u64>> = (0..1 + below(3))
                    .map(|_| (0..1 + below(3)).map(|_| 1 + below(20_000)).collect())
                    .collect();
                let stripes: Vec<&[u64]> = files.iter().map(Vec::as_slice).collect();
                Table::new(&Shape {
                    stripes: &stripes,
                    kinds: MIXED,
                    segments: 1 + below(3),
                    group_rows: Some(1000),
                })
            })
            .collect();
        for query in 0..12 {
            let table = &mut tables[below(3) as usize];
            for stripe in &mut table.input.stripes {
                let (a, b, c) = (below(stripe.rows), below(stripe.rows), below(stripe.rows));
                stripe.selected = match below(4) {
                    0 => Vec::new(),
                    1 => [a.min(b)..a.max(b), a.max(b).max(c)..stripe.rows]
                        .into_iter()
                        .filter(|r| !r.is_empty())
                        .collect(),
                    _ => std::iter::once(0..stripe.rows).collect(),
                };
            }
            let backing = ALL[below(5) as usize];
            let bound = [100.0, 90.0, 0.0][below(3) as usize];
            let output = run(&gpu, table, &program(5, &[1, 4], &[0, 1, 2, 3, 4]), bound, backing);
            let output =
                output.unwrap_or_else(|e| panic!("round {round}, query {query}, {room} bytes, {backing:?}: {e}"));
            let expected = table.expected(bound, &[0, 1, 2, 3, 4]);
            assert_eq!(
                answer(&output),
                expected,
                "round {round}, query {query}, {room} bytes, {backing:?}"
            );
            assert!(gpu.resident_bytes() <= room);
        }
    }
}

/// Many evictions in the sector cache: with a single list of unposted completions (driver/tests/controller.rs), every
/// tenth of these runs ended in a time-out.
#[test]
fn sector_cache_much_smaller_than_the_columns_answers() {
    let table = Table::raw(&[&[100_000], &[100_000], &[100_000]], 6);
    let Some(gpu) = gpu(Some(1_440_000), RuntimeOptions::default()) else {
        return;
    };
    let sums = program(6, &[], &[1, 2, 3, 4, 5]);
    for round in 0..20 {
        let bound = if round % 2 == 0 { 100.0 } else { 98.0 };
        let output = run(&gpu, &table, &sums, bound, BackingChoice::All(Backing::Queued)).unwrap();
        assert_eq!(answer(&output), table.expected(bound, &[1, 2, 3, 4, 5]));
    }
}

#[test]
fn tables_that_do_not_fit_together_evict_each_other() {
    let tables: Vec<Table> = (0..4).map(|_| Table::raw(&[&[30_000, 30_000]], 2)).collect();
    let Some(gpu) = gpu(Some(1_950_000), RuntimeOptions::default()) else {
        return;
    };
    for round in 0..3 {
        for table in &tables[..2 + round] {
            check(&gpu, table, &[], &[0, 1], BackingChoice::All(Backing::Resident));
            assert!(gpu.resident_bytes() <= 2_000_000);
        }
    }
}

#[test]
fn commands_are_counted_and_smaller_than_the_columns() {
    let table = Table::raw(&[&[100_000, 100_000]], 3);
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sums = program(3, &[], &[1, 2]);
    let queued = BackingChoice::All(Backing::Queued);
    let cost = run(&gpu, &table, &sums, 100.0, queued).unwrap().cost;
    assert!(
        cost.commands > 0 && cost.pushed_bytes == 0 && cost.mapped_bytes == 0,
        "{cost:?}"
    );
    let filter = table.rows * 8;
    assert!(cost.command_bytes >= filter, "{cost:?}");
    let dependents = cost.command_bytes - filter;
    assert!(dependents < filter, "sectors, not columns: {cost:?}");
    assert_eq!(cost.needed_bytes, filter + cost.passed * 16);
    let again = run(&gpu, &table, &sums, 100.0, queued).unwrap().cost;
    assert!(again.commands < cost.commands / 10, "the cache is kept: {again:?}");
    let mapped = run(&gpu, &table, &sums, 100.0, BackingChoice::All(Backing::Mapped))
        .unwrap()
        .cost;
    assert_eq!(mapped.mapped_bytes, filter + cost.passed * 64);
}

#[test]
fn tens_of_thousands_of_groups_are_each_found_once_in_every_run() {
    let table = Table::raw(&[&[60_000], &[60_000]], 3);
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let mut grouped = program(3, &[], &[1]);
    grouped.keys = vec![Expr::Column(1), Expr::Column(2)];
    let mut expected = BTreeMap::new();
    for row in 0..table.rows {
        let key = [1, 2].map(|c| temporary_table::value(c, row).to_bits());
        *expected.entry(key).or_insert(0) += 1;
    }
    assert!(expected.len() > 1 << 14, "more than are read back at once");
    for backing in [BackingChoice::Auto; 3]
        .into_iter()
        .chain([BackingChoice::All(Backing::Queued)])
    {
        let output = run(&gpu, &table, &grouped, 0.0, backing).unwrap();
        let ResultValues::Int(counts) = &output.aggregates[0].values else {
            panic!()
        };
        let keys: Vec<&Vec<f64>> = output
            .keys
            .iter()
            .map(|k| match &k.values {
                ResultValues::Float(values) => values,
                other => panic!("{other:?}"),
            })
            .collect();
        let mut found = BTreeMap::new();
        for (group, count) in counts.iter().enumerate() {
            let key = [keys[0][group].to_bits(), keys[1][group].to_bits()];
            *found.entry(key).or_insert(0) += count;
        }
        assert!(found == expected, "{backing:?}: {} groups", found.len());
    }
}

#[test]
fn queries_of_several_threads_share_little_memory() {
    let tables = [Table::raw(STRIPES, 2), Table::raw(&[&[5_000, 1_000]], 2)];
    let Some(gpu) = gpu(Some(1_000_000), RuntimeOptions::default()) else {
        return;
    };
    let sums = program(2, &[], &[1]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (gpu, table, sums) = (&gpu, &tables[thread % 2], &sums);
            scope.spawn(move || {
                for backing in ALL.into_iter().cycle().skip(thread).take(8) {
                    let output = run(gpu, table, sums, 100.0, backing).unwrap_or_else(|e| panic!("{backing:?}: {e}"));
                    assert_eq!(answer(&output), table.expected(100.0, &[1]));
                }
            });
        }
    });
}

#[test]
fn plans_match_runs() {
    let table = Table::new(&Shape {
        stripes: STRIPES,
        kinds: MIXED,
        segments: 1,
        group_rows: Some(1000),
    });
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let sums = program(5, &[1, 4], &[1, 2, 3, 4]);
    let (input, cancel) = (std::sync::Arc::new(table.first_columns(5)), std::sync::Arc::default());
    let request = grampus_gpu_exec::Request {
        program: &sums,
        arguments: &[Value::Float(100.0)],
        input: &input,
        backing: BackingChoice::Auto,
        decompression: Decompression::default(),
        selectivity: 0.0025,
        waits_for_memory: false,
        cancel: &cancel,
    };
    let plan = gpu.plan(request).unwrap().columns;
    let backings: Vec<Backing> = plan.iter().map(|c| c.backing).collect();
    assert_eq!(backings[..3], [Backing::Resident; 3], "{plan:?}");
    assert!(plan.iter().all(|c| !c.reason.is_empty() && c.resident_bytes == 0));
    assert_eq!(plan[0].estimated_bytes, table.rows * 8);
    assert_eq!(gpu.resident_bytes(), 0, "nothing was moved");
    assert!(gpu.kernel_source(request).unwrap().contains("GRAMPUS_KERNEL"));
    gpu.run(request).unwrap();
    let plan = gpu.plan(request).unwrap().columns;
    assert_eq!((plan[0].estimated_bytes, plan[0].resident_bytes), (0, table.rows * 8));
}
