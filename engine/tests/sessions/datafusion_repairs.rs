//! Faults of DataFusion that Grampus repairs, in the session of an embedding program.
//!
//! Each statement has the right answer in a session with Grampus, and another one in DataFusion alone. If DataFusion
//! alone becomes right, the test fails: then the repair can go.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionContext;
use grampus::Grampus;

/// A statement, and its right answer: columns separated by commas, rows by semicolons.
type Case = (&'static str, &'static str);

/// The value of a statement that fails.
const ERROR: &str = "error";

/// Zeros, of both signs, in the order of `i`; `g` has the other zero.
fn zeros() -> RecordBatch {
    let f = vec![0.0, -0.0, 5.0, -0.0, 0.0];
    let g: Vec<f64> = f.iter().map(|x: &f64| if *x == 0.0 { -x } else { *x }).collect();
    let singles: Vec<f32> = f.iter().map(|x| *x as f32).collect();
    let columns: [(&str, ArrayRef); 5] = [
        ("i", Arc::new(Int64Array::from(vec![0, 1, 2, 3, 4]))),
        ("f", Arc::new(Float64Array::from(f))),
        ("g", Arc::new(Float64Array::from(g))),
        ("s", Arc::new(Float32Array::from(singles))),
        ("yes", Arc::new(BooleanArray::from(vec![true; 5]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

async fn answer(context: &SessionContext, sql: &str) -> String {
    let rows = async {
        let batches = context.sql(sql).await?.collect().await?;
        let mut rows = Vec::new();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                let cells = batch.columns().iter().map(|column| array_value_to_string(column, row));
                rows.push(cells.collect::<Result<Vec<_>, _>>()?.join(","));
            }
        }
        Ok::<_, DataFusionError>(rows.join(";"))
    };
    rows.await.unwrap_or_else(|_| ERROR.to_owned())
}

async fn check(repair: &str, cases: &[Case]) {
    let (stock, grampus) = (
        SessionContext::new(),
        super::owned(&Grampus::builder().build().unwrap()),
    );
    for context in [&stock, &grampus] {
        super::support::register_rows(context, "t", &zeros());
    }
    let mut words = Vec::new();
    for (sql, right) in cases {
        let (alone, repaired) = (answer(&stock, sql).await, answer(&grampus, sql).await);
        if repaired != *right {
            words.push(format!("{sql}: {repaired} instead of {right}"));
        }
        if alone == *right {
            words.push(format!(
                "{sql}: DataFusion alone is right, so {repair} is not needed for it"
            ));
        }
    }
    assert!(words.is_empty(), "{}", words.join("\n"));
}

#[tokio::test]
async fn float_zeros_are_one_value_and_datafusion_still_needs_it() {
    let cases = [
        ("SELECT count(*) FROM t WHERE f IN (0.0, 1.0, 2.0, 3.0)", "4"),
        ("SELECT count(*) FROM t WHERE f NOT IN (-0.0, 1.0, 2.0, 3.0)", "1"),
        (
            "SELECT count(*) FROM t WHERE f = 0 OR f = 1 OR f = 2 OR f = 3 OR f = 4",
            "4",
        ),
        (
            "SELECT count(*) FROM t WHERE f IN (0, 1, 2, 3) AND f IN (-0.0, 7.0, 8.0, 9.0)",
            "4",
        ),
        ("SELECT count(*) FROM t WHERE s IN (0, 1, 2, 3)", "4"),
        ("SELECT count(*) FROM t WHERE f IN (i * 0.0, g, 7.0, 8.0)", "5"),
        ("SELECT count(*) FROM t WHERE -abs(f) IN (0.0, 7.0, 8.0, 9.0)", "4"),
        ("SELECT -0.0 IN (0.0, 1.0, 2.0, 3.0)", "true"),
        ("SELECT CAST('-0' AS DOUBLE) IN (0.0, 1.0, 2.0, 3.0)", "true"),
        (
            "SELECT sum(CASE f WHEN 0.0 THEN 1 WHEN 7.0 THEN 2 ELSE 0 END) FROM t",
            "4",
        ),
        (
            "SELECT sum(CASE s WHEN -0.0 THEN 1 WHEN 7.0 THEN 2 ELSE 0 END) FROM t",
            "4",
        ),
        (
            "SELECT count(nullif(f, 0)), count(nullif(s, -0.0)), count(nullif(f, g)) FROM t",
            "1,1,0",
        ),
        ("SELECT count(nullif(CAST('-0' AS DOUBLE), 0.0))", "0"),
        (
            "SELECT count(DISTINCT f), count(DISTINCT s), count(DISTINCT i) FROM t",
            "2,2,5",
        ),
        ("SELECT i FROM t ORDER BY f, i", "0;1;3;4;2"),
        ("SELECT i FROM t ORDER BY f DESC, i LIMIT 3", "2;0;1"),
        ("SELECT sum(r) FROM (SELECT rank() OVER (ORDER BY f) AS r FROM t)", "9"),
        (
            "SELECT max(n) FROM (SELECT count(*) OVER (PARTITION BY f) AS n FROM t)",
            "4",
        ),
        ("SELECT array_agg(i ORDER BY f, i) FROM t", "[0, 1, 3, 4, 2]"),
        (
            "SELECT max(CASE i WHEN 0 THEN CAST('NaN' AS DOUBLE) ELSE f END) FROM t GROUP BY yes",
            "NaN",
        ),
        ("SELECT max(-1 / abs(f)) FROM t WHERE i < 2 GROUP BY yes", "-inf"),
    ];
    check("FloatZeros", &cases).await;
}

#[tokio::test]
async fn volatile_operands_are_drawn_once_and_datafusion_still_draws_twice() {
    // 100,000 draws: ten standard deviations are 1,600.
    let cases = [
        (
            "SELECT count(*) BETWEEN 48000 AND 52000 FROM generate_series(1, 100000) \
             WHERE random() BETWEEN 0.25 AND 0.75",
            "true",
        ),
        (
            "SELECT count(*) BETWEEN 48000 AND 52000 FROM generate_series(1, 100000) \
             WHERE random() NOT BETWEEN 0.25 AND 0.75",
            "true",
        ),
        (
            "SELECT count(c) FROM (SELECT coalesce(nullif(CAST(random() * 2 AS INT), 1), 7) AS c \
             FROM generate_series(1, 1000))",
            "1000",
        ),
        (
            "SELECT count(c) FROM (SELECT nvl(nullif(CAST(random() * 2 AS INT), 1), 7) AS c \
             FROM generate_series(1, 1000))",
            "1000",
        ),
        (
            "SELECT count(*) BETWEEN 9000 AND 11000 FROM generate_series(1, 100000) WHERE floor(random() * 10) = 3",
            "true",
        ),
        (
            "SELECT count(*) FROM generate_series(1, 1000) \
             WHERE concat('a', CAST(CAST(random() * 2 AS INT) AS VARCHAR)) ~ 'a0|a1'",
            "1000",
        ),
        (
            "SELECT count(*) FROM generate_series(1, 1000) \
             WHERE CASE WHEN random() < 0.5 THEN value > 0 ELSE value > 0 END",
            "1000",
        ),
    ];
    check("DrawnOnce", &cases).await;
}

#[tokio::test]
async fn functions_of_odd_numbers_are_repaired_and_datafusion_still_needs_it() {
    let cases = [
        ("SELECT round(123.456, 400)", "123.456"),
        ("SELECT round(123.456, 308)", "123.456"),
        ("SELECT round(CAST(123.5 AS FLOAT), 60)", "123.5"),
        ("SELECT trunc(5.5, 310)", "5.5"),
        ("SELECT trunc(5.5, 308)", "5.5"),
        ("SELECT round(5.5, -400), trunc(5.5, -400)", "0.0,0.0"),
        ("SELECT round(f + 0.25, 400) FROM t WHERE i = 2", "5.25"),
        ("SELECT trunc(s + CAST(0.25 AS FLOAT), 50) FROM t WHERE i = 2", "5.25"),
        ("SELECT to_timestamp(CAST('nan' AS DOUBLE))", ERROR),
        ("SELECT to_timestamp(f / 0.0) FROM t WHERE i = 2", ERROR),
        ("SELECT to_timestamp(1e300)", ERROR),
    ];
    check("RepairedFunctions", &cases).await;
}

#[tokio::test]
async fn shifts_ignore_nulls_and_datafusion_still_miscounts() {
    const ROWS: &str = "(VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, NULL), (6, NULL), (7, 70), (8, 80), (9, NULL)) \
                        AS v(id, x)";
    let lead = format!("SELECT lead(x, 2) IGNORE NULLS OVER (ORDER BY id) FROM {ROWS} ORDER BY id");
    let cases: [Case; 1] = [(&*lead.leak(), "30;40;70;80;80;80;;;")];
    check("RepairedFunctions", &cases).await;
}
