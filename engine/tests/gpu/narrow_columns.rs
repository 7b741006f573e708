//! Columns on the device take as many bytes as the files' statistics say that their values need, and answer as the CPU.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};

use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

use crate::common::{answer, metrics_of, open, options, ran, set, text, write};
use crate::compare::difference;
use crate::support::{GPU_SETTINGS, Setting, has_compiler, write_orc};

const ROWS: i64 = 2000;
/// Columns of the table, and the bytes that one of their values takes.
const COLUMNS: [(&str, usize); 10] = [
    ("small", 1),
    ("signed", 1),
    ("large", 8),
    ("day", 2),
    ("price", 2),
    ("word", 1),
    ("passengers", 1),
    ("place", 2),
    ("fare", 8),
    // Its bounds and its sum are whole numbers, which it is not: it is loaded again.
    ("half", 8),
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
    let floats = |of: fn(i64) -> f64| Arc::new(Float64Array::from_iter((0..ROWS).map(|row| value(row).map(of)))) as _;
    let places = (0..ROWS).map(|row| value(row % 300 - 20).map(|place| place as f32));
    let columns: [ArrayRef; 10] = [
        integers(|row| row % 200),
        Arc::new(Int32Array::from_iter(signed)),
        integers(|row| row << 40),
        Arc::new(Date32Array::from_iter(days)),
        Arc::new(prices.unwrap()),
        Arc::new(StringArray::from_iter(words)),
        floats(|row| (row % 7) as f64),
        Arc::new(Float32Array::from_iter(places)),
        floats(|row| row as f64 / 64.0 + 0.015_625),
        floats(|row| (row % 4) as f64 / 2.0 - if row % 4 == 3 { 0.5 } else { 0.0 }),
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
        // Floats without NULLs lie raw in their file, and have no marks.
        let is_raw = ["passengers", "place", "fare", "half"].contains(&column);
        let mark_bits = if is_raw { 0 } else { mark_bits };
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

/// Trips whose floats are whole numbers: some with NULLs, some negative, some not what they look like.
fn trips(first: i64) -> RecordBatch {
    let floats =
        |of: &dyn Fn(i64) -> Option<f64>| Arc::new(Float64Array::from_iter((first..first + 3000).map(of))) as ArrayRef;
    let places = (first..first + 3000).map(|row| Some((row * 31 % 500 - 90) as f32));
    let columns: [(&str, ArrayRef); 5] = [
        ("passengers", floats(&|row| Some((row * row % 7) as f64))),
        ("rate", floats(&|row| (row % 9 != 0).then_some((row % 6 + 1) as f64))),
        ("place", Arc::new(Float32Array::from_iter(places))),
        // Two kinds of zero.
        (
            "tolls",
            floats(&|row| Some(if row % 2999 == 7 { -0.0 } else { (row % 3) as f64 })),
        ),
        ("fare", floats(&|row| Some((row * 7919 % 6007) as f64 / 100.0 + 0.125))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

const STATEMENTS: [&str; 9] = [
    // Single values, before anything is narrow.
    "SELECT count(*), sum(passengers), max(place) FROM t WHERE fare < 0.2",
    "SELECT passengers, count(*), avg(fare), min(place) FROM t GROUP BY passengers ORDER BY passengers",
    "SELECT rate, place, count(*) FROM t GROUP BY rate, place ORDER BY rate, place",
    "SELECT tolls, count(*), sum(tolls) FROM t GROUP BY tolls ORDER BY tolls",
    "SELECT sum(passengers / 4), avg(rate), min(place), max(place), var(passengers) FROM t",
    // Single values of columns that are narrow, in kernels that go row by row, too.
    "SELECT count(*), sum(passengers), max(place), sum(rate) FROM t WHERE fare < 0.2",
    "SELECT rate, sum(fare), sum(place) FROM t WHERE passengers = 4 AND place > 400 GROUP BY rate ORDER BY rate",
    "SELECT count(*), sum(fare) FROM t WHERE rate IS NULL AND passengers BETWEEN 1.5 AND 2.5",
    "SELECT passengers + rate AS n, count(*) FROM t WHERE place < -50 OR tolls = 2 GROUP BY n ORDER BY n",
];

#[tokio::test(flavor = "multi_thread")]
async fn floats_that_are_whole_numbers_answer_as_the_cpu() {
    if !has_compiler("floats_that_are_whole_numbers_answer_as_the_cpu") {
        return;
    }
    for codec in [None, Some(Codec::Snappy)] {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t.orc");
        std::fs::create_dir(&table).unwrap();
        for first in [0, 3000] {
            let rows = trips(first);
            let options = WriterProperties { codec, ..options() };
            write_orc(&table.join(format!("{first}.orc")), rows.schema(), &[rows], options);
        }
        let cpu = Setting {
            gpu: None,
            ..GPU_SETTINGS[0]
        };
        let expected = open(folder.path(), &cpu).await;
        // Columns that stay on the device; that stream through windows; that come by page.
        for (backing, bytes) in [("auto", "0"), ("resident", "131072"), ("paged", "0"), ("mapped", "0")] {
            let context = open(folder.path(), &GPU_SETTINGS[0]).await;
            set(&context, "grampus.gpu_backing", backing).await;
            set(&context, "grampus.gpu_cache_bytes", bytes).await;
            for sql in STATEMENTS.iter().chain(&STATEMENTS) {
                let (wanted, _) = answer(&expected, sql).await;
                let (found, (on_gpu, fallbacks)) = answer(&context, sql).await;
                let place = format!("{sql}, {backing}, {bytes} bytes, {codec:?}");
                assert_eq!(difference(&wanted, &found), None, "{place}");
                assert!(on_gpu > 0 && fallbacks == 0, "{place}");
            }
            if backing == "auto" {
                // Passengers, fares and places, although single passengers were fetched before.
                let (plan, _) = ran(&context, STATEMENTS[1]).await;
                let metrics = metrics_of(&plan);
                let resident = metrics.iter().find(|(name, _)| name == "resident_bytes");
                assert_eq!(resident.map(|(_, bytes)| *bytes), Some(6000 * (1 + 8 + 2)), "{codec:?}");
            }
        }
    }
}
