//! Row groups that kernels miss and that the device decodes: only those with rows that pass are moved, in the form in
//! which they are stored. Answers equal those of fully resident columns to the bit.
//!
//! The tests are skipped, with a message, without a C++ compiler.

mod temporary_table;

use grampus_gpu_exec::RuntimeOptions;
use grampus_orc_layout::codec::Codec;
use temporary_table::compression::{compress_table, damage};
use temporary_table::sparse_query::{
    BOUNDS, PAGED, STRIPES, WHOLE, ask, codecs, count_and_sums as answer, cpu_calls, expected, nvcomp, resident_bytes,
    sparse_table, stored_bytes, touched_pages,
};
use temporary_table::{GROUP_ROWS, Kind, Table, gpu};

fn stored_table() -> Table {
    sparse_table(STRIPES, Kind::Stored)
}

/// Row groups with a row that passes.
fn touched_groups(table: &Table, bounds: [f64; 2]) -> u64 {
    touched_pages(table, bounds, GROUP_ROWS)
}

#[test]
fn device_decodes_the_row_groups_that_kernels_miss() {
    let table = stored_table();
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let filter = table.rows * 16;
    let first = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
    assert_eq!(answer(&first), expected(&table, BOUNDS));
    let touched = touched_groups(&table, BOUNDS);
    assert!((5..80).contains(&touched), "{touched} of 132 groups");
    assert_eq!(cpu_calls(&table), 0);
    // The second condition's column is paged too: raw pages of 64 bytes, each for one row that passes the first one.
    let raw_pages = first.cost.pages - 2 * touched;
    assert!(first.cost.page_bytes >= 64 * raw_pages, "{:?}", first.cost);
    // A group of 1,000 rows has at most 800 values, and bits in runs.
    let groups = first.cost.pushed_bytes - table.rows * 8;
    assert!(
        (touched * 2 * 5000..=touched * 2 * 6600).contains(&groups),
        "{groups} for {touched}"
    );
    assert!(
        first.cost.moved_bytes() < filter + stored_bytes(&table),
        "{:?}",
        first.cost
    );
    let again = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
    assert_eq!(
        (answer(&again), again.cost.pages, again.cost.passes),
        (answer(&first), 0, 1)
    );
    let all = ask(&gpu, &table, [0.0, 0.0], PAGED, None).unwrap();
    assert_eq!(answer(&all), expected(&table, [0.0, 0.0]));
    assert_eq!(gpu.resident_bytes(), resident_bytes(&table), "all columns are whole");
    assert_eq!(cpu_calls(&table), 0);
}

#[test]
fn compressed_row_groups_are_decompressed_by_the_device() {
    let library = nvcomp();
    for (codec, library) in codecs(library.as_deref()) {
        for (chunk_bytes, originals) in [(4 << 10, 0), (64 << 10, 0), (1001, 3)] {
            let what = format!("{codec:?}, nvCOMP {}, {chunk_bytes}", library.is_some());
            let mut table = stored_table();
            compress_table(&mut table, codec, chunk_bytes, originals);
            let options = RuntimeOptions {
                staging_bytes: Some(32 << 20),
                ..RuntimeOptions::default()
            };
            let Some(gpu) = gpu(None, options) else { return };
            let paged = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap();
            assert_eq!(answer(&paged), expected(&table, BOUNDS), "{what}");
            let groups = paged.cost.pushed_bytes - table.rows * 8;
            // Each group has parts of two streams, and chunks at both ends of each.
            let touched = touched_groups(&table, BOUNDS);
            assert!(groups > 0 && touched > 5, "{what}: {:?}", paged.cost);
            if chunk_bytes < 64 << 10 {
                assert!(
                    groups < stored_bytes(&table) * 2 / 3,
                    "{what}: {groups} of {}",
                    stored_bytes(&table)
                );
            }
            let again = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap();
            assert_eq!((answer(&again), again.cost.pages), (answer(&paged), 0), "{what}");
            gpu.forget().unwrap();
            let whole = ask(&gpu, &table, BOUNDS, WHOLE, library).unwrap();
            assert_eq!(answer(&whole), answer(&paged), "{what}");
            assert!(whole.cost.moved_bytes() > paged.cost.moved_bytes(), "{what}");
            assert_eq!(cpu_calls(&table), 0, "{what}");
        }
    }
}

/// More launches in a pass than there are words for their outcomes, and halves of the staging memory that are filled
/// again.
#[test]
fn little_staging_memory_takes_many_launches() {
    let mut table = stored_table();
    compress_table(&mut table, Codec::Snappy, 1001, 0);
    let options = RuntimeOptions {
        staging_bytes: Some(256 << 10),
        ..RuntimeOptions::default()
    };
    let Some(gpu) = gpu(None, options) else { return };
    let all = ask(&gpu, &table, [0.0, 0.0], PAGED, None).unwrap();
    assert_eq!(answer(&all), expected(&table, [0.0, 0.0]));
    assert_eq!((cpu_calls(&table), gpu.resident_bytes()), (0, resident_bytes(&table)));
}

#[test]
fn cpu_decodes_what_no_device_decompressor_takes() {
    let mut table = stored_table();
    compress_table(&mut table, Codec::Lzo, 4 << 10, 0);
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let output = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
    assert_eq!(answer(&output), expected(&table, BOUNDS));
    assert_eq!(cpu_calls(&table) as u64, 2 * touched_groups(&table, BOUNDS));
}

#[test]
fn failed_chunk_is_the_cpus_to_decode_and_nothing_else_is_dropped() {
    let library = nvcomp();
    for (codec, library) in codecs(library.as_deref()) {
        // One file: a failed launch says one column of it.
        let (mut table, other) = (sparse_table(&[&[90_000, 40_000]], Kind::Stored), stored_table());
        let chunks = compress_table(&mut table, codec, 4 << 10, 0);
        let column: Vec<_> = chunks.into_iter().filter(|chunk| chunk.column == 2).collect();
        damage(&mut table, &column);
        let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
            return;
        };
        ask(&gpu, &other, BOUNDS, PAGED, library).unwrap();
        let others = gpu.resident_bytes();
        // The test's decoder knows the values without reading them.
        let output = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap();
        assert_eq!(answer(&output), expected(&table, BOUNDS), "{codec:?}");
        let touched = touched_groups(&table, BOUNDS) as usize;
        assert!(
            (touched..=2 * touched).contains(&cpu_calls(&table)),
            "{codec:?}: {}",
            cpu_calls(&table)
        );
        assert!(
            gpu.resident_bytes() > others + resident_bytes(&table) - table.rows,
            "{codec:?}: the pages are kept"
        );
        let again = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap();
        assert_eq!((answer(&again), again.cost.pages), (answer(&output), 0), "{codec:?}");
        // From now on the CPU decodes the column, and the device the other one.
        let calls = cpu_calls(&table);
        let more = ask(&gpu, &table, [100.0, 110.0], PAGED, library).unwrap();
        assert_eq!(answer(&more), expected(&table, [100.0, 110.0]), "{codec:?}");
        let new = (touched_groups(&table, [100.0, 110.0]) as usize) - touched;
        assert_eq!(cpu_calls(&table) - calls, new, "{codec:?}");
        let other_again = ask(&gpu, &other, BOUNDS, PAGED, library).unwrap();
        assert_eq!(
            other_again.cost.pages, 0,
            "{codec:?}: the other table's pages are there"
        );
    }
}

#[test]
fn error_of_a_failed_chunk_is_the_decoders_and_the_next_query_works() {
    let (mut table, other) = (stored_table(), stored_table());
    let chunks = compress_table(&mut table, Codec::Lz4, 4 << 10, 0);
    damage(&mut table, &chunks);
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    ask(&gpu, &other, BOUNDS, PAGED, None).unwrap();
    let resident = gpu.resident_bytes();
    *table.decoder.fail.lock().unwrap() = Some("trips.orc, stripe 1: a chunk is damaged".to_owned());
    let refused = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap_err();
    assert_eq!(refused.to_string(), "trips.orc, stripe 1: a chunk is damaged");
    *table.decoder.fail.lock().unwrap() = None;
    let filter = table.rows * 8;
    assert!(
        gpu.resident_bytes() <= resident + filter,
        "pages of the failed query are gone"
    );
    let kept = ask(&gpu, &other, BOUNDS, PAGED, None).unwrap();
    assert_eq!(kept.cost.pages, 0, "the other table's pages are there");
    let output = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
    assert_eq!(answer(&output), expected(&table, BOUNDS));
}

#[test]
fn queries_at_once_and_evictions_give_the_same_answers() {
    let tables: Vec<Table> = (0..3)
        .map(|at| {
            let mut table = stored_table();
            compress_table(&mut table, [Codec::Snappy, Codec::Lz4, Codec::Snappy][at], 4 << 10, 5);
            table
        })
        .collect();
    // Two tables fit, with what their queries need beside them.
    let room = 2 * resident_bytes(&tables[0]) + (1 << 20);
    let Some(gpu) = gpu(Some(room), RuntimeOptions::default()) else {
        return;
    };
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (gpu, tables) = (&gpu, &tables);
            scope.spawn(move || {
                for turn in 0..6 {
                    let table = &tables[(thread + turn) % 3];
                    let bounds = [100.0, [118.0, 110.0, 124.0][turn % 3]];
                    let output = ask(gpu, table, bounds, PAGED, None).unwrap();
                    assert_eq!(answer(&output), expected(table, bounds), "thread {thread}, turn {turn}");
                }
            });
        }
    });
    assert!(gpu.resident_bytes() <= room);
}
