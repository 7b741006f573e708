//! Expressions over one column of strings on the GPU: evaluated once for each distinct string, against the CPU's plan.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use grampus_orc_layout::write::WriterProperties;

use crate::common::{answer, open_table};
use crate::compare::difference;
use crate::support::{GPU_SETTINGS, Setting, has_compiler, write_orc};

const ROWS: usize = 30_000;
const STRIPE_ROWS: usize = 10_000;

/// Conditions and keys, and whether a device can say them of each string.
const QUERIES: [(&str, bool); 19] = [
    ("SELECT count(*), sum(x) FROM t WHERE s LIKE 'word 1%'", true),
    ("SELECT count(*), sum(x) FROM t WHERE s NOT LIKE '%7' AND i > 5", true),
    (
        "SELECT count(*), sum(x) FROM t WHERE s ILIKE 'WORD _' OR s = 'word 11'",
        true,
    ),
    ("SELECT count(*) FROM t WHERE s < 'word 3' AND s >= 'word 1'", true),
    (
        "SELECT count(*) FROM t WHERE s BETWEEN 'word 2' AND 'word 5' AND x > 10",
        true,
    ),
    (
        "SELECT count(*) FROM t WHERE upper(s) = 'WORD 4' AND length(s) > 3",
        true,
    ),
    ("SELECT count(*) FROM t WHERE s ~ '^word [0-3]$'", true),
    (
        "SELECT count(*) FROM t WHERE starts_with(s, 'word') AND NOT ends_with(s, '2')",
        true,
    ),
    ("SELECT upper(s) AS u, count(*), sum(x) FROM t GROUP BY upper(s)", true),
    (
        "SELECT substr(s, 6, 1) AS c, i % 3, min(x), max(x) FROM t GROUP BY substr(s, 6, 1), i % 3",
        true,
    ),
    (
        "SELECT s LIKE '%1%' AS has_one, count(*) FROM t GROUP BY s LIKE '%1%'",
        true,
    ),
    (
        "SELECT CASE WHEN s LIKE '%1%' THEN 'one' ELSE s END AS k, sum(x) FROM t GROUP BY 1",
        true,
    ),
    (
        "SELECT sum(CASE WHEN lower(s) LIKE 'word 1%' THEN x ELSE 0.0 END), count(*) FROM t",
        true,
    ),
    (
        "SELECT s || '!' AS k, upper(s) AS u, count(*) FROM t WHERE s LIKE 'w%' GROUP BY 1, 2",
        true,
    ),
    (
        "SELECT length(s) AS n, count(*), sum(x) FROM t GROUP BY length(s)",
        true,
    ),
    (
        "SELECT sum(length(s)), min(length(s)), max(strpos(s, '1')) FROM t WHERE length(s) + i > 9",
        true,
    ),
    (
        "SELECT count(*) FROM t WHERE CAST('2020-01-1' || substr(s, 6, 1) AS DATE) > DATE '2020-01-13'",
        true,
    ),
    // NULL for some strings; a text for NULL.
    (
        "SELECT nullif(s, 'word 3') AS k, count(*), sum(x) FROM t GROUP BY 1",
        true,
    ),
    ("SELECT concat(s, '!') AS k, count(*) FROM t GROUP BY 1", false),
];

fn write(path: &Path) {
    // The last stripe's strings are stored without a dictionary.
    let text = |row: usize| match row {
        _ if row.is_multiple_of(13) => None,
        _ if row < ROWS - STRIPE_ROWS => Some(format!("word {}", row * row % 23)),
        _ => Some(format!("word {} of {row}", row % 10)),
    };
    let columns: [(&str, ArrayRef); 3] = [
        ("s", Arc::new(StringArray::from_iter((0..ROWS).map(text)))),
        (
            "i",
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row as i64 % 50))),
        ),
        (
            "x",
            Arc::new(Float64Array::from_iter_values(
                (0..ROWS).map(|row| (row % 777) as f64 / 8.0),
            )),
        ),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let options = WriterProperties {
        row_index_stride: 1_000,
        stripe_rows: STRIPE_ROWS,
        ..WriterProperties::default()
    };
    write_orc(path, rows.schema(), std::slice::from_ref(&rows), options);
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_of_strings_are_computed_on_the_device() {
    if !has_compiler("functions_of_strings_are_computed_on_the_device") {
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
    for setting in [&GPU_SETTINGS[0], &GPU_SETTINGS[2]] {
        let context = open_table(setting, "t", &path).await;
        for (sql, is_computed) in QUERIES {
            let columns = expected.sql(sql).await.unwrap().schema().fields().len();
            let order: Vec<String> = (1..=columns).map(|column| column.to_string()).collect();
            let sql = format!("SELECT * FROM ({sql}) ORDER BY {}", order.join(", "));
            let (wanted, _) = answer(&expected, &sql).await;
            for run in 0..2 {
                let (found, runs) = answer(&context, &sql).await;
                if let Some(words) = difference(&wanted, &found) {
                    panic!("{sql}, {setting:?}, run {run}: {words}");
                }
                assert_eq!(runs, (usize::from(is_computed), 0), "{sql}, {setting:?}, run {run}");
            }
        }
    }
}
