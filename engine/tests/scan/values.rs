//! Values as other writers store them: timestamps of any year, CHAR, strings that are not UTF-8, unreadable columns,
//! doubles of Trino.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray, TimestampNanosecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use grampus_orc_layout::proto::StringStatistics;
use grampus_orc_layout::proto::r#type::Kind;
use grampus_orc_layout::write::WriterProperties;

use crate::common::{context, context_with, failure, measured, register, run, text, value, write_orc};
use crate::edited_file::{FileMetadata, edited};

/// 0001-01-01 and 9999-12-31, in microseconds since 1970.
const FIRST_DAY: i64 = -62_135_596_800_000_000;
const LAST_DAY: i64 = 253_402_214_400_000_000;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn small_groups() -> WriterProperties {
    WriterProperties {
        row_index_stride: 100,
        stripe_rows: 400,
        ..WriterProperties::default()
    }
}

/// A file in `folder` of these columns in one stripe, with edited metadata.
fn write_edited(
    folder: &Path,
    name: &str,
    columns: Vec<(&str, ArrayRef)>,
    edit: impl FnOnce(&mut FileMetadata),
) -> PathBuf {
    let path = folder.join(name);
    write_orc(&path, &[batch(columns)], WriterProperties::default());
    let file = edited(&std::fs::read(&path).unwrap(), edit);
    std::fs::write(&path, file).unwrap();
    path
}

async fn type_of(context: &SessionContext, column: &str) -> String {
    value(context, &format!("SELECT arrow_typeof({column}) FROM t LIMIT 1")).await
}

#[tokio::test]
async fn timestamps_of_any_year_are_queried() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    let times = TimestampMicrosecondArray::from(vec![Some(FIRST_DAY), Some(0), None, Some(LAST_DAY)]);
    let offsets = OffsetBuffer::from_lengths([2, 0, 1, 1]);
    let item = Arc::new(Field::new(
        "item",
        DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None),
        true,
    ));
    let list: ArrayRef = Arc::new(ListArray::new(item, offsets, Arc::new(times.clone()), None));
    let structs: ArrayRef = Arc::new(StructArray::try_from(vec![("x", Arc::new(times.clone()) as ArrayRef)]).unwrap());
    let columns = vec![("t", Arc::new(times) as ArrayRef), ("l", list), ("s", structs)];
    write_orc(&path, &[batch(columns)], WriterProperties::default());
    let context = context(2);
    register(&context, "t", &path).await;
    assert_eq!(type_of(&context, "t").await, "Timestamp(µs)");
    for (sql, expected) in [
        ("SELECT min(t)::text FROM t", "0001-01-01T00:00:00"),
        ("SELECT max(t)::text FROM t", "9999-12-31T00:00:00"),
        ("SELECT max(l[1])::text FROM t", "9999-12-31T00:00:00"),
        ("SELECT max(s['x'])::text FROM t", "9999-12-31T00:00:00"),
        ("SELECT count(*) FROM t WHERE t = '9999-12-31'", "1"),
        ("SELECT count(*) FROM t WHERE t < '0001-01-02'", "1"),
        ("SELECT count(*) FROM t WHERE t <= TIMESTAMP '1970-01-01 00:00:00'", "2"),
        ("SELECT count(*) FROM t WHERE t > now()", "1"),
        ("SELECT count(*) FROM t WHERE t > now() - INTERVAL '1 day'", "1"),
        ("SELECT count(*) FROM t WHERE t = TIMESTAMP '9999-12-31'", "1"),
        ("SELECT count(*) FROM t WHERE t >= DATE '9999-12-31'", "1"),
        ("SELECT count(*) FROM t WHERE t IN ('9999-12-31', '1970-01-01')", "2"),
        ("SELECT sum((t < '5000-01-01')::int) FROM t", "2"),
        ("SELECT count(*) FROM t AS a JOIN t AS b ON a.t = b.t", "3"),
        (
            "SELECT count(*) FROM t WHERE t BETWEEN '1969-01-01' AND '1971-01-01'",
            "1",
        ),
        ("SELECT count(*) FROM t WHERE date_part('year', t) = 9999", "1"),
    ] {
        assert_eq!(value(&context, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn timestamp_unit_is_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let near: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_001, 2_000]));
    let far: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![LAST_DAY]));
    write_orc(
        &folder.path().join("t/a.orc"),
        &[batch(vec![("t", near.clone())])],
        WriterProperties::default(),
    );
    let open = async |settings: &[(&str, &str)]| {
        let context = context_with(2, settings).await;
        register(&context, "t", &folder.path().join("t")).await;
        context
    };
    let context = open(&[]).await;
    assert_eq!(type_of(&context, "t").await, "Timestamp(ns)");
    assert_eq!(
        value(&context, "SELECT count(*) FROM t WHERE t < '9999-12-31'").await,
        "2"
    );
    assert_eq!(
        value(&context, "SELECT count(*) FROM t WHERE t = TIMESTAMP '0001-01-01'").await,
        "0"
    );
    assert_eq!(
        value(
            &context,
            "SELECT count(*) FROM t WHERE t = '1970-01-01T00:00:00.000001001'"
        )
        .await,
        "1"
    );
    let context = open(&[("grampus.timestamp_unit", "us")]).await;
    assert_eq!(type_of(&context, "t").await, "Timestamp(µs)");
    assert_eq!(
        value(&context, "SELECT min(t)::text FROM t").await,
        "1970-01-01T00:00:00.000001"
    );

    // A second file needs microseconds.
    write_orc(
        &folder.path().join("t/b.orc"),
        &[batch(vec![("t", far)])],
        WriterProperties::default(),
    );
    let context = open(&[]).await;
    assert_eq!(type_of(&context, "t").await, "Timestamp(µs)");
    assert_eq!(
        value(
            &context,
            "SELECT count(*) FROM t WHERE t = '1970-01-01T00:00:00.000001'"
        )
        .await,
        "1"
    );
    let context = open(&[("grampus.timestamp_unit", "ns")]).await;
    let error = failure(&context, "SELECT max(t) FROM t").await;
    assert!(
        error.contains("b.orc: column t: timestamp 9999-12-31 00:00:00 is not between"),
        "{error}"
    );
    assert!(error.contains("SET grampus.timestamp_unit = 'us'"), "{error}");
}

#[tokio::test]
async fn timestamp_filters_agree_with_memory_in_both_units() {
    let folder = tempfile::tempdir().unwrap();
    // A pseudo-random walk over the years 1 to 9999, in order and out of order, without the last second before 1970.
    let random = |row: i64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 20).rem_euclid(LAST_DAY - FIRST_DAY);
    let far = |row: i64| match row % 3 {
        0 => None,
        1 => Some(FIRST_DAY + row % 2_000 * ((LAST_DAY - FIRST_DAY) / 2_000)),
        _ => Some(FIRST_DAY + random(row)),
    };
    let near = |row: i64| (row % 7 != 0).then_some(row * 86_400_000_000 - 90_000_000_000_000);
    let micros = |make: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        Arc::new((0..2_000).map(make).collect::<TimestampMicrosecondArray>())
    };
    let rows = batch(vec![
        ("far", micros(&far)),
        ("near", micros(&near)),
        ("sorted", micros(&|row| far(row * 3 + 1))),
    ]);
    write_orc(
        &folder.path().join("t.orc"),
        std::slice::from_ref(&rows),
        small_groups(),
    );
    let memory = SessionContext::new();
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]]).unwrap();
    memory.register_table("t", Arc::new(table)).unwrap();
    for unit in ["auto", "us"] {
        let context = context_with(2, &[("grampus.timestamp_unit", unit)]).await;
        register(&context, "t", &folder.path().join("t.orc")).await;
        for column in ["far", "near", "sorted"] {
            for literal in [
                "0001-01-01",
                "1066-10-14T09:00:00.5",
                "1969-12-31T23:59:58",
                "2026-11-23",
                "9999-12-31",
            ] {
                for op in ["<", "<=", "=", ">", ">=", "<>"] {
                    let bounds = format!("min({column})::timestamp(6)::text, max({column})::timestamp(6)::text");
                    let sql = format!("SELECT count(*), count(far), {bounds} FROM t WHERE {column} {op} '{literal}'");
                    let found = text(&run(&context, &sql).await);
                    let exact = format!("{sql}::timestamp(6)");
                    assert_eq!(found, text(&run(&memory, &exact).await), "{unit}: {sql}");
                }
            }
        }
    }
}

#[tokio::test]
async fn char_columns_compare_without_trailing_blanks() {
    let folder = tempfile::tempdir().unwrap();
    let padded: ArrayRef = Arc::new(StringArray::from(vec![Some("x   "), Some("ab  "), None, Some("four")]));
    let plain: ArrayRef = Arc::new(StringArray::from(vec!["x", "ab", "ab", "five"]));
    let path = write_edited(folder.path(), "t.orc", vec![("c", padded), ("s", plain)], |parts| {
        parts.footer.types[1].kind = Some(Kind::Char as i32);
        parts.footer.types[1].maximum_length = Some(4);
    });
    let context = context(2);
    register(&context, "t", &path).await;
    for (sql, expected) in [
        ("SELECT count(*) FROM t WHERE c = 'x'", "1"),
        ("SELECT count(*) FROM t WHERE c = 'x   '", "1"),
        ("SELECT count(*) FROM t WHERE 'ab ' = c", "1"),
        ("SELECT count(*) FROM t WHERE c IN ('x ', 'four')", "2"),
        ("SELECT count(*) FROM t WHERE c <> 'x '", "2"),
        ("SELECT count(*) FROM t WHERE c <= 'x '", "3"),
        ("SELECT count(*) FROM t WHERE c BETWEEN 'x ' AND 'x  '", "1"),
        ("SELECT sum((c = 'x ')::int) FROM t", "1"),
        ("SELECT count(*) FROM (SELECT c AS d FROM t) AS u WHERE d = 'x '", "1"),
        ("SELECT count(*) FROM t WHERE c LIKE '%b'", "1"),
        ("SELECT count(*) FROM t AS a JOIN t AS b ON a.c = b.s", "3"),
        ("SELECT count(DISTINCT c) FROM t", "3"),
        ("SELECT max(length(c)) FROM t", "4"),
        ("SELECT min(length(c)) FROM t", "1"),
        // Other strings keep their blanks.
        ("SELECT count(*) FROM t WHERE s = 'x '", "0"),
    ] {
        assert_eq!(value(&context, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn strings_that_are_not_utf8_are_errors_or_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<&[u8]> = vec![b"caf\xe9", b"plain", b"\xe9t\xe9"];
    let stored: ArrayRef = Arc::new(BinaryArray::from(bytes));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let path = write_edited(folder.path(), "t.orc", vec![("s", stored), ("n", numbers)], |parts| {
        parts.footer.types[1].kind = Some(Kind::String as i32);
    });
    let context = context(1);
    register(&context, "t", &path).await;
    assert_eq!(value(&context, "SELECT sum(n) FROM t").await, "6");
    let error = failure(&context, "SELECT s FROM t").await;
    assert!(
        error.contains("t.orc: column s: ") && error.contains("grampus.invalid_utf8 = 'replace'"),
        "{error}"
    );
    run(&context, "SET grampus.invalid_utf8 = 'replace'").await;
    assert_eq!(
        value(&context, "SELECT string_agg(s, ',' ORDER BY n) FROM t").await,
        "caf\u{fffd},plain,\u{fffd}t\u{fffd}"
    );
    assert_eq!(
        value(&context, "SELECT sum(n) FROM t WHERE s = 'caf\u{fffd}'").await,
        "1"
    );
    assert_eq!(value(&context, "SELECT sum(n) FROM t WHERE s > 'z'").await, "3");
}

/// Bounds of stored bytes answer no MIN or MAX of replaced text: U+FFFD lies above "ü", and the byte that it replaces
/// below.
#[tokio::test]
async fn bounds_are_no_extremes_of_replaced_text() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<&[u8]> = vec![b"a", b"\x80", "ü".as_bytes()];
    let stored: ArrayRef = Arc::new(BinaryArray::from(bytes));
    let path = write_edited(folder.path(), "t.orc", vec![("s", stored)], |parts| {
        parts.footer.types[1].kind = Some(Kind::String as i32);
        let statistics = &mut parts.footer.statistics[1];
        statistics.binary_statistics = None;
        statistics.string_statistics = Some(StringStatistics {
            minimum: Some("a".to_owned()),
            maximum: Some("ü".to_owned()),
            ..StringStatistics::default()
        });
    });
    let context = context(1);
    register(&context, "t", &path).await;
    let plan = text(&run(&context, "EXPLAIN SELECT max(s) FROM t").await);
    assert!(plan.contains("PlaceholderRowExec"), "the statistics are used: {plan}");
    run(&context, "SET grampus.invalid_utf8 = 'replace'").await;
    assert_eq!(value(&context, "SELECT max(s) FROM t").await, "\u{fffd}");
}

#[tokio::test]
async fn unreadable_columns_are_refused_only_when_read() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = || -> ArrayRef { Arc::new(Int64Array::from(vec![1, 2, 3])) };
    let path = write_edited(
        folder.path(),
        "t.orc",
        vec![("n", numbers()), ("u", numbers())],
        |parts| {
            let long = parts.footer.types[1].clone();
            parts.footer.types[2].kind = Some(Kind::Union as i32);
            parts.footer.types[2].subtypes = (3..203).collect();
            parts.footer.types.extend((0..200).map(|_| long.clone()));
            let direct = parts.stripe_footer.columns[1].clone();
            parts.stripe_footer.columns.resize(203, direct);
        },
    );
    let context = context(1);
    register(&context, "t", &path).await;
    assert_eq!(value(&context, "SELECT sum(n) FROM t").await, "6");
    assert_eq!(value(&context, "SELECT count(*) FROM t").await, "3");
    assert_eq!(run(&context, "SELECT * EXCLUDE (u) FROM t").await[0].num_columns(), 1);
    for sql in [
        "SELECT * FROM t",
        "SELECT u FROM t",
        "SELECT n FROM t WHERE u IS NOT NULL AND length(u) > 0",
    ] {
        let error = failure(&context, sql).await;
        assert!(
            error.contains("t.orc: a union of more than 127 types of column u is not supported"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn columns_of_one_name_have_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = |first: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![first, first + 1])) };
    let columns = ["p", "q", "r", "s", "t"];
    let columns = columns.iter().zip([11, 21, 31, 41, 51]);
    let columns: Vec<_> = columns.map(|(name, first)| (*name, numbers(first))).collect();
    let twice = |names: [&str; 5]| {
        let names = names.map(str::to_owned).to_vec();
        move |parts: &mut FileMetadata| parts.footer.types[0].field_names = names
    };
    let file = |name: &str, names| write_edited(folder.path(), name, columns.clone(), twice(names));
    let context = context(1);
    let path = file("1.orc", ["a", "b", "a", "a_1", "a"]);
    register(&context, "t", &path).await;
    for (sql, expected) in [
        ("SELECT sum(b) FROM t", "43"),
        ("SELECT sum(a) FROM t", "23"),
        ("SELECT sum(a_1) FROM t", "83"),
        ("SELECT sum(a_2) FROM t WHERE b > 21", "32"),
        ("SELECT sum(a_3) FROM t WHERE a_2 = 31", "51"),
        ("SELECT count(*) FROM t", "2"),
    ] {
        assert_eq!(value(&context, sql).await, expected, "{sql}");
    }
    assert_eq!(run(&context, "SELECT * FROM t").await[0].num_columns(), 5);
    // A folder of such files.
    file("2.orc", ["a", "b", "a", "a_1", "a"]);
    register(&context, "folder", folder.path()).await;
    assert_eq!(value(&context, "SELECT sum(a_3) FROM folder").await, "206");
}

#[tokio::test]
async fn deep_types_need_no_deep_stack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    // The writer's limit is 64 levels.
    let mut list: ArrayRef = Arc::new(Int64Array::from(vec![7, 8]));
    for _ in 0..62 {
        let item = Arc::new(Field::new("item", list.data_type().clone(), true));
        list = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([1, 1]), list, None));
    }
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    write_orc(
        &path,
        &[batch(vec![("l", list), ("n", numbers)])],
        WriterProperties::default(),
    );
    let context = context(1);
    register(&context, "t", &path).await;
    let read = run(&context, "SELECT l, n FROM t WHERE n = 2").await;
    assert_eq!(read.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
}

#[tokio::test]
async fn doubles_of_trino_are_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let doubles: ArrayRef = Arc::new(Float64Array::from_iter_values((0..400).map(f64::from)));
    let path = folder.path().join("t.orc");
    // Without row groups, whose statistics would have sums.
    let options = WriterProperties {
        row_index_stride: 0,
        ..WriterProperties::default()
    };
    write_orc(&path, &[batch(vec![("x", doubles)])], options);
    // Trino's writer states bounds without a sum, and its own code.
    let without_sums = |writer: u32| {
        let file = edited(&std::fs::read(&path).unwrap(), |parts| {
            parts.footer.writer = Some(writer);
            let stripes = parts
                .metadata
                .stripe_stats
                .iter_mut()
                .flat_map(|stripe| &mut stripe.col_stats);
            for statistics in stripes.chain(&mut parts.footer.statistics) {
                if let Some(doubles) = &mut statistics.double_statistics {
                    doubles.sum = None;
                }
            }
        });
        let path = folder.path().join(format!("{writer}.orc"));
        std::fs::write(&path, file).unwrap();
        path
    };
    // For an unknown writer, a NaN may hide behind the bounds.
    for (writer, is_read) in [(4, false), (2, false), (1_000, true)] {
        let context = context(1);
        register(&context, "t", &without_sums(writer)).await;
        for filter in ["x > 1000", "x < -1", "x = 5000", "x BETWEEN 500 AND 600"] {
            let (answer, _, io) = measured(&context, &format!("SELECT count(*) FROM t WHERE {filter}")).await;
            assert!(answer.contains("| 0 "), "{answer}");
            assert_eq!(io.needed_bytes > 0, is_read, "writer {writer}: {filter}");
        }
    }
}
