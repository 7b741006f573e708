//! Columns on the device take as many bytes as the files' statistics say that their values need, and answer as the CPU.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringArray};

use crate::common::{metrics_of, open, ran, text, write};
use crate::support::{GPU_SETTINGS, Setting, has_compiler};

const ROWS: i64 = 2000;
/// Columns of the table, and the bytes that one of their values takes.
const COLUMNS: [(&str, usize); 6] = [
    ("small", 1),
    ("signed", 1),
    ("large", 8),
    ("day", 2),
    ("price", 2),
    ("word", 1),
];

/// Rows of a file; all NULL if nothing is `there`.
fn rows(there: bool) -> RecordBatch {
    let value = |value: i64| there.then_some(value);
    let integers =
        |of: fn(i64) -> i64| Arc::new(Int64Array::from_iter((0..ROWS).map(|row| value(of(row))))) as ArrayRef;
    let signed = (0..ROWS).map(|row| value(row % 11 - 5).map(|v| v as i32));
    let days = (0..ROWS).map(|row| value(18_000 + row).map(|v| v as i32));
    let prices = (0..ROWS).map(|row| value(row * 30).map(i128::from));
    let prices = Decimal128Array::from_iter(prices).with_precision_and_scale(15, 2);
    let words = (0..ROWS).map(|row| value(row).map(|row| ["a", "b", "é"][row as usize % 3]));
    let columns: [ArrayRef; 6] = [
        integers(|row| row % 200),
        Arc::new(Int32Array::from_iter(signed)),
        integers(|row| row << 40),
        Arc::new(Date32Array::from_iter(days)),
        Arc::new(prices.unwrap()),
        Arc::new(StringArray::from_iter(words)),
    ];
    let named = COLUMNS.iter().map(|(name, _)| *name).zip(columns);
    RecordBatch::try_from_iter_with_nullable(named.map(|(name, array)| (name, array, true))).unwrap()
}

/// Compares answers, and the bytes of each row that are resident once the column was loaded.
async fn check(folder: &Path, mark_bits: usize) {
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let expected = open(folder, &cpu).await;
    for (column, bytes) in COLUMNS {
        let context = open(folder, &GPU_SETTINGS[0]).await;
        let sql = format!("SELECT {column} AS c, count(*) FROM t GROUP BY {column} ORDER BY c");
        let wanted = text(&expected, &sql).await;
        assert_eq!(text(&context, &sql).await, wanted, "{column}");
        let (plan, again) = ran(&context, &sql).await;
        assert_eq!(again, wanted, "{column}");
        let metrics = metrics_of(&plan);
        let resident = metrics.iter().find(|(name, _)| name == "resident_bytes");
        let resident = resident.map(|(_, bytes)| *bytes);
        assert_eq!(resident, Some(ROWS as usize * (8 * bytes + mark_bits) / 8), "{column}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_take_as_many_bytes_as_statistics_say() {
    if !has_compiler("columns_take_as_many_bytes_as_statistics_say") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t.orc");
    std::fs::create_dir(&table).unwrap();
    write(&table.join("a.orc"), &rows(true));
    check(folder.path(), 0).await;
    // A file without values has no bounds, and changes none; its NULLs need marks in the other file.
    write(&table.join("b.orc"), &rows(false));
    check(folder.path(), 1).await;
}
