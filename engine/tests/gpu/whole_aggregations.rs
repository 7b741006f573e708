//! Aggregations whose groups each occur once in the GPU's output: the operator gives their values, and no final
//! aggregation follows. Each answer must be the CPU's.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray};

use crate::common::{answer, open, text, write};
use crate::compare::difference;
use crate::support::{GPU_SETTINGS, Setting, has_compiler};

/// More groups than one task makes batches of, and some NULLs.
const ROWS: i64 = 200_000;

fn many_groups() -> RecordBatch {
    let integers = |value: fn(i64) -> Option<i64>| Arc::new(Int64Array::from_iter((0..ROWS).map(value))) as ArrayRef;
    let decimals = (0..ROWS).map(|row| (row % 9 != 0).then_some(i128::from(row) * 17 - 5000));
    let decimals = Decimal128Array::from_iter(decimals)
        .with_precision_and_scale(15, 2)
        .unwrap();
    let words = (0..ROWS).map(|row| ["a", "b", "", "é"].get(row as usize % 5).copied());
    let floats = (0..ROWS).map(|row| match row % 4 {
        0 => Some(0.0),
        1 => Some(-0.0),
        2 => Some(row as f64 / 8.0),
        _ => None,
    });
    let others = (0..ROWS).map(|row| match row % 5 {
        0 => f64::from_bits(f64::NAN.to_bits() + row as u64 % 3),
        1 => -f64::NAN,
        2 => -0.0,
        _ => 0.0,
    });
    let columns: [(&str, ArrayRef); 6] = [
        ("k", integers(|row| (row % 10 != 0).then_some(row * 7919 % 150_000))),
        ("few", integers(|row| Some(row % 7))),
        ("d", Arc::new(decimals)),
        ("word", Arc::new(StringArray::from_iter(words))),
        ("f", Arc::new(Float64Array::from_iter(floats))),
        ("g", Arc::new(Float64Array::from_iter_values(others))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Statements, and whether the operator computes the whole aggregation.
const STATEMENTS: [(&str, bool); 15] = [
    // All groups, in an order.
    (
        "SELECT k, few, count(*), count(f), sum(f), avg(f), min(d), max(d), sum(d), avg(d) FROM t GROUP BY k, few \
         ORDER BY k, few",
        true,
    ),
    // Under an aggregation, a filter, a limit, and nothing.
    (
        "SELECT count(*), sum(n), sum(s), min(k) FROM (SELECT k, count(*) AS n, sum(d) AS s FROM t GROUP BY k)",
        true,
    ),
    (
        "SELECT k, sum(d) FROM t GROUP BY k HAVING sum(d) > 3390000 ORDER BY 2, 1",
        true,
    ),
    ("SELECT k, count(*) FROM t GROUP BY k ORDER BY 2 DESC, 1 LIMIT 5", true),
    (
        "SELECT word, few, count(*), var(f), stddev_pop(f), bit_xor(few) FROM t WHERE few > 1 GROUP BY word, few \
         ORDER BY word, few",
        true,
    ),
    // Operators that take rows by hash of the keys.
    (
        "SELECT count(*), sum(a.n * b.s) FROM (SELECT k, count(*) AS n FROM t GROUP BY k) a \
         JOIN (SELECT k, sum(few) AS s FROM t WHERE few > 2 GROUP BY k) b ON a.k = b.k",
        true,
    ),
    (
        "SELECT max(r) FROM (SELECT k, row_number() OVER (PARTITION BY k ORDER BY few) AS r FROM \
         (SELECT k, few, count(*) FROM t GROUP BY k, few))",
        true,
    ),
    // No row passes.
    ("SELECT k, sum(d) FROM t WHERE few * 2 = 5 GROUP BY k", true),
    // Floats as keys: 0.0 and -0.0 are one group, NaNs with different bits are several.
    ("SELECT f, count(*), sum(few) FROM t GROUP BY f ORDER BY f", true),
    ("SELECT f, few, count(*) FROM t GROUP BY f, few ORDER BY f, few", true),
    (
        "SELECT CAST(f AS REAL) AS r, count(*) FROM t GROUP BY r ORDER BY r",
        true,
    ),
    (
        "SELECT g, count(*), sum(few) FROM t GROUP BY g ORDER BY g, count(*)",
        true,
    ),
    // No keys, finer groups.
    ("SELECT count(*), sum(d), avg(f) FROM t", false),
    (
        "SELECT few, count(DISTINCT word), max(word) FROM t GROUP BY few ORDER BY few",
        false,
    ),
    (
        "SELECT few, word, count(*) FROM t GROUP BY ROLLUP (few, word) ORDER BY 1, 2, 3",
        false,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn values_of_groups_that_occur_once_are_the_cpus() {
    if !has_compiler("values_of_groups_that_occur_once_are_the_cpus") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.orc"), &many_groups());
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let expected = open(folder.path(), &cpu).await;
    let one_partition = Setting {
        partitions: 1,
        batch_rows: 1000,
        ..GPU_SETTINGS[0]
    };
    for setting in [&GPU_SETTINGS[0], &one_partition] {
        let context = open(folder.path(), setting).await;
        for (sql, is_whole) in STATEMENTS {
            let explained = text(&context, &format!("EXPLAIN {sql}")).await;
            let is_shown = explained.contains("GpuAggregateExec: mode=Single");
            assert_eq!(is_shown, is_whole, "{sql}, {setting:?}\n{explained}");
            let (wanted, _) = answer(&expected, sql).await;
            let (found, (on_gpu, fallbacks)) = answer(&context, sql).await;
            assert_eq!(difference(&wanted, &found), None, "{sql}, {setting:?}");
            assert!(on_gpu > 0 && fallbacks == 0, "{sql}, {setting:?}");
        }
    }
}

/// The plan above the operator needs no more partitions than the groups do.
#[tokio::test(flavor = "multi_thread")]
async fn final_aggregations_are_left_out() {
    if !has_compiler("final_aggregations_are_left_out") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.orc"), &many_groups());
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    let inner = "SELECT k, count(*) AS n, few FROM t GROUP BY k, few";
    for (sql, operators) in [
        (
            "SELECT word, count(*) FROM t GROUP BY word".to_owned(),
            &["ProjectionExec", "GpuAggregateExec: mode=Single"][..],
        ),
        (
            format!("SELECT k, n FROM ({inner}) WHERE n > 1"),
            &[
                "FilterExec",
                "RepartitionExec: partitioning=RoundRobinBatch(4)",
                "GpuAggregateExec: mode=Single",
            ],
        ),
        (
            "SELECT word, avg(n) FROM (SELECT word, k, count(*) AS n FROM t GROUP BY word, k) GROUP BY word".to_owned(),
            &[
                "mode=Partial",
                "RepartitionExec: partitioning=RoundRobinBatch(4)",
                "GpuAggregateExec: mode=Single",
            ],
        ),
        (
            format!("SELECT k, few, sum(n) OVER (PARTITION BY k, few) FROM ({inner})"),
            &[
                "RepartitionExec: partitioning=Hash([k@0, few@1], 4)",
                "GpuAggregateExec: mode=Single",
            ],
        ),
    ] {
        let plan = text(&context, &format!("EXPLAIN {sql}")).await;
        let mut rest = plan.as_str();
        for operator in operators {
            let at = rest.find(operator);
            rest = &rest[at.unwrap_or_else(|| panic!("{operator} in\n{plan}"))..];
        }
        // That of the average is DataFusion's.
        let finals = plan.matches(" AggregateExec: mode=Final").count();
        assert_eq!(finals, usize::from(sql.contains("avg(n)")), "{plan}");
    }
}
