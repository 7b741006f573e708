//! Statistics and bloom filters as other writers make them: of the hybrid calendar, rounded towards zero, never
//! counted. No filter and no count may depend on them wrongly.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray};
use grampus_orc_layout::proto::stream::Kind as Stream;
use grampus_orc_layout::proto::r#type::Kind as Type;
use grampus_orc_layout::proto::{CalendarKind, ColumnStatistics, TimestampStatistics};
use grampus_orc_layout::write::WriterProperties;

use crate::common::{context, measured, register, run, value, write_orc};
use crate::edited_file::{FileMetadata, edited};

/// Writes a file of one stripe, with edited metadata.
fn write(path: &Path, columns: Vec<(&str, ArrayRef)>, options: WriterProperties, edit: impl FnOnce(&mut FileMetadata)) {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let rows = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    write_orc(path, &[rows], options);
    let file = edited(&std::fs::read(path).unwrap(), edit);
    std::fs::write(path, file).unwrap();
}

/// Changes the statistics of one column in the file's and the stripe's metadata.
fn edit_statistics(parts: &mut FileMetadata, column: usize, mut edit: impl FnMut(&mut ColumnStatistics)) {
    edit(&mut parts.footer.statistics[column]);
    for stripe in &mut parts.metadata.stripe_stats {
        edit(&mut stripe.col_stats[column]);
    }
}

/// Writes a column `t` of timestamps as ORC C++ stores those of pyarrow: whole seconds and nanoseconds, both rounded
/// towards zero. The streams are those of two columns of integers, which must not be in order: DELTA runs have signs.
fn write_timestamps(path: &Path, nanoseconds: &[i64], edit: impl FnOnce(&mut FileMetadata)) {
    let seconds = nanoseconds.iter().map(|value| value / 1_000_000_000 - 1_420_070_400);
    // The stream of nanoseconds has no signs: its numbers are those that the signed ones are stored as.
    let unsigned = |value: i64| (value as u64 >> 1) as i64 ^ -(value & 1);
    let nanos = nanoseconds.iter().map(|value| unsigned((value % 1_000_000_000) << 3));
    let seconds: ArrayRef = Arc::new(Int64Array::from_iter_values(seconds));
    let nanos: ArrayRef = Arc::new(Int64Array::from_iter_values(nanos));
    write(path, vec![("t", seconds), ("nanos", nanos)], without_index(), |parts| {
        let types = &mut parts.footer.types;
        types.truncate(2);
        (types[0].subtypes, types[0].field_names) = (vec![1], vec!["t".to_owned()]);
        types[1].kind = Some(Type::Timestamp as i32);
        parts.stripe_footer.columns.truncate(2);
        for stream in parts
            .stripe_footer
            .streams
            .iter_mut()
            .filter(|stream| stream.column() == 2)
        {
            stream.column = Some(1);
            stream.kind = Some(Stream::Secondary as i32);
        }
        parts.footer.statistics.truncate(2);
        let stripes = parts.metadata.stripe_stats.iter_mut();
        stripes.for_each(|stripe| stripe.col_stats.truncate(2));
        edit_statistics(parts, 1, |statistics| statistics.int_statistics = None);
        edit(parts);
    });
}

/// Without row groups, whose statistics cannot be edited.
fn without_index() -> WriterProperties {
    WriterProperties {
        row_index_stride: 0,
        ..WriterProperties::default()
    }
}

#[tokio::test]
async fn bloom_filters_of_hybrid_dates_find_dates_before_1582() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    // Days of the hybrid calendar: 0001-01-01, 1500-03-01, 1582-10-04, 1582-10-15, 2000-01-01. Row groups have all of
    // them, so bounds exclude none.
    let special = [-719_164, -171_595, -141_428, -141_427, 10_957];
    let days: ArrayRef = Arc::new(Date32Array::from_iter_values((0..3_000).map(|row| special[row % 5])));
    let options = WriterProperties {
        row_index_stride: 1_000,
        bloom_filter_columns: vec!["d".to_owned()],
        ..WriterProperties::default()
    };
    write(&path, vec![("d", days)], options, |parts| {
        parts.footer.calendar = Some(CalendarKind::JulianGregorian as i32);
    });
    let context = context(1);
    register(&context, "t", &path).await;
    for prune in ["true", "false"] {
        run(&context, &format!("SET grampus.prune = {prune}")).await;
        for (filter, rows) in [
            ("d = DATE '0001-01-01'", "600"),
            ("d = DATE '1500-03-01'", "600"),
            ("d = DATE '1582-10-04'", "600"),
            ("d = DATE '1582-10-15'", "600"),
            ("d = DATE '2000-01-01'", "600"),
            ("d IN (DATE '0001-01-01', DATE '1582-10-04')", "1200"),
            ("d = '0001-01-01'", "600"),
            // In the proleptic calendar, day -141,428 is 1582-10-14.
            ("d = DATE '0001-01-02'", "0"),
            ("d = DATE '1582-10-14'", "0"),
            ("d <> DATE '0001-01-01'", "2400"),
        ] {
            let sql = format!("SELECT count(*) FROM t WHERE {filter}");
            assert_eq!(value(&context, &sql).await, rows, "{filter}, prune = {prune}");
        }
    }
    run(&context, "SET grampus.prune = true").await;
    let (_, _, io) = measured(&context, "SELECT count(*) FROM t WHERE d = DATE '1999-12-31'").await;
    assert_eq!(io.needed_bytes, 0, "the filters exclude later dates");
}

#[tokio::test]
async fn bloom_filters_of_hybrid_timestamps_are_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    // 1582-10-04 of the hybrid calendar is -141,428 days; the proleptic calendar counts -141,438.
    let first = -141_428 * 86_400_000_000;
    let times = TimestampMicrosecondArray::from_iter_values((0..3_000).map(|row| first * (row % 2)));
    let options = WriterProperties {
        row_index_stride: 1_000,
        bloom_filter_columns: vec!["t".to_owned()],
        ..WriterProperties::default()
    };
    let edit = |parts: &mut FileMetadata| parts.footer.calendar = Some(CalendarKind::JulianGregorian as i32);
    write(&path, vec![("t", Arc::new(times))], options, edit);
    let context = context(1);
    register(&context, "t", &path).await;
    for (time, rows) in [("1582-10-04", "1500"), ("1970-01-01", "1500"), ("1582-10-14", "0")] {
        let sql = format!("SELECT count(*) FROM t WHERE t = '{time}'");
        assert_eq!(value(&context, &sql).await, rows, "{time}");
    }
}

/// ORC C++ cuts -0.5 ms to 0 ms.
#[tokio::test]
async fn timestamps_just_before_rounded_bounds_are_found() {
    let folder = tempfile::tempdir().unwrap();
    for (name, values, least, greatest) in [
        ("near", [-500_000, -1, 1, 1_000_000_000], 0, 1_000),
        ("zero", [-999_999, -999_999, -1, 0], 0, 0),
    ] {
        let path = folder.path().join(format!("{name}.orc"));
        write_timestamps(&path, &values, |parts| {
            edit_statistics(parts, 1, |statistics| {
                statistics.timestamp_statistics = Some(TimestampStatistics {
                    minimum_utc: Some(least),
                    maximum_utc: Some(greatest),
                    ..TimestampStatistics::default()
                });
            });
        });
        let context = context(1);
        register(&context, name, &path).await;
        let stored = value(&context, &format!("SELECT min(arrow_cast(t, 'Int64')) FROM {name}")).await;
        assert_eq!(stored, values[0].to_string(), "{name}");
        for literal in values.into_iter().chain([0, -2_000_000, 2_000_000]) {
            for (op, passes) in [
                ("<", (|value, literal| value < literal) as fn(i64, i64) -> bool),
                ("<=", |value, literal| value <= literal),
                ("=", |value, literal| value == literal),
                (">", |value, literal| value > literal),
            ] {
                let rows = values.iter().filter(|&&value| passes(value, literal)).count();
                let time = format!("arrow_cast({literal}, 'Timestamp(Nanosecond, None)')");
                let sql = format!("SELECT count(*) FROM {name} WHERE t {op} {time}");
                assert_eq!(value(&context, &sql).await, rows.to_string(), "{sql}");
            }
        }
    }
}

/// Java's writer counts nothing without a row index. Hive 0.11 does not state either whether there are NULLs.
#[tokio::test]
async fn counts_of_zero_values_are_not_believed_unless_nulls_are_stated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..10).map(|row| (row != 4).then_some(row))));
    let nulls: ArrayRef = Arc::new(Float64Array::from(vec![None; 10]));
    write(&path, vec![("k", numbers), ("n", nulls)], without_index(), |parts| {
        for column in 0..3 {
            edit_statistics(parts, column, |statistics| {
                *statistics = ColumnStatistics {
                    number_of_values: Some(0),
                    ..ColumnStatistics::default()
                };
            });
        }
    });
    let context = context(1);
    register(&context, "t", &path).await;
    for (sql, expected) in [
        ("SELECT count(*) FROM t WHERE k > 3", "5"),
        ("SELECT count(k) FROM t", "9"),
        ("SELECT count(n) FROM t", "0"),
        ("SELECT count(*) FROM t", "10"),
        ("SELECT count(*) FROM t WHERE k IS NULL", "1"),
        ("SELECT count(*) FROM t WHERE k IS NOT NULL", "9"),
        ("SELECT count(*) FROM t WHERE n IS NULL", "10"),
        ("SELECT min(k) FROM t", "0"),
        ("SELECT max(k) FROM t", "9"),
        ("SELECT sum(k) FROM t", "41"),
        ("SELECT count(DISTINCT k) FROM t", "9"),
        ("SELECT count(*) FROM t AS a JOIN t AS b ON a.k = b.k", "9"),
    ] {
        assert_eq!(value(&context, sql).await, expected, "{sql}");
    }
}

/// The offsets before a zone's table are the writer's: Java's present standard time before 1900, C++'s first standard
/// time before the zone's first change, local mean time of the table otherwise.
#[tokio::test]
async fn times_before_zone_tables_have_the_writers_offsets() {
    let folder = tempfile::tempdir().unwrap();
    let (java, cpp, presto) = (0, 1, 2);
    // A time by the offset of 2015-01-01, and the seconds by which the column shows a later one: Shanghai had 8:05:43
    // until 1901, London -1:15 until 1847, California -7:52:58 until 1883, and Calcutta 5:53:20 until 1870, against
    // 5:30 today.
    for (zone, writer, time, later) in [
        ("Asia/Shanghai", java, "1800-01-01T00:00:00", 0),
        ("Asia/Shanghai", java, "1899-12-31T00:00:00", 0),
        ("Asia/Shanghai", java, "1900-06-01T00:00:00", 343),
        ("Asia/Shanghai", cpp, "1900-06-01T00:00:00", 0),
        ("Asia/Shanghai", presto, "1800-01-01T00:00:00", 343),
        ("Europe/London", java, "1700-02-03T04:05:06", 0),
        ("Europe/London", cpp, "1700-02-03T04:05:06", 0),
        ("Europe/London", presto, "1700-02-03T04:05:06", -75),
        ("America/Los_Angeles", java, "1800-01-01T00:00:00", 0),
        ("America/Los_Angeles", cpp, "1800-01-01T00:00:00", 0),
        ("Asia/Kolkata", java, "1850-01-01T00:00:00", 0),
        ("Asia/Kolkata", cpp, "1850-01-01T00:00:00", 1_400),
        ("Asia/Kolkata", cpp, "2000-01-01T00:00:00", 0),
        ("UTC", cpp, "1700-02-03T04:05:06", 0),
    ] {
        let context = context(1);
        let number = |sql: String| {
            let context = context.clone();
            async move { value(&context, &sql).await.parse::<i64>().unwrap() }
        };
        let wall = number(format!("SELECT arrow_cast(TIMESTAMP '{time}', 'Int64')")).await;
        let shown = wall + later * 1_000_000_000;
        // Bounds of the writer's offset, and of another one that differs by hours.
        for bound_ms in [
            shown / 1_000_000,
            shown / 1_000_000 + 7_200_000,
            shown / 1_000_000 - 7_200_000,
        ] {
            if shown > 0 && bound_ms != shown / 1_000_000 {
                continue;
            }
            let path = folder.path().join("t.orc");
            write_timestamps(&path, &[wall], |parts| {
                parts.footer.writer = Some(writer);
                parts.stripe_footer.writer_timezone = Some(zone.to_owned());
                edit_statistics(parts, 1, |statistics| {
                    statistics.timestamp_statistics = Some(TimestampStatistics {
                        minimum_utc: Some(bound_ms),
                        maximum_utc: Some(bound_ms),
                        ..TimestampStatistics::default()
                    });
                });
            });
            let case = format!("{zone}, writer {writer}, {time}, bounds at {bound_ms}");
            register(&context, "t", &path).await;
            let found = number("SELECT arrow_cast(t, 'Int64') FROM t".to_owned()).await;
            assert_eq!(found, shown, "{case}");
            for (op, rows) in [("=", 1), ("<=", 1), (">=", 1), ("<", 0), (">", 0)] {
                let literal = format!("arrow_cast({shown}, 'Timestamp(Nanosecond, None)')");
                let found = number(format!("SELECT count(*) FROM t WHERE t {op} {literal}")).await;
                assert_eq!(found, rows, "{case}: {op}");
            }
            context.deregister_table("t").unwrap();
        }
    }
}
