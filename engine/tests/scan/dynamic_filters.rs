//! Filters that joins, sorts with a limit and minima give to the scan while the query runs.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Int64Array, RecordBatch, StringArray};
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::{GrampusConfig, MemoryLimit, ScanIo, session};
use grampus_orc_layout::write::WriterProperties;

use super::common::{measured, register, run, text, write_orc};

const ROWS: i64 = 60_000;

/// Facts: `k` ascends with four rows each, `s` and `d` follow from `k`, `v` is the row number, and each seventh `n` is
/// NULL.
fn facts() -> RecordBatch {
    let rows = || 0..ROWS;
    let columns: [(&str, ArrayRef); 5] = [
        ("k", Arc::new(Int64Array::from_iter_values(rows().map(|row| row / 4)))),
        (
            "s",
            Arc::new(StringArray::from_iter_values(
                rows().map(|row| format!("key {:05}", row / 4)),
            )),
        ),
        (
            "d",
            Arc::new(Date32Array::from_iter_values(rows().map(|row| (row / 4) as i32))),
        ),
        (
            "n",
            Arc::new(
                rows()
                    .map(|row| (row % 7 != 0).then_some(row / 4))
                    .collect::<Int64Array>(),
            ),
        ),
        ("v", Arc::new(Int64Array::from_iter_values(rows()))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Keys: each hundredth `k` of the facts, with its `s` and `d`, and a NULL.
fn keys() -> RecordBatch {
    let rows = || (0..ROWS / 4).step_by(100);
    let columns: [(&str, ArrayRef); 4] = [
        ("k", Arc::new(rows().map(Some).chain([None]).collect::<Int64Array>())),
        (
            "s",
            Arc::new(
                rows()
                    .map(|k| Some(format!("key {k:05}")))
                    .chain([None])
                    .collect::<StringArray>(),
            ),
        ),
        (
            "d",
            Arc::new(rows().map(|k| Some(k as i32)).chain([None]).collect::<Date32Array>()),
        ),
        (
            "g",
            Arc::new(
                rows()
                    .map(Some)
                    .chain([None])
                    .map(|k| k.map(|k| k / 100 % 10))
                    .collect::<Int64Array>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

async fn tables(folder: &Path, partitions: usize, memory_limit: MemoryLimit) -> SessionContext {
    let options = || WriterProperties {
        row_index_stride: 1000,
        stripe_rows: 15_000,
        ..WriterProperties::default()
    };
    write_orc(&folder.join("facts.orc"), &[facts()], options());
    write_orc(&folder.join("keys.orc"), &[keys()], options());
    let config = GrampusConfig {
        target_partitions: Some(partitions),
        memory_limit,
        ..GrampusConfig::default()
    };
    let context = session::context(config).unwrap();
    run(&context, "SET grampus.tile_rows = '1000'").await;
    run(&context, "SET grampus.min_partition_rows = '1000'").await;
    register(&context, "facts", &folder.join("facts.orc")).await;
    register(&context, "keys", &folder.join("keys.orc")).await;
    context
}

/// The answer, which must be the same without dynamic filters, and the I/O with and without them.
async fn compared(context: &SessionContext, sql: &str) -> (String, ScanIo, ScanIo) {
    run(
        context,
        "SET datafusion.optimizer.enable_dynamic_filter_pushdown = 'false'",
    )
    .await;
    let (expected, _, without) = measured(context, sql).await;
    run(
        context,
        "SET datafusion.optimizer.enable_dynamic_filter_pushdown = 'true'",
    )
    .await;
    let (answer, _, with) = measured(context, sql).await;
    assert_eq!(answer, expected, "{sql}");
    (answer, with, without)
}

const JOINS: [&str; 8] = [
    "SELECT sum(v), count(*) FROM facts JOIN keys USING (k) WHERE g = 3",
    "SELECT sum(v), count(*) FROM facts JOIN keys ON facts.s = keys.s WHERE g = 3",
    "SELECT sum(v), count(*) FROM facts JOIN keys ON facts.d = keys.d WHERE g = 3",
    "SELECT sum(v), count(*) FROM facts JOIN keys ON facts.n = keys.k WHERE g = 3",
    "SELECT sum(v), count(*) FROM facts JOIN keys ON facts.k = keys.k AND facts.s = keys.s WHERE g = 3",
    "SELECT sum(v), count(*) FROM facts WHERE k IN (SELECT k FROM keys WHERE g = 3)",
    "SELECT sum(v), count(*) FROM facts JOIN keys ON facts.k = keys.k + 1 WHERE g = 3",
    "SELECT sum(v), count(*) FROM facts JOIN keys USING (k) WHERE g = 3 AND v % 2 = 0",
];

#[tokio::test]
async fn join_reads_the_rows_of_its_keys() {
    for (memory_limit, partitions) in [
        (MemoryLimit::Unlimited, 1),
        (MemoryLimit::Unlimited, 3),
        (MemoryLimit::Bytes(1 << 30), 1),
        (MemoryLimit::Bytes(1 << 30), 3),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let context = tables(folder.path(), partitions, memory_limit).await;
        for broadcasts in ["1048576", "0"] {
            run(
                &context,
                &format!("SET datafusion.optimizer.hash_join_single_partition_threshold = '{broadcasts}'"),
            )
            .await;
            run(
                &context,
                &format!("SET datafusion.optimizer.hash_join_single_partition_threshold_rows = '{broadcasts}'"),
            )
            .await;
            for sql in JOINS {
                let (_, with, without) = compared(&context, sql).await;
                let case = format!("{sql}, {memory_limit:?}, {partitions} partitions, {broadcasts}");
                assert!(
                    with.rows_passed < without.rows_passed / 2,
                    "{case}: {with:?} {without:?}"
                );
                // The rows that `v % 2` excludes had no key to read before.
                if !sql.contains("v % 2") {
                    assert!(with.needed_bytes < without.needed_bytes, "{case}: {with:?} {without:?}");
                }
            }
        }
    }
}

/// The keys lie in few row groups, which the bounds of the build side tell.
#[tokio::test]
async fn bounds_of_a_join_skip_row_groups() {
    for memory_limit in [MemoryLimit::Unlimited, MemoryLimit::Bytes(1 << 30)] {
        let folder = tempfile::tempdir().unwrap();
        let context = tables(folder.path(), 2, memory_limit).await;
        let sql = "SELECT sum(v), count(*) FROM facts JOIN keys ON facts.k = keys.k WHERE keys.k + 0 < 1000";
        let (_, with, without) = compared(&context, sql).await;
        assert_eq!(without.row_groups_skipped, 0, "{without:?}");
        assert!(with.row_groups_skipped > 40, "{with:?}");
        assert!(with.moved_bytes < without.moved_bytes / 2, "{with:?} {without:?}");
        // More keys than a filter lists.
        for key in ["v", "s"] {
            let joined = format!("facts a JOIN facts b ON a.{key} = b.{key} WHERE b.v + 0 < 20000");
            let (_, with, without) = compared(&context, &format!("SELECT sum(a.v), count(*) FROM {joined}")).await;
            assert!(
                with.row_groups_skipped >= without.row_groups_skipped + 30,
                "{with:?} {without:?}"
            );
        }
    }
}

/// More keys than a filter lists, and within its bounds a third of all keys.
#[tokio::test]
async fn sets_of_many_keys_exclude_rows_between_the_bounds() {
    for partitions in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let context = tables(folder.path(), partitions, MemoryLimit::Bytes(1 << 30)).await;
        for threshold in ["threshold", "threshold_rows"] {
            let setting = format!("datafusion.optimizer.hash_join_single_partition_{threshold}");
            run(&context, &format!("SET {setting} = '0'")).await;
        }
        for keys in [
            "a.v = b.v",
            "a.s = b.s",
            "a.k = b.k AND a.d = b.d",
            "a.n + 1 = b.n + 1",
            "a.n = b.k",
        ] {
            // Of both columns, so that no condition on the columns of `a` follows.
            let filter = "(b.k + length(b.s)) % 3 = 1";
            let sql = format!("SELECT sum(a.v), count(*) FROM facts a JOIN facts b ON {keys} WHERE {filter}");
            let (_, with, without) = compared(&context, &sql).await;
            let excluded = without.rows_passed - with.rows_passed;
            assert!(excluded > ROWS as u64 / 2, "{keys}, {partitions}: {with:?} {without:?}");
        }
    }
}

/// Joins that keep rows without a partner: the filter may not exclude them.
#[tokio::test]
async fn joins_that_keep_rows_without_a_partner() {
    for memory_limit in [MemoryLimit::Unlimited, MemoryLimit::Bytes(1 << 30)] {
        let folder = tempfile::tempdir().unwrap();
        let context = tables(folder.path(), 3, memory_limit).await;
        for sql in [
            "SELECT count(*), sum(v), sum(g) FROM facts LEFT JOIN keys USING (k)",
            "SELECT count(*), sum(v), sum(g) FROM facts RIGHT JOIN keys USING (k)",
            "SELECT count(*), sum(v), sum(g) FROM facts FULL JOIN keys USING (k)",
            "SELECT count(*), sum(v) FROM facts WHERE k NOT IN (SELECT k FROM keys WHERE k IS NOT NULL)",
            "SELECT count(*), sum(v) FROM facts WHERE n NOT IN (SELECT k FROM keys)",
            "SELECT count(*), sum(v) FROM facts WHERE NOT EXISTS (SELECT 1 FROM keys WHERE keys.k = facts.k)",
            "SELECT count(*) FROM keys WHERE k NOT IN (SELECT n FROM facts WHERE n IS NOT NULL)",
            "SELECT count(*), sum(v) FROM facts JOIN keys ON facts.n IS NOT DISTINCT FROM keys.k",
            "SELECT count(*), sum(v) FROM facts JOIN keys USING (k) WHERE g * 2 = 77",
        ] {
            compared(&context, sql).await;
        }
    }
}

#[tokio::test]
async fn sort_with_a_limit_reads_few_rows() {
    let folder = tempfile::tempdir().unwrap();
    for partitions in [1, 3] {
        let context = tables(folder.path(), partitions, MemoryLimit::Unlimited).await;
        for sql in [
            "SELECT v, s FROM facts ORDER BY v LIMIT 5",
            "SELECT n, v FROM facts ORDER BY n NULLS FIRST, v LIMIT 7",
            "SELECT max(s) FROM (SELECT s FROM facts ORDER BY k LIMIT 9)",
        ] {
            let (_, with, without) = compared(&context, sql).await;
            assert!(
                with.rows_passed < without.rows_passed / 2,
                "{sql}: {with:?} {without:?}"
            );
        }
        let (answer, ..) = compared(
            &context,
            "SELECT * FROM (SELECT v, k FROM facts LIMIT 9) JOIN keys USING (k)",
        )
        .await;
        assert!(answer.contains("| 3 "), "the limit comes first: {answer}");
    }
}

/// A threshold that the sort finds while a stripe is read holds for the stripe's other tiles, and for other stripes.
#[tokio::test]
async fn sort_with_a_limit_skips_row_groups_of_the_stripe_that_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let context = tables(folder.path(), 1, MemoryLimit::Unlimited).await;
    let one_stripe = WriterProperties {
        row_index_stride: 1000,
        ..WriterProperties::default()
    };
    write_orc(&folder.path().join("one.orc"), &[facts()], one_stripe);
    register(&context, "one", &folder.path().join("one.orc")).await;
    // Tiles of one row group, of a part of one, of several, and such that cut row groups.
    for tile_rows in ["1000", "300", "4000", "1500"] {
        run(&context, &format!("SET grampus.tile_rows = '{tile_rows}'")).await;
        for table in ["facts", "one"] {
            for order in ["v", "k, v", "d, v", "s, v DESC"] {
                let sql = format!("SELECT v, s FROM {table} WHERE s <> '' ORDER BY {order} LIMIT 5");
                let (_, with, without) = compared(&context, &sql).await;
                assert_eq!(without.row_groups_skipped, 0, "{sql}: {without:?}");
                let case = format!("{sql}, tiles of {tile_rows}: {with:?}");
                assert!((40..60).contains(&with.row_groups_skipped), "{case}");
                // The sort sees its first rows with the first batch of 8,192.
                assert!(with.rows_scanned <= 18_000, "{case}");
            }
        }
    }
    // The least rows come last, so that no row group is left out wrongly.
    for order in ["v DESC", "s DESC, v", "n DESC NULLS LAST, v"] {
        compared(&context, &format!("SELECT v, s FROM one ORDER BY {order} LIMIT 5")).await;
    }
}

/// The state of a filter outlives the first execution of its plan.
#[tokio::test]
async fn second_execution_of_a_plan_has_all_rows() {
    let folder = tempfile::tempdir().unwrap();
    let context = tables(folder.path(), 2, MemoryLimit::Bytes(1 << 30)).await;
    for sql in [
        "SELECT min(v), max(v) FROM facts WHERE v % 3 = 1",
        "SELECT count(*), sum(v) FROM facts JOIN keys USING (k) WHERE g = 3",
    ] {
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let first = text(&collect(Arc::clone(&plan), context.task_ctx()).await.unwrap());
        let task = context.task_ctx();
        for _ in 0..2 {
            let again = collect(Arc::clone(&plan), Arc::clone(&task)).await.unwrap();
            assert_eq!(text(&again), first, "{sql}");
        }
    }
}

/// Each round of the recursion has other keys.
#[tokio::test]
async fn recursive_query_finds_the_rows_of_each_round() {
    for memory_limit in [MemoryLimit::Unlimited, MemoryLimit::Bytes(1 << 30)] {
        let folder = tempfile::tempdir().unwrap();
        let context = tables(folder.path(), 2, memory_limit).await;
        let sql = "WITH RECURSIVE walk AS (
                SELECT CAST(3 AS BIGINT) AS at
                UNION ALL
                SELECT max(facts.v) FROM walk JOIN facts ON facts.k = walk.at HAVING max(facts.v) < 20000
            ) SELECT count(*), max(at) FROM walk";
        let (answer, ..) = compared(&context, sql).await;
        assert!(!answer.contains("| 1 "), "{answer}");
    }
}

#[tokio::test]
async fn explain_names_the_columns() {
    let folder = tempfile::tempdir().unwrap();
    let context = tables(folder.path(), 1, MemoryLimit::Unlimited).await;
    let plan = text(&run(&context, &format!("EXPLAIN FORMAT INDENT {}", JOINS[0])).await);
    assert!(plan.contains("dynamic_filter=[k (decoded)]"), "{plan}");
}
