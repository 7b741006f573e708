//! Pages that are compression chunks: of a column with raw values in a compressed file, only the chunks are moved that
//! hold a row that passes. Values may lie in two chunks.
//!
//! The tests are skipped, with a message, without a C++ compiler.

mod temporary_table;

use grampus_gpu_exec::RuntimeOptions;
use grampus_gpu_exec::input::Placement;
use grampus_orc_layout::codec::Codec;
use temporary_table::compression::{compress_table, damage};
use temporary_table::sparse_query::{
    BOUNDS, PAGED, STRIPES, WHOLE, ask, bits_of_sums, codecs, count_and_sums, cpu_calls, expected, nvcomp,
    resident_bytes, sparse_table, stored_bytes, table_of, touched_pages,
};
use temporary_table::{GROUP_ROWS, Kind, Table, gpu};

/// Bytes of a value of the first conjunct's column.
const FILTER: u64 = 8;

fn plain_table(codec: Codec, chunk_bytes: usize, originals: usize) -> Table {
    let mut table = sparse_table(STRIPES, Kind::Plain);
    compress_table(&mut table, codec, chunk_bytes, originals);
    table
}

#[test]
fn only_chunks_with_rows_that_pass_are_moved() {
    let table = plain_table(Codec::Snappy, 4 << 10, 0);
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let first = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
    assert_eq!(count_and_sums(&first), expected(&table, BOUNDS));
    let (chunks, groups) = (
        touched_pages(&table, BOUNDS, 512),
        touched_pages(&table, BOUNDS, GROUP_ROWS),
    );
    let all = STRIPES
        .iter()
        .copied()
        .flatten()
        .map(|rows| rows.div_ceil(512))
        .sum::<u64>();
    assert!(chunks > 5 && chunks < all / 4, "{chunks} of {all} chunks");
    // Of the second condition's column, each row that passes the first one has a page, but for neighbours.
    let moved = first.cost.pushed_bytes - table.rows * FILTER;
    let each = stored_bytes(&table) / (2 * all);
    assert!(
        (each / 2..each * 3 / 2).contains(&(moved / (2 * chunks))),
        "{moved} bytes for {chunks} chunks"
    );
    // Less than row groups, of which each lies in two or three chunks.
    assert!(moved < 2 * groups * 2 * each, "{moved} bytes, {groups} groups");
    let again = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
    assert_eq!((count_and_sums(&again), again.cost.pages), (count_and_sums(&first), 0));
    let more = ask(&gpu, &table, [100.0, 110.0], PAGED, None).unwrap();
    assert_eq!(count_and_sums(&more), expected(&table, [100.0, 110.0]));
    let new = touched_pages(&table, [100.0, 110.0], 512) - chunks;
    assert_eq!(
        (more.cost.pages, more.cost.page_bytes),
        (2 * new, 0),
        "the second condition's pages are there"
    );
    let whole = ask(&gpu, &table, [0.0, 0.0], PAGED, None).unwrap();
    assert_eq!(count_and_sums(&whole), expected(&table, [0.0, 0.0]));
    assert_eq!((gpu.resident_bytes(), cpu_calls(&table)), (resident_bytes(&table), 0));
}

/// Chunks that end within values, tiny and large ones, and original ones between compressed ones.
#[test]
fn values_that_lie_in_two_chunks_are_found() {
    let library = nvcomp();
    for (codec, library) in codecs(library.as_deref()) {
        for (chunk_bytes, originals) in [(4 << 10, 2), (64 << 10, 0), (1001, 3), (4099, 0), (65_539, 2), (13, 4)] {
            let is_slow = chunk_bytes < 1000 && codec != Codec::Snappy;
            if is_slow {
                continue;
            }
            let what = format!("{codec:?}, nvCOMP {}, {chunk_bytes}, {originals}", library.is_some());
            let table = plain_table(codec, chunk_bytes, originals);
            let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
                return;
            };
            for bounds in [[100.0, 124.5], BOUNDS] {
                let paged = ask(&gpu, &table, bounds, PAGED, library).unwrap();
                assert_eq!(count_and_sums(&paged), expected(&table, bounds), "{what}");
                assert!(paged.cost.pages > 0, "{what}");
            }
            let resident = gpu.resident_bytes();
            let again = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap();
            assert_eq!((again.cost.pages, again.cost.moved_bytes()), (0, 0), "{what}");
            assert_eq!(gpu.resident_bytes(), resident, "{what}");
            gpu.forget().unwrap();
            let paged = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap();
            gpu.forget().unwrap();
            let whole = ask(&gpu, &table, BOUNDS, WHOLE, library).unwrap();
            assert_eq!(count_and_sums(&whole), count_and_sums(&paged), "{what}");
            assert!(paged.cost.moved_bytes() < whole.cost.moved_bytes(), "{what}");
            assert_eq!(cpu_calls(&table), 0, "{what}");
        }
    }
}

#[test]
fn paged_answers_equal_resident_answers_to_the_bit() {
    let mut table = table_of(STRIPES, [Kind::Raw, Kind::Plain, Kind::Plain, Kind::Stored]);
    compress_table(&mut table, Codec::Snappy, 1001, 5);
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    for bounds in [BOUNDS, [95.0, 20.0]] {
        gpu.forget().unwrap();
        let (first, bits) = bits_of_sums(&gpu, &table, bounds, PAGED);
        assert!(first.cost.passes > 1 && first.cost.pages > 0, "{:?}", first.cost);
        let (again, same) = bits_of_sums(&gpu, &table, bounds, PAGED);
        assert_eq!((again.cost.passes, again.cost.pages, same), (1, 0, bits));
        gpu.forget().unwrap();
        assert_eq!(bits_of_sums(&gpu, &table, bounds, WHOLE).1, bits, "{bounds:?}");
    }
}

/// The second condition misses chunks of its column, and each later step those of others: row groups too.
#[test]
fn each_step_misses_chunks_of_its_columns() {
    for filter in [Kind::Raw, Kind::Plain] {
        let mut table = table_of(STRIPES, [filter, Kind::Plain, Kind::Stored, Kind::Plain]);
        compress_table(&mut table, Codec::Lz4, 4 << 10, 7);
        let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
            return;
        };
        let paged = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
        assert_eq!(count_and_sums(&paged), expected(&table, BOUNDS));
        let first = touched_pages(&table, [BOUNDS[0], 0.0], 512);
        let later = touched_pages(&table, BOUNDS, GROUP_ROWS) + touched_pages(&table, BOUNDS, 512);
        assert_eq!(paged.cost.pages, first + later, "{filter:?}");
        assert!((3..=4).contains(&paged.cost.passes), "{filter:?}: {:?}", paged.cost);
        assert_eq!(cpu_calls(&table), 0);
    }
}

/// Chunks of other lengths than the first one says: pages lie in parts of several.
#[test]
fn chunks_of_other_lengths_than_expected_only_move_more_bytes() {
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    let mut moved = Vec::new();
    for expected_bytes in [4096, 100, 8000, 1 << 30] {
        let mut table = plain_table(Codec::Lz4, 4 << 10, 0);
        for stripe in &mut table.input.stripes {
            for placement in &mut stripe.columns {
                if let Placement::Decoded { chunk_bytes, .. } = placement {
                    *chunk_bytes = Some(expected_bytes);
                }
            }
        }
        let output = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
        assert_eq!(count_and_sums(&output), expected(&table, BOUNDS), "{expected_bytes}");
        assert_eq!(cpu_calls(&table), 0, "{expected_bytes}");
        moved.push(output.cost.pushed_bytes);
    }
    assert!(
        moved[0] <= moved[1] && moved[0] < moved[2] && moved[2] < moved[3],
        "{moved:?}"
    );
}

#[test]
fn pages_of_another_size_are_loaded_anew_and_kept() {
    let mut table = plain_table(Codec::Snappy, 4 << 10, 0);
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
    let resident = gpu.resident_bytes();
    for stripe in &mut table.input.stripes {
        for placement in &mut stripe.columns {
            if let Placement::Decoded { chunk_bytes, .. } = placement {
                *chunk_bytes = None;
            }
        }
    }
    let groups = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
    assert_eq!(count_and_sums(&groups), expected(&table, BOUNDS));
    assert_eq!(groups.cost.pages, 2 * touched_pages(&table, BOUNDS, GROUP_ROWS));
    assert!(gpu.resident_bytes() <= resident, "the chunks' bits are gone");
    let again = ask(&gpu, &table, BOUNDS, PAGED, None).unwrap();
    assert_eq!((count_and_sums(&again), again.cost.pages), (count_and_sums(&groups), 0));
}

#[test]
fn failed_chunk_is_the_cpus_to_decode() {
    let library = nvcomp();
    for (codec, library) in codecs(library.as_deref()) {
        let mut table = sparse_table(&[&[90_000, 40_000]], Kind::Plain);
        let chunks = compress_table(&mut table, codec, 4 << 10, 0);
        // One chunk of one column, with a row that passes: its page, and what was launched with it.
        let passes =
            |row: u64| temporary_table::value(0, row) >= BOUNDS[0] && temporary_table::value(1, row) >= BOUNDS[1];
        let row = (0..90_000).find(|row| passes(*row)).expect("one passes");
        let of_column: Vec<_> = chunks
            .iter()
            .filter(|chunk| (chunk.stripe, chunk.column) == (0, 3))
            .collect();
        damage(&mut table, &[*of_column[row as usize / 512]]);
        let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
            return;
        };
        // The test's decoder knows the values without reading them.
        let output = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap();
        assert_eq!(count_and_sums(&output), expected(&table, BOUNDS), "{codec:?}");
        let chunks = touched_pages(&table, BOUNDS, 512) as usize;
        assert!(
            (1..=2 * chunks).contains(&cpu_calls(&table)),
            "{codec:?}: {} calls",
            cpu_calls(&table)
        );
        let again = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap();
        assert_eq!(count_and_sums(&again), expected(&table, BOUNDS), "{codec:?}");
        assert_eq!(
            (again.cost.pages, again.cost.moved_bytes()),
            (0, 0),
            "{codec:?}: all pages are kept"
        );
        let more = ask(&gpu, &table, [100.0, 110.0], PAGED, library).unwrap();
        assert_eq!(count_and_sums(&more), expected(&table, [100.0, 110.0]), "{codec:?}");
        // A decoder that reads the chunk says what is wrong.
        gpu.forget().unwrap();
        *table.decoder.fail.lock().unwrap() = Some("trips.orc, stripe 0: a chunk is damaged".to_owned());
        let refused = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap_err();
        assert_eq!(refused.to_string(), "trips.orc, stripe 0: a chunk is damaged");
        *table.decoder.fail.lock().unwrap() = None;
        let after = ask(&gpu, &table, BOUNDS, PAGED, library).unwrap();
        assert_eq!(count_and_sums(&after), expected(&table, BOUNDS), "{codec:?}");
    }
}

#[test]
fn queries_at_once_and_evictions_give_the_same_answers() {
    let tables = [
        plain_table(Codec::Snappy, 4 << 10, 5),
        plain_table(Codec::Lz4, 1001, 0),
        plain_table(Codec::Snappy, 64 << 10, 0),
    ];
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
                    assert_eq!(
                        count_and_sums(&output),
                        expected(table, bounds),
                        "thread {thread}, turn {turn}"
                    );
                }
            });
        }
    });
    assert!(gpu.resident_bytes() <= room);
    assert_eq!(tables.iter().map(cpu_calls).sum::<usize>(), 0);
}
