//! Needed and moved bytes, requests and skipped row groups, against numbers computed by hand.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch};
use futures::StreamExt;
use grampus::{GrampusConfig, scan_io, session};
use grampus_orc_layout::write::WriterProperties;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

use super::common::{context_with, measured, register, write_orc};

/// 40,000 rows: `x` is the row number, `y` and `z` follow from the row number, and `n` is the row number modulo 1000
/// (decoded).
fn table() -> RecordBatch {
    let column = |scale: f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(
            (0..40_000).map(|row| f64::from(row) * scale),
        ))
    };
    let n: ArrayRef = Arc::new(Int32Array::from_iter_values((0..40_000).map(|row| row % 1000)));
    let columns = [("x", column(1.0)), ("y", column(0.5)), ("z", column(-1.0)), ("n", n)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn options() -> WriterProperties {
    WriterProperties {
        row_index_stride: 1000,
        stripe_rows: 20_000,
        ..WriterProperties::default()
    }
}

#[tokio::test]
async fn filter_needs_its_column_and_the_passing_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, &[table()], options());
    let context = context_with(1, &[("grampus.prune", "false")]).await;
    register(&context, "t", &path).await;

    // The first run reads footers and indexes.
    let sql = "SELECT sum(y), sum(z) FROM t WHERE x % 1000 = 17";
    measured(&context, sql).await;
    let (_, _, io) = measured(&context, sql).await;
    assert_eq!((io.rows_scanned, io.rows_passed), (40_000, 40));
    assert_eq!(io.needed_bytes, 40_000 * 8 + 2 * 40 * 8);
    // The predicate column moves in whole lines. Dependent values take a line each: they are 8000 bytes apart and
    // aligned to 8.
    assert_eq!(io.moved_bytes, 40_000 * 8 + 2 * 40 * 64);
    assert_eq!(
        (io.row_groups_total, io.row_groups_skipped, io.stripes_skipped),
        (40, 0, 0)
    );
    // Per stripe: one tile of the predicate column, one gather per dependent column.
    assert_eq!(io.read_requests, 2 * (1 + 2));

    let (_, _, io) = measured(&context, "SELECT count(*) FROM t WHERE x >= 39999").await;
    assert_eq!(
        (io.needed_bytes, io.moved_bytes, io.rows_passed),
        (40_000 * 8, 40_000 * 8, 1)
    );
}

#[tokio::test]
async fn column_without_values_moves_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    let fee: ArrayRef = Arc::new(Float64Array::new_null(40_000));
    // Only the second stripe has a value.
    let rare: ArrayRef = Arc::new(Float64Array::from_iter(
        (0..40_000).map(|row| (row == 30_000).then_some(1.0)),
    ));
    let x = table().column(0).clone();
    let batch = RecordBatch::try_from_iter_with_nullable([("x", x, true), ("fee", fee, true), ("rare", rare, true)]);
    write_orc(&path, &[batch.unwrap()], options());
    let context = context_with(1, &[]).await;
    register(&context, "t", &path).await;

    let filter = "FROM t WHERE x % 1000 = 0";
    // The first run reads footers.
    measured(&context, &format!("SELECT count(*) {filter}")).await;
    let (_, _, without) = measured(&context, &format!("SELECT count(*), sum(x) {filter}")).await;
    let (answer, _, io) = measured(&context, &format!("SELECT count(fee), sum(coalesce(fee, x)) {filter}")).await;
    assert!(answer.contains("| 0 ") && answer.contains("780000.0"), "{answer}");
    assert_eq!(
        (io.moved_bytes, io.needed_bytes),
        (without.moved_bytes, without.needed_bytes)
    );

    let (answer, _, io) = measured(&context, &format!("SELECT count(rare) {filter}")).await;
    assert!(
        answer.contains("| 1 ") && io.moved_bytes > without.moved_bytes,
        "{answer} {io:?}"
    );
    let (answer, _, _) = measured(&context, "SELECT count(*) FROM t WHERE fee IS NULL AND rare IS NULL").await;
    assert!(answer.contains("39999"), "{answer}");
}

#[tokio::test]
async fn statistics_skip_stripes_and_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, &[table()], options());
    let context = context_with(1, &[]).await;
    register(&context, "t", &path).await;
    let sql = "SELECT count(*), sum(y) FROM t WHERE x >= 30500 AND x < 31500";
    measured(&context, sql).await;
    let (answer, _, io) = measured(&context, sql).await;
    assert!(answer.contains("1000"), "{answer}");
    assert_eq!(
        (io.row_groups_total, io.row_groups_skipped, io.stripes_skipped),
        (40, 38, 1)
    );
    assert_eq!((io.rows_scanned, io.rows_passed), (2000, 1000));
    assert_eq!(io.needed_bytes, 2000 * 8 + 1000 * 8);

    let (_, _, io) = measured(&context, "SELECT * FROM t WHERE x < 0").await;
    assert_eq!((io.row_groups_skipped, io.stripes_skipped, io.moved_bytes), (40, 2, 0));
    assert_eq!(io.amplification(), 1.0);
}

#[tokio::test]
async fn bloom_filters_skip_row_groups_that_bounds_keep() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    // Values are scattered over the whole range in every row group, so bounds exclude nothing.
    let key: ArrayRef = Arc::new(Int32Array::from_iter_values(
        (0..40_000).map(|row| row * 7919 % 40_000 * 2),
    ));
    let batch = RecordBatch::try_from_iter_with_nullable([("key", key, true)]).unwrap();
    let with_filters = WriterProperties {
        bloom_filter_columns: vec!["key".to_owned()],
        ..options()
    };
    write_orc(&path, &[batch], with_filters);
    let context = context_with(1, &[]).await;
    register(&context, "t", &path).await;
    let (_, _, io) = measured(&context, "SELECT * FROM t WHERE key = 30001").await;
    assert!(io.row_groups_skipped >= 36 && io.rows_passed == 0, "{io:?}");
    let (_, _, io) = measured(&context, "SELECT * FROM t WHERE key IN (30000, 30001)").await;
    assert!(io.row_groups_skipped >= 34 && io.rows_passed == 1, "{io:?}");
    let (_, _, io) = measured(&context, "SELECT * FROM t WHERE key <> 30000").await;
    assert_eq!((io.row_groups_skipped, io.rows_passed), (0, 39_999));
}

#[tokio::test]
async fn later_conjuncts_read_only_the_remaining_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, &[table()], options());
    let context = context_with(1, &[("grampus.prune", "false")]).await;
    register(&context, "t", &path).await;
    let sql = "SELECT count(*) FROM t WHERE x % 100 = 3 AND y * 2 = 1003";
    measured(&context, sql).await;
    let (_, _, io) = measured(&context, sql).await;
    assert_eq!((io.rows_scanned, io.rows_passed), (40_000, 1));
    // The scan needs all values of x, and each hundredth value of y.
    assert_eq!(io.needed_bytes, 40_000 * 8 + 400 * 8);
}

#[tokio::test]
async fn counting_rows_reads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, &[table()], options());
    let context = context_with(2, &[]).await;
    register(&context, "t", &path).await;
    let (answer, _, io) = measured(&context, "SELECT count(*) FROM t").await;
    assert!(answer.contains("40000"), "{answer}");
    assert_eq!((io.moved_bytes, io.needed_bytes), (0, 0));
    // Statistics do not give the answer: the scan counts the rows without reading a column.
    let (answer, _, io) = measured(&context, "SELECT count(*) FROM (SELECT 1 FROM t LIMIT 12345)").await;
    assert!(answer.contains("12345"), "{answer}");
    assert_eq!(io.needed_bytes, 0);
}

#[tokio::test]
async fn dropped_stream_stops_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, &[table()], options());
    let context = context_with(1, &[("grampus.tile_rows", "1000")]).await;
    register(&context, "t", &path).await;
    let frame = context.sql("SELECT x, y FROM t WHERE x >= 0").await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    let mut stream = plan.execute(0, context.task_ctx()).unwrap();
    assert!(stream.next().await.unwrap().unwrap().num_rows() > 0);
    drop(stream);
    let io = scan_io(&plan);
    assert!(io.rows_scanned < 20_000, "{io:?}");
}

#[tokio::test]
async fn fetched_bytes_count_against_the_memory_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, &[table()], options());
    for (limit, fits) in [(64 << 20, true), (100_000, false)] {
        let context = session::context(GrampusConfig {
            memory_limit: grampus::MemoryLimit::Bytes(limit),
            target_partitions: Some(1),
            ..GrampusConfig::default()
        })
        .unwrap();
        let store = Arc::new(InMemory::new());
        store
            .put(&"t.orc".into(), std::fs::read(&path).unwrap().into())
            .await
            .unwrap();
        context.register_object_store(&url::Url::parse("memory://bucket").unwrap(), store);
        session::register_orc(&context, "t", "memory://bucket/t.orc")
            .await
            .unwrap();
        let outcome = context
            .sql("SELECT sum(y) FROM t WHERE x > 5")
            .await
            .unwrap()
            .collect()
            .await;
        match outcome {
            Ok(_) => assert!(fits),
            Err(error) => assert!(
                !fits && error.to_string().contains("memory limit of 97.7 KiB (-m,"),
                "{error}"
            ),
        }
    }
}

#[tokio::test]
async fn limit_stops_the_scan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, &[table()], options());
    let context = context_with(4, &[]).await;
    register(&context, "t", &path).await;
    let (_, _, io) = measured(&context, "SELECT x, n FROM t LIMIT 5").await;
    assert!(io.needed_bytes < 1000, "{io:?}");
    let context = context_with(1, &[("grampus.tile_rows", "1000"), ("grampus.prune", "false")]).await;
    register(&context, "t", &path).await;
    let (answer, _, io) = measured(&context, "SELECT x, y FROM t WHERE x >= 2500 LIMIT 3").await;
    assert!(
        answer.contains("2500.0") && answer.contains("2502.0") && !answer.contains("2503.0"),
        "{answer}"
    );
    assert_eq!((io.rows_scanned, io.needed_bytes), (3000, 3000 * 8 + 3 * 8));
}
