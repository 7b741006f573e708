//! Row counts, sizes and distinct values that scans tell the optimizer, and the joins that it builds by them.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion::prelude::SessionContext;
use grampus::{Grampus, SessionChange};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

use super::common::{context, register, run, value, write_orc};

const ROWS: i64 = 200_000;

/// A table of 200,000 rows in two files. `id` counts them, `word` is one of 50 words in no order, `day` one of 20 in
/// order, `price` a decimal below 100.
fn write_table(folder: &Path, codec: Option<Codec>) {
    for file in 0..2 {
        let ids = file * ROWS / 2..(file + 1) * ROWS / 2;
        let scattered = |id: i64| (id * 7_919) % 1_000;
        let prices = ids.clone().map(|id| i128::from(scattered(id) * 10));
        let columns: [(&str, ArrayRef); 4] = [
            ("id", Arc::new(Int64Array::from_iter_values(ids.clone()))),
            (
                "word",
                Arc::new(StringArray::from_iter_values(
                    ids.clone().map(|id| format!("word {}", scattered(id) / 20)),
                )),
            ),
            (
                "day",
                Arc::new(StringArray::from_iter_values(
                    ids.map(|id| format!("day {:02}", id * 20 / ROWS)),
                )),
            ),
            (
                "price",
                Arc::new(
                    Decimal128Array::from_iter_values(prices)
                        .with_precision_and_scale(15, 2)
                        .unwrap(),
                ),
            ),
        ];
        let options = WriterProperties {
            codec,
            ..WriterProperties::default()
        };
        let path = folder.join(format!("{file}.orc"));
        write_orc(&path, &[RecordBatch::try_from_iter(columns).unwrap()], options);
    }
}

async fn plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// The statistics of the scan whose line in EXPLAIN contains `text`.
fn statistics_of(plan: &Arc<dyn ExecutionPlan>, text: &str) -> Option<Statistics> {
    if plan.children().is_empty() {
        let line = displayable(plan.as_ref()).one_line().to_string();
        let computed = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
        return line.contains(text).then(|| Arc::unwrap_or_clone(computed.unwrap()));
    }
    plan.children().into_iter().find_map(|child| statistics_of(child, text))
}

/// The estimate of the rows of `t` that pass `filter`, in a join with a table of numbers.
async fn estimated(context: &SessionContext, filter: &str) -> usize {
    let sql = format!("SELECT count(price) FROM t JOIN numbers ON t.id = numbers.n WHERE {filter}");
    let statistics = statistics_of(&plan(context, &sql).await, "filter=").unwrap();
    match statistics.num_rows {
        Precision::Inexact(rows) => rows,
        other => panic!("{filter}: {other:?}"),
    }
}

async fn with_numbers(context: &SessionContext) {
    run(
        context,
        "CREATE TABLE numbers AS SELECT value AS n FROM generate_series(1, 1000)",
    )
    .await;
}

#[tokio::test]
async fn filters_below_joins_are_sampled() {
    for codec in [None, Some(Codec::Zstd)] {
        let folder = tempfile::tempdir().unwrap();
        write_table(folder.path(), codec);
        let context = context(2);
        register(&context, "t", folder.path()).await;
        with_numbers(&context).await;
        for filter in [
            "word IN ('word 3', 'word 4')",
            "word LIKE '%9'",
            "word = 'word 7' OR price > 90",
            "price BETWEEN 10 AND 20",
            "price < 1.5 AND word <> 'word 9'",
            "abs(id) % 2 = 0",
        ] {
            let rows = value(&context, &format!("SELECT count(*) FROM t WHERE {filter}")).await;
            let rows: f64 = rows.parse().unwrap();
            let share = estimated(&context, filter).await as f64 / rows;
            assert!(
                (0.5..2.0).contains(&share),
                "{filter}: {share} times the {rows} rows that pass"
            );
        }
        // No sampled row passes. That is little of 200,000 rows, and more than nothing.
        let rare = estimated(&context, "word = 'word 33 and more'").await;
        assert!((1..200).contains(&rare), "{rare}");
        // Rows that lie together are missed by a sample. Bounds know of them.
        let rows = estimated(&context, "id >= 30000 AND id < 34000").await;
        assert!((3_000..5_000).contains(&rows), "{rows}");
    }
}

#[tokio::test]
async fn samples_of_small_tables_are_exact() {
    let folder = tempfile::tempdir().unwrap();
    let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d", "e"]));
    let batch = RecordBatch::try_from_iter([
        ("id", Arc::new(Int64Array::from_iter_values(0..5)) as ArrayRef),
        ("price", names),
    ]);
    write_orc(
        &folder.path().join("t.orc"),
        &[batch.unwrap()],
        WriterProperties::default(),
    );
    let context = context(2);
    register(&context, "t", folder.path()).await;
    with_numbers(&context).await;
    assert_eq!(estimated(&context, "price IN ('a', 'c')").await, 2);
    assert_eq!(estimated(&context, "price = 'x'").await, 0);
}

/// The operators of the build side of the plan's join.
fn build_side(plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return Some(displayable(join.left().as_ref()).indent(false).to_string());
    }
    plan.children().into_iter().find_map(build_side)
}

#[tokio::test]
async fn joins_build_the_side_that_a_sample_finds_smaller() {
    let folder = tempfile::tempdir().unwrap();
    write_table(folder.path(), None);
    let sql = "SELECT s.price, t.price FROM t AS s JOIN t ON s.id = t.id WHERE ";
    let few_left = format!("{sql} s.word = 'word 2' AND t.word <> 'word 1'");
    let few_right = format!("{sql} s.word <> 'word 1' AND t.word = 'word 2'");
    let few = "filter=[word = word 2";
    let sampled = context(2);
    register(&sampled, "t", folder.path()).await;
    for sql in [&few_left, &few_right] {
        let plan = plan(&sampled, sql).await;
        let built = build_side(&plan).unwrap();
        assert!(built.contains(few), "{built}");
    }
    // Without a sample, a fifth of both tables is expected, and the left side is built.
    let without = Grampus::builder()
        .without(SessionChange::FilterSamples)
        .build()
        .unwrap();
    let builder = SessionStateBuilder::new().with_default_features();
    let unsampled = SessionContext::new_with_state(without.register(builder).build());
    register(&unsampled, "t", folder.path()).await;
    let plan = plan(&unsampled, &few_right).await;
    let expected = statistics_of(&plan, few).unwrap().num_rows;
    assert_eq!(expected, Precision::Inexact(ROWS as usize / 5));
    assert!(!build_side(&plan).unwrap().contains(few));
}

#[tokio::test]
async fn statistics_have_sizes_and_distinct_values() {
    let folder = tempfile::tempdir().unwrap();
    write_table(folder.path(), None);
    let context = context(2);
    register(&context, "t", folder.path()).await;
    let statistics = statistics_of(&plan(&context, "SELECT id, word, price FROM t").await, "OrcScanExec").unwrap();
    let distinct: Vec<_> = (statistics.column_statistics.iter())
        .map(|column| column.distinct_count)
        .collect();
    assert_eq!(distinct[0], Precision::Inexact(ROWS as usize));
    assert_eq!(distinct[1], Precision::Inexact(50));
    let rows = ROWS as usize;
    let text: usize = (0..50).map(|word: usize| 5 + word.to_string().len()).sum();
    let bytes = 8 * rows + (4 * rows + text * rows / 50) + 16 * rows;
    assert_eq!(statistics.total_byte_size, Precision::Inexact(bytes));
}

#[tokio::test]
async fn partition_columns_have_exact_bounds() {
    let folder = tempfile::tempdir().unwrap();
    for (part, first) in [("p=7", 0), ("p=12", 10), ("p=__HIVE_DEFAULT_PARTITION__", 20)] {
        let x: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + 10));
        let batch = RecordBatch::try_from_iter([("x", x)]).unwrap();
        write_orc(
            &folder.path().join(part).join("0.orc"),
            &[batch],
            WriterProperties::default(),
        );
    }
    let context = context(2);
    register(&context, "t", folder.path()).await;
    let statistics = statistics_of(&plan(&context, "SELECT x, p FROM t").await, "OrcScanExec").unwrap();
    let p = &statistics.column_statistics[1];
    assert_eq!(p.min_value, Precision::Exact(7_i64.into()));
    assert_eq!(p.max_value, Precision::Exact(12_i64.into()));
    assert_eq!(p.null_count, Precision::Exact(10));
    assert_eq!(p.distinct_count, Precision::Inexact(2));
    assert_eq!(value(&context, "SELECT min(p) + max(p) + count(p) FROM t").await, "39");
    assert_eq!(value(&context, "SELECT max(p) FROM t WHERE p < 10").await, "7");
}
