//! Columns of compressed files that kernels read by chunk and by row group. Each answer is the CPU's, and fewer bytes
//! move than of whole columns.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::prelude::SessionContext;
use grampus::session;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

use crate::common::{metrics_of, outcome, ran, set, text};
use crate::support::{GPU_SETTINGS, SETTINGS, gpu_runs, has_compiler, has_stand_ins, write_orc};

const ROWS: i64 = 60_000;
/// Three rows in different places, which statistics do not find.
const SPARSE: &str = "SELECT count(*), sum(price), sum(fee), sum(maybe), sum(id), count(word) FROM s \
                      WHERE trip % 20000 = 7";
/// Of the columns that are paged by chunk.
const FLOATS: &str = "SELECT sum(price), sum(fee) FROM s WHERE trip % 20000 = 7";
/// Nearly all rows.
const DENSE: &str = "SELECT count(*), sum(price), sum(fee), sum(maybe), sum(id) FROM s WHERE trip <> 5 AND fee > 1";

/// `trip` has each number once, in no order. `price` and `fee` are floats without NULLs, in runs: they compress. Half
/// of `maybe` is NULL.
fn trips() -> RecordBatch {
    let rows = 0..ROWS;
    let eighth = |row: i64| (row / 16 * 7919 % 1000) as f64 / 8.0;
    let columns: [(&str, ArrayRef); 6] = [
        (
            "trip",
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row * 7919 % ROWS))),
        ),
        (
            "price",
            Arc::new(Float64Array::from_iter_values(rows.clone().map(eighth))),
        ),
        (
            "fee",
            Arc::new(Float32Array::from_iter_values(
                rows.clone().map(|row| eighth(row) as f32),
            )),
        ),
        (
            "maybe",
            Arc::new(Float64Array::from_iter(
                rows.clone().map(|row| (row % 2 == 0).then_some(eighth(row))),
            )),
        ),
        (
            "id",
            Arc::new(Int64Array::from_iter_values(rows.clone().map(|row| row * row))),
        ),
        (
            "word",
            Arc::new(StringArray::from_iter(
                rows.map(|row| ["green", "yellow"].get(row as usize % 3).copied()),
            )),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn write(path: &Path, codec: Codec, chunk_size_bytes: usize, row_index_stride: u32) {
    let options = WriterProperties {
        codec: Some(codec),
        chunk_size_bytes,
        row_index_stride,
        stripe_rows: 25_000,
        ..WriterProperties::default()
    };
    let rows = trips();
    write_orc(path, rows.schema(), std::slice::from_ref(&rows), options);
}

/// Sessions with table `s`: by page, by whole columns, and on the CPU.
async fn sessions(path: &Path) -> [SessionContext; 3] {
    let sessions = [
        GPU_SETTINGS[0].context(),
        GPU_SETTINGS[0].context(),
        SETTINGS[0].context(),
    ];
    for (session, backing) in sessions.iter().zip(["paged", "resident"]) {
        set(session, "grampus.gpu_backing", backing).await;
        let library = grampus_host_nvcomp::file().display().to_string();
        set(session, "grampus.nvcomp_library", &library).await;
    }
    for session in &sessions {
        session::register_orc(session, "s", &path.display().to_string())
            .await
            .unwrap();
    }
    sessions
}

/// The answer, and the sum of some metrics.
async fn run(session: &SessionContext, sql: &str, names: &[&str]) -> (String, usize) {
    let (plan, answer) = ran(session, sql).await;
    assert_eq!(gpu_runs(&plan), (1, 0), "{sql}");
    let metrics = metrics_of(&plan).into_iter();
    let sum = metrics
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(_, value)| value);
    (answer, sum.sum())
}

const MOVED: [&str; 2] = ["pushed_bytes", "page_bytes"];

#[tokio::test(flavor = "multi_thread")]
async fn chunks_of_every_codec_are_paged() {
    if !has_stand_ins("chunks_of_every_codec_are_paged") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for codec in [Codec::Snappy, Codec::Lz4, Codec::Zstd, Codec::Zlib] {
        for chunk_bytes in [4 << 10, 64 << 10, 4 * 1001] {
            let what = format!("{codec:?}, {chunk_bytes}");
            let path = folder.path().join(format!("{what}.orc"));
            write(&path, codec, chunk_bytes, 2000);
            let [paged, whole, cpu] = sessions(&path).await;
            let plan = text(&paged, &format!("EXPLAIN {SPARSE}")).await;
            for rows in [chunk_bytes / 8, chunk_bytes / 4] {
                let rows = rows - rows % 8; // whole bytes of validity
                let words = format!("by chunks of {rows} rows, decoded by the GPU");
                assert!(plan.contains(&words), "{what}: {words} in\n{plan}");
            }
            assert_eq!(
                plan.matches("by chunks of").count(),
                2,
                "{what}: row groups of the others\n{plan}"
            );
            for sql in [SPARSE, DENSE, SPARSE] {
                let expected = text(&cpu, sql).await;
                assert_eq!(run(&paged, sql, &[]).await.0, expected, "{what}, {sql}");
                assert_eq!(
                    run(&paged, sql, &["pages"]).await,
                    (expected, 0),
                    "{what}: pages are kept"
                );
            }
            let [cold, _, _] = sessions(&path).await;
            let (answer, moved) = run(&cold, FLOATS, &MOVED).await;
            let (by_whole, all) = run(&whole, FLOATS, &MOVED).await;
            assert_eq!(answer, by_whole, "{what}");
            assert!(moved < all, "{what}: {moved} of {all} bytes");
            let [cold, _, _] = sessions(&path).await;
            let (_, by_cpu) = run(&cold, SPARSE, &["decode_time"]).await;
            // A time of zero is reported as one nanosecond, by each operator.
            assert!(by_cpu < 100, "{what}: the CPU decodes nothing");
        }
    }
}

/// Damaged bytes give the CPU's error, or its answer, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_pages_give_the_cpus_error_or_answer() {
    if !has_compiler("damaged_pages_give_the_cpus_error_or_answer") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Counts do not depend on the order of rows, whatever the damaged values are.
    let sql = "SELECT count(*), count(*) FILTER (WHERE price > 60), count(*) FILTER (WHERE fee > 60) FROM s \
               WHERE trip >= 100";
    let (mut errors, mut answers) = (0, 0);
    for codec in [Codec::Snappy, Codec::Lz4, Codec::Zstd, Codec::Zlib] {
        let sound = folder.path().join(format!("{codec:?}.orc"));
        // After a damaged chunk, values depend on the row group at which reading begins, so there is one group.
        write(&sound, codec, 4 << 10, 25_000);
        let bytes = std::fs::read(&sound).unwrap();
        for case in 0..12 {
            // The first half of the file has the first stripe and more.
            let at = 2000 + case * bytes.len() / 24;
            let mut damaged = bytes.clone();
            damaged[at..at + 3].iter_mut().for_each(|byte| *byte ^= 0x55);
            let path = folder.path().join(format!("{codec:?} {case}.orc"));
            std::fs::write(&path, &damaged).unwrap();
            let [paged, _, cpu] = sessions(&path).await;
            let expected = outcome(&cpu, sql).await;
            assert_eq!(outcome(&paged, sql).await, expected, "{codec:?}, byte {at}");
            assert_eq!(outcome(&paged, sql).await, expected, "{codec:?}, byte {at}, again");
            *(if expected.is_ok() { &mut answers } else { &mut errors }) += 1;
        }
    }
    println!("{errors} errors, {answers} answers");
    assert!(errors > 5 && answers > 5, "{errors} errors, {answers} answers");
}
