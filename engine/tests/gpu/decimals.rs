//! Arithmetic, casts and sums of decimals by kernels and by the CPU's plan.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, RecordBatch, StringArray};
use grampus_orc_layout::write::WriterProperties;

use crate::common::{open_table, outcome, ran, text};
use crate::support::{GPU_SETTINGS, Setting, gpu_runs, has_compiler, write_orc};

const ROWS: i128 = 20_000;

/// Prices, discounts and quantities as TPC-H has them, with NULLs; numbers of 18 digits; and columns of 38 digits, with
/// small numbers and with numbers of more than eight bytes.
fn write(path: &Path) {
    let decimals = |precision, scale, value: &dyn Fn(i128) -> Option<i128>| -> ArrayRef {
        let values = Decimal128Array::from_iter((0..ROWS).map(value));
        Arc::new(values.with_precision_and_scale(precision, scale).unwrap())
    };
    let columns: [(&str, ArrayRef); 8] = [
        (
            "price",
            decimals(15, 2, &|row| {
                (row % 13 != 5).then_some(90_000 + row * 7_919 % 10_400_000)
            }),
        ),
        ("discount", decimals(15, 2, &|row| Some(row % 11))),
        (
            "quantity",
            decimals(15, 2, &|row| (row % 17 != 3).then_some(row % 50 * 100 + 100)),
        ),
        (
            "large",
            decimals(18, 3, &|row| Some((row - ROWS / 2) * 99_999_999_999_999)),
        ),
        (
            "wide",
            decimals(38, 10, &|row| {
                (row % 19 != 2).then_some((row - ROWS / 3) * 1_234_567_890_123)
            }),
        ),
        ("huge", decimals(38, 2, &|row| Some((row - ROWS / 2) << 60))),
        (
            "count",
            Arc::new(Int32Array::from_iter_values(
                (0..ROWS as i32).map(|row| row % 1_000 - 500),
            )),
        ),
        (
            "flag",
            Arc::new(StringArray::from_iter_values(
                (0..ROWS as usize).map(|row| ["A", "N", "R"][row % 3]),
            )),
        ),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let options = WriterProperties {
        row_index_stride: 1_000,
        stripe_rows: 5_000,
        ..WriterProperties::default()
    };
    write_orc(path, rows.schema(), std::slice::from_ref(&rows), options);
}

/// Statements that kernels answer.
const COMPUTED: [&str; 18] = [
    "SELECT flag, sum(quantity), sum(price), sum(price * (1 - discount)), \
     sum(price * (1 - discount) * (1 + discount)), avg(quantity), avg(price), avg(discount), count(*) \
     FROM t WHERE count <= 480 GROUP BY flag ORDER BY flag",
    "SELECT sum(price * discount) FROM t WHERE discount BETWEEN 0.05 AND 0.07 AND quantity < 24",
    "SELECT sum(price * discount), min(-price), max(price - large) FROM t WHERE count > 498",
    "SELECT sum(price + large), sum(large - discount), count(price * quantity) FROM t",
    "SELECT discount, max(price * quantity), min(price * -quantity) FROM t GROUP BY discount ORDER BY discount",
    "SELECT round(sum(CAST(price AS DOUBLE)), 2), sum(CAST(quantity AS INT)), sum(CAST(count AS DECIMAL(10, 3))) \
     FROM t",
    "SELECT sum(CAST(price AS DECIMAL(12, 1))), max(CAST(large AS BIGINT)) FROM t",
    "SELECT sum(CAST(price AS DECIMAL(20, 5))) FROM t",
    "SELECT count(*) FROM t WHERE price * discount > 500000 AND large < 0.5",
    "SELECT CASE WHEN discount > 0.04 THEN price * 2 ELSE price END AS p, count(*) FROM t WHERE count = 7 \
     GROUP BY p ORDER BY p NULLS FIRST",
    "SELECT sum(large * price), sum(price * price * price), count(large * large * 10) FROM t",
    "SELECT flag, sum(wide), min(wide), max(wide - price), avg(wide) FROM t \
     WHERE wide * wide > 0.5 AND wide > -350000 GROUP BY flag ORDER BY flag",
    "SELECT wide, count(*), sum(-wide) FROM t WHERE count = 7 GROUP BY wide ORDER BY wide",
    "SELECT avg(price * discount), avg(price * (1 - discount) * (1 + discount)), sum(large * 100000000) FROM t",
    "SELECT count(TRY_CAST(price AS DECIMAL(6, 2))), sum(TRY_CAST(wide AS INT)), max(TRY_CAST(large AS SMALLINT)) \
     FROM t",
    "SELECT sum(CAST(CAST(price AS DOUBLE) / 3 AS DECIMAL(15, 2))), \
     max(CAST(CAST(CAST(price AS DOUBLE) AS REAL) AS DECIMAL(9, 1))), \
     count(TRY_CAST(CAST(price AS DOUBLE) AS DECIMAL(5, 2))) FROM t",
    "SELECT flag, bit_and(count), bit_or(count), bit_xor(count), bit_xor(count) FILTER (WHERE price > 50000) \
     FROM t GROUP BY flag ORDER BY flag",
    "SELECT flag, round(stddev(count), 6), round(var_pop(CAST(price AS DOUBLE)), 2), \
     var(count) FILTER (WHERE count > 999) FROM t GROUP BY flag ORDER BY flag",
];

#[tokio::test(flavor = "multi_thread")]
async fn decimals_match_the_cpu() {
    if !has_compiler("decimals_match_the_cpu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write(&path);
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let expected = open_table(&cpu, "t", &path).await;
    for setting in &GPU_SETTINGS {
        let context = open_table(setting, "t", &path).await;
        for sql in COMPUTED {
            let (plan, found) = ran(&context, sql).await;
            assert_eq!(found, text(&expected, sql).await, "{sql}, {setting:?}");
            if gpu_runs(&plan) != (1, 0) {
                let explained = text(&context, &format!("EXPLAIN {sql}")).await;
                panic!(
                    "{sql}, {setting:?}: computed by kernels, given back: {:?}\n{explained}",
                    gpu_runs(&plan)
                );
            }
        }
    }
    let context = open_table(&GPU_SETTINGS[0], "t", &path).await;
    let plan = text(&context, "EXPLAIN SELECT sum(price), sum(large) FROM t").await;
    assert_eq!(plan.matches("decoded by the GPU").count(), 2, "{plan}");
}

/// Results of more than eight bytes, and values with too many digits for a cast, are the CPU's: answers and errors.
#[tokio::test(flavor = "multi_thread")]
async fn decimals_that_kernels_cannot_hold_are_left_to_the_cpu() {
    if !has_compiler("decimals_that_kernels_cannot_hold_are_left_to_the_cpu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write(&path);
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let (expected, context) = (
        open_table(&cpu, "t", &path).await,
        open_table(&GPU_SETTINGS[0], "t", &path).await,
    );
    for sql in [
        "SELECT max(large * large) FROM t",
        "SELECT large * large, count(*) FROM t WHERE count > 497 GROUP BY 1 ORDER BY 1",
        "SELECT sum(large * large * large * large) FROM t",
        // 10^36 a row: the sum of 20,000 rows takes more than 38 digits, that of 80 groups does not.
        "SELECT sum(large * large) FROM t",
        "SELECT count, sum(large * large) FROM t WHERE count > 480 GROUP BY count ORDER BY count",
        "SELECT sum(CAST(price AS DECIMAL(4, 2))) FROM t",
        "SELECT sum(CAST(large AS INT)) FROM t",
    ] {
        // An error names the first value that a partition finds.
        let without_numbers = |text: String| text.replace(|c: char| c.is_ascii_digit() || c == '-', "");
        let wanted = outcome(&expected, sql).await;
        let found = outcome(&context, sql).await;
        assert_eq!(
            found.map_err(without_numbers),
            wanted.clone().map_err(without_numbers),
            "{sql}"
        );
        if wanted.is_ok() {
            let (plan, _) = ran(&context, sql).await;
            assert_eq!(gpu_runs(&plan), (0, 1), "{sql}: computed by kernels, given back");
        }
    }
    // Statistics tell it before a run.
    let sql = "SELECT sum(huge), max(huge) FROM t WHERE count > 0";
    let (plan, found) = ran(&context, sql).await;
    assert_eq!(found, text(&expected, sql).await);
    assert_eq!(gpu_runs(&plan), (0, 0));
}
