//! Aggregations whose program groups by more keys than they do: GROUPING SETS, `count(DISTINCT …)`, MIN and MAX of
//! strings. Each answer must be the CPU's, and kernels must give it.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray};

use crate::common::{open, ran, set, text, write};
use crate::support::{GPU_SETTINGS, Setting, gpu_runs, has_compiler};

/// 4,000 rows with NULLs in every column.
fn write_rows(folder: &Path) {
    let present = |row: i32, step: i32| row % step != 0;
    let word = |row: i32, words: &[&'static str], step| present(row, step).then(|| words[row as usize % words.len()]);
    let words = |words: &'static [&'static str], step| {
        Arc::new(StringArray::from_iter((0..4000).map(|row| word(row, words, step)))) as ArrayRef
    };
    let integer = |modulus, step| {
        let values = (0..4000).map(|row| present(row, step).then_some(row * 31 % modulus));
        Arc::new(Int32Array::from_iter(values)) as ArrayRef
    };
    let columns: [(&str, ArrayRef); 6] = [
        ("color", words(&["green", "yellow", "", "blue"], 11)),
        ("size", words(&["S", "M", "L", "XL", "XXL", "é"], 13)),
        ("k", integer(5, 17)),
        ("n", integer(300, 19)),
        (
            "flag",
            Arc::new(BooleanArray::from_iter(
                (0..4000).map(|row| present(row, 23).then_some(row % 3 == 0)),
            )),
        ),
        (
            "x",
            Arc::new(Float64Array::from_iter(
                (0..4000).map(|row| present(row, 29).then_some(f64::from(row) / 4.0)),
            )),
        ),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    write(&folder.join("t.orc"), &rows);
}

const STATEMENTS: [&str; 23] = [
    // GROUPING SETS.
    "SELECT color, size, count(*), sum(n), min(x), max(x) FROM t GROUP BY CUBE (color, size) ORDER BY 1, 2, 3",
    "SELECT color, k, flag, count(x), avg(n), grouping(color), grouping(k) FROM t \
     GROUP BY ROLLUP (color, k, flag) ORDER BY 6, 7, 1, 2, 3, 4",
    "SELECT color, k, count(*) FROM t WHERE x > 500 GROUP BY GROUPING SETS ((color), (k), ()) ORDER BY 1, 2, 3",
    "SELECT color, k, count(*) FROM t GROUP BY GROUPING SETS ((color, k), (k), (k)) ORDER BY 1, 2, 3",
    "SELECT k + 1 AS next, size, sum(x) FROM t GROUP BY ROLLUP (k + 1, size) ORDER BY 1, 2, 3",
    // The set without keys has a row, the others have none.
    "SELECT color, k, count(*), sum(n), min(size), count(DISTINCT k), count(DISTINCT n) FROM t \
     WHERE x > 500.05 AND x < 500.1 GROUP BY GROUPING SETS ((color, k), ()) ORDER BY 1, 2",
    // Several distinct counts, and beside other functions.
    "SELECT count(DISTINCT color), count(DISTINCT size), count(*), sum(x) FROM t",
    "SELECT k, count(DISTINCT color), count(DISTINCT n), avg(x), count(*) FROM t GROUP BY k ORDER BY k",
    "SELECT color, count(DISTINCT color), count(DISTINCT flag), max(n) FROM t WHERE x < 700 GROUP BY color ORDER BY 1",
    "SELECT count(DISTINCT upper(color)), count(DISTINCT flag), count(DISTINCT k) FROM t WHERE n > 7",
    "SELECT count(DISTINCT n), count(n), avg(x) FROM t",
    "SELECT size, count(DISTINCT k), count(DISTINCT color) FROM t GROUP BY CUBE (size) ORDER BY 1, 2, 3",
    "SELECT flag, sum(DISTINCT n), avg(DISTINCT n), count(DISTINCT n), count(*) FROM t GROUP BY flag ORDER BY flag",
    "SELECT avg(DISTINCT k), count(n), bool_and(flag), bool_or(flag) FROM t WHERE x < 700",
    "SELECT color, bool_and(x < 990), bool_or(n = 7), bool_and(flag) FILTER (WHERE k = 1) FROM t \
     GROUP BY color ORDER BY 1",
    // MIN and MAX of strings.
    "SELECT min(color), max(color), min(size), count(*) FROM t WHERE x > 3",
    "SELECT k, min(size), max(size), sum(n) FROM t WHERE n > 7 GROUP BY k ORDER BY k",
    "SELECT color, min(color), max(size), min(n) FROM t WHERE flag GROUP BY color ORDER BY color",
    "SELECT max(upper(color)), min(substr(size, 1, 1)) FROM t WHERE x > 3",
    "SELECT flag, max(color) FROM t WHERE x > 3 GROUP BY ROLLUP (flag) ORDER BY 1, 2",
    "SELECT max(size), count(DISTINCT size), count(DISTINCT color) FROM t WHERE size LIKE 'X%'",
    // No row passes.
    "SELECT max(color), min(size), count(DISTINCT k), count(DISTINCT color) FROM t \
     WHERE x > 500.05 AND x < 500.1",
    "SELECT k, max(color) FROM t WHERE x > 500.05 AND x < 500.1 GROUP BY k",
];

#[tokio::test(flavor = "multi_thread")]
async fn finer_groups_merge_to_the_cpus_answers() {
    if !has_compiler("finer_groups_merge_to_the_cpus_answers") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_rows(folder.path());
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let expected = open(folder.path(), &cpu).await;
    for setting in &GPU_SETTINGS {
        let context = open(folder.path(), setting).await;
        for sql in STATEMENTS {
            let (plan, found) = ran(&context, sql).await;
            assert_eq!(found, text(&expected, sql).await, "{sql}, {setting:?}");
            assert_eq!(gpu_runs(&plan), (1, 0), "{sql}, {setting:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_need_too_many_groups_or_an_order_stay_on_the_cpu() {
    let folder = tempfile::tempdir().unwrap();
    write_rows(folder.path());
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    set(&context, "grampus.device", "prefer").await;
    for (sql, reason) in [
        (
            "SELECT count(DISTINCT n), count(DISTINCT k) FROM t",
            "count(DISTINCT t.k) is not computed on the GPU",
        ),
        (
            "SELECT count(DISTINCT x), count(*) FROM t",
            "count(DISTINCT t.x) is not computed on the GPU",
        ),
        (
            "SELECT sum(DISTINCT n), count(DISTINCT k) FROM t",
            "count(DISTINCT t.k) is not computed on the GPU",
        ),
        (
            "SELECT max(color) FILTER (WHERE k = 1) FROM t WHERE x > 3",
            "orders strings",
        ),
        (
            "SELECT count(DISTINCT color) FILTER (WHERE k = 1), count(*) FROM t",
            "is not computed on the GPU",
        ),
    ] {
        let plan = text(&context, &format!("EXPLAIN {sql}")).await;
        assert!(plan.contains(reason), "{sql}: {plan}");
    }
}
