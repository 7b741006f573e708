//! Values, types and encodings as other writers store them, in files whose metadata is edited.

mod common;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, Int64Array, RecordBatch, StringArray};
use arrow::array::{TimestampMicrosecondArray, TimestampNanosecondArray};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType};
use bytes::Bytes;
use common::Memory;
use common::edited_file::{FileMetadata, edited};
use grampus_orc_layout::access::Access;
use grampus_orc_layout::decode::{ColumnReader, dictionary_entries};
use grampus_orc_layout::proto::{CalendarKind, Type};
use grampus_orc_layout::read_options::{InvalidUtf8, ReadOptions, TimestampUnit};
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::tail::FileTail;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use grampus_orc_layout::{LayoutError, Result, metadata_reader, proto};

/// 0001-01-01 and 9999-12-31, in microseconds since 1970.
const FIRST_DAY: i64 = -62_135_596_800_000_000;
const LAST_DAY: i64 = 253_402_214_400_000_000;

const MICROSECONDS: ReadOptions = ReadOptions::new().with_timestamp_unit(TimestampUnit::Microsecond);
const REPLACE: ReadOptions = ReadOptions::new().with_invalid_utf8(InvalidUtf8::Replace);

/// A file of these columns, with edited metadata.
fn file(columns: Vec<(&str, ArrayRef)>, edit: impl FnOnce(&mut FileMetadata)) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(WriterProperties::default())).unwrap();
    writer.write(&batch).unwrap();
    edited(&writer.into_inner().unwrap(), edit)
}

/// An opened file of one stripe.
struct Opened {
    tail: Arc<FileTail>,
    source: Arc<Memory>,
}

fn open(file: Vec<u8>) -> Result<Opened> {
    let source = Arc::new(Memory(Bytes::from(file)));
    let tail = metadata_reader::read_tail(&"f.orc".into(), source.0.len() as u64, &*source)?;
    Ok(Opened {
        tail: Arc::new(tail),
        source,
    })
}

impl Opened {
    /// The values of the field `field` of the root.
    fn read(&self, field: usize, options: ReadOptions) -> Result<ArrayRef> {
        let column = self.tail.schema.fields()[field];
        let stripe = Arc::new(metadata_reader::read_stripe(&self.tail, &*self.source, 0)?);
        let access = Access::of(&self.tail, &stripe, column, None, &*self.source, true)?;
        let (tail, rows) = (Arc::clone(&self.tail), RowSelection::range(0..stripe.info.rows));
        let source = Arc::clone(&self.source) as Arc<_>;
        ColumnReader::with_options(tail, stripe, column, None, access, source, options)?.read(&rows)
    }

    fn error(&self, field: usize, options: ReadOptions) -> String {
        self.read(field, options).expect_err("the column is read").to_string()
    }
}

fn longs() -> ArrayRef {
    Arc::new(Int64Array::from(vec![1, 2, 3]))
}

fn texts(array: &ArrayRef) -> Vec<Option<&str>> {
    array.as_string::<i32>().iter().collect()
}

#[test]
fn timestamps_of_any_year_are_read_in_microseconds() {
    let values = vec![Some(FIRST_DAY), None, Some(-1_500_001), Some(LAST_DAY + 999_999)];
    let stored: ArrayRef = Arc::new(TimestampMicrosecondArray::from(values.clone()));
    let instants: ArrayRef = Arc::new(TimestampMicrosecondArray::from(values.clone()).with_timezone("UTC"));
    let opened = open(file(vec![("t", stored.clone()), ("i", instants.clone())], |_| ())).unwrap();
    for (field, stored) in [&stored, &instants].into_iter().enumerate() {
        let column = opened.tail.schema.fields()[field];
        assert_eq!(opened.tail.timestamp_unit(column), Some(TimestampUnit::Microsecond));
        assert_eq!(&opened.read(field, MICROSECONDS).unwrap(), stored);
        let error = opened.error(field, ReadOptions::default());
        assert!(error.starts_with("f.orc: column "), "{error}");
        assert!(
            error.contains("timestamp 0001-01-01 00:00:00 is not between"),
            "{error}"
        );
        assert!(error.contains("grampus.timestamp_unit = 'us'"), "{error}");
    }
}

#[test]
fn timestamp_unit_follows_the_statistics_of_file_or_stripes() {
    let ends = vec![i64::MIN + 3_000_000, i64::MAX - 3_000_000];
    let fitting: ArrayRef = Arc::new(TimestampNanosecondArray::from(ends.clone()));
    let wide: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![0, LAST_DAY]));
    let unit = |column: &ArrayRef, edit: fn(&mut FileMetadata)| {
        let opened = open(file(vec![("t", column.clone())], edit)).unwrap();
        opened.tail.timestamp_unit(1).unwrap()
    };
    assert_eq!(unit(&fitting, |_| ()), TimestampUnit::Nanosecond);
    assert_eq!(unit(&wide, |_| ()), TimestampUnit::Microsecond);
    assert_eq!(
        unit(&wide, |parts| parts.footer.statistics.clear()),
        TimestampUnit::Microsecond
    );
    let none = |parts: &mut FileMetadata| {
        parts.footer.statistics.clear();
        parts.metadata.stripe_stats.clear();
    };
    assert_eq!(unit(&wide, none), TimestampUnit::Nanosecond);
    // Writers before ORC-135 stated bounds in their own zone.
    let local = |parts: &mut FileMetadata| {
        let stored = parts.footer.statistics[1].timestamp_statistics.as_mut().unwrap();
        (stored.minimum, stored.maximum) = (stored.minimum_utc.take(), stored.maximum_utc.take());
    };
    assert_eq!(unit(&wide, local), TimestampUnit::Microsecond);
    let opened = open(file(vec![("t", fitting.clone())], |_| ())).unwrap();
    assert_eq!(&opened.read(0, ReadOptions::default()).unwrap(), &fitting);
}

#[test]
fn microseconds_are_cut_towards_the_past() {
    let stored: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![-1_000_000_001, 1_999, 0]));
    let opened = open(file(vec![("t", stored)], |_| ())).unwrap();
    let read = opened.read(0, MICROSECONDS).unwrap();
    assert_eq!(
        read.as_primitive::<TimestampMicrosecondType>().values(),
        &[-1_000_001, 1, 0]
    );
    assert_eq!(*read.data_type(), DataType::Timestamp(TimeUnit::Microsecond, None));
}

#[test]
fn hybrid_calendar_keeps_year_month_and_day() {
    // The days and seconds of the hybrid calendar's 0001-01-01 and 1582-10-04.
    let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(-719_164), Some(-141_428), None, Some(0)]));
    let seconds = [Some(-719_164i64), Some(-141_428), None, Some(0)].map(|day| day.map(|day| day * 86_400_000_000 + 7));
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(seconds.to_vec()));
    let columns = || vec![("d", days.clone()), ("t", times.clone())];
    let proleptic = [Some(-719_162), Some(-141_438), None, Some(0)];
    let opened = open(file(columns(), |parts| {
        parts.footer.calendar = Some(CalendarKind::JulianGregorian as i32)
    }));
    let opened = opened.unwrap();
    let read = opened.read(0, ReadOptions::default()).unwrap();
    assert_eq!(read.as_primitive(), &Date32Array::from(proleptic.to_vec()));
    let read = opened.read(1, MICROSECONDS).unwrap();
    let expected = proleptic.map(|day| day.map(|day| i64::from(day) * 86_400_000_000 + 7));
    assert_eq!(
        read.as_primitive::<TimestampMicrosecondType>()
            .iter()
            .collect::<Vec<_>>(),
        expected
    );
    for calendar in [None, Some(CalendarKind::ProlepticGregorian as i32)] {
        let opened = open(file(columns(), |parts| parts.footer.calendar = calendar)).unwrap();
        assert_eq!(&opened.read(0, ReadOptions::default()).unwrap(), &days);
    }
}

#[test]
fn excess_digits_of_decimals_are_rounded_half_up() {
    let values = vec![Some(12_345), None, Some(-12_345), Some(12_344), Some(-5), Some(4)];
    let stored = arrow::array::Decimal128Array::from(values)
        .with_precision_and_scale(10, 4)
        .unwrap();
    let opened = open(file(vec![("d", Arc::new(stored) as ArrayRef)], |parts| {
        parts.footer.types[1].scale = Some(3);
    }));
    let read = opened.unwrap().read(0, ReadOptions::default()).unwrap();
    let read: Vec<_> = read.as_primitive::<arrow::datatypes::Decimal128Type>().iter().collect();
    assert_eq!(read, [Some(1_235), None, Some(-1_235), Some(1_234), Some(-1), Some(0)]);
}

#[test]
fn char_values_lose_their_padding() {
    let padded = StringArray::from(vec![Some("x   "), None, Some(" y  "), Some("four"), Some("    ")]);
    let many = StringArray::from_iter((0..3000).map(|k| Some(["x   ", " y  "][k % 2])));
    for (stored, expected) in [
        (
            padded.clone(),
            vec![Some("x"), None, Some(" y"), Some("four"), Some("")],
        ),
        (many, (0..3000).map(|k| Some(["x", " y"][k % 2])).collect()),
    ] {
        let opened = open(file(vec![("c", Arc::new(stored) as ArrayRef)], |parts| {
            parts.footer.types[1].kind = Some(proto::r#type::Kind::Char as i32);
            parts.footer.types[1].maximum_length = Some(4);
        }));
        let opened = opened.unwrap();
        assert_eq!(texts(&opened.read(0, ReadOptions::default()).unwrap()), expected);
        let stripe = Arc::new(metadata_reader::read_stripe(&opened.tail, &*opened.source, 0).unwrap());
        if stripe.encodings[1].dictionary_size > 0 {
            let (tail, source) = (opened.tail.clone(), opened.source.clone());
            let entries = dictionary_entries(tail, stripe, 1, source, ReadOptions::default()).unwrap();
            assert!(entries.iter().flatten().all(|entry| !entry.ends_with(' ')));
        }
    }
}

#[test]
fn strings_that_are_not_utf8_are_refused_or_replaced() {
    // Binary columns store their bytes as strings do.
    let latin1: Vec<Option<&[u8]>> = vec![Some(b"caf\xe9"), None, Some(b"plain"), Some(b"\xff\xfe")];
    let stored: ArrayRef = Arc::new(arrow::array::BinaryArray::from(latin1));
    let opened = open(file(vec![("s", stored)], |parts| {
        parts.footer.types[1].kind = Some(proto::r#type::Kind::String as i32);
    }));
    let opened = opened.unwrap();
    let error = opened.error(0, ReadOptions::default());
    assert!(error.starts_with("f.orc: column s: "), "{error}");
    assert!(
        error.contains("not valid UTF-8") && error.contains("grampus.invalid_utf8"),
        "{error}"
    );
    let read = opened.read(0, REPLACE).unwrap();
    assert_eq!(
        texts(&read),
        [Some("caf\u{fffd}"), None, Some("plain"), Some("\u{fffd}\u{fffd}")]
    );
}

#[test]
fn writer_zones_by_offset_are_read() {
    let wall_clock = 1_500_000_000_000_000_000;
    let stored: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![wall_clock]));
    let zoned = |zone: &str| {
        let file = file(vec![("t", stored.clone()), ("n", longs().slice(0, 1))], |parts| {
            parts.stripe_footer.writer_timezone = Some(zone.into());
        });
        open(file).unwrap()
    };
    // Our writer counts from 2015 in UTC. A constant offset moves the epoch and the wall clock by the same time.
    for zone in ["GMT+05:30", "GMT-0330", "UTC+8", "EST"] {
        let read = zoned(zone).read(0, ReadOptions::default()).unwrap();
        assert_eq!(
            read.as_primitive::<TimestampNanosecondType>().value(0),
            wall_clock,
            "{zone}"
        );
    }
    // California's wall clock in July 2017 is one hour further from its epoch in January.
    let read = zoned("PST").read(0, ReadOptions::default()).unwrap();
    let value = read.as_primitive::<TimestampNanosecondType>().value(0);
    assert_eq!(value, wall_clock + 3_600_000_000_000);
    let unknown = zoned("Nowhere/Land");
    let error = unknown.error(0, ReadOptions::default());
    assert!(
        error.contains("time zone Nowhere/Land") && error.contains("is not known"),
        "{error}"
    );
    assert!(!error.contains("corrupt"), "{error}");
    assert_eq!(unknown.read(1, ReadOptions::default()).unwrap().len(), 1);
}

#[test]
fn unknown_encodings_count_as_direct_where_they_do_not_matter() {
    let fields = vec![(
        Arc::new(arrow::datatypes::Field::new("x", DataType::Int64, true)),
        longs(),
    )];
    let structs: ArrayRef = Arc::new(arrow::array::StructArray::from(fields));
    let opened = open(file(vec![("s", structs.clone()), ("n", longs())], |parts| {
        // libcudf's root and structs.
        parts.stripe_footer.columns[0].kind = Some(-1);
        parts.stripe_footer.columns[1].kind = Some(-1);
    }));
    assert_eq!(&opened.unwrap().read(0, ReadOptions::default()).unwrap(), &structs);
    let opened = open(file(vec![("s", structs), ("n", longs())], |parts| {
        parts.stripe_footer.columns[2].kind = Some(17);
    }));
    let opened = opened.unwrap();
    let error = opened.read(0, ReadOptions::default()).unwrap_err();
    assert!(matches!(error, LayoutError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("encoding 17"), "{error}");
    assert_eq!(&opened.read(1, ReadOptions::default()).unwrap(), &longs());
}

#[test]
fn unknown_stream_kinds_are_skipped() {
    let opened = open(file(vec![("n", longs()), ("m", longs())], |parts| {
        for stream in parts
            .stripe_footer
            .streams
            .iter_mut()
            .filter(|stream| stream.column() == 1)
        {
            stream.kind = Some(99);
        }
    }));
    assert_eq!(&opened.unwrap().read(1, ReadOptions::default()).unwrap(), &longs());
}

#[test]
fn columns_of_unreadable_types_are_refused_alone() {
    let kind = |kind: proto::r#type::Kind, children: Vec<u32>| Type {
        kind: Some(kind as i32),
        subtypes: children,
        ..Default::default()
    };
    use proto::r#type::Kind;
    let union: Vec<Type> = std::iter::once(kind(Kind::Union, (3..203).collect()))
        .chain((0..200).map(|_| kind(Kind::Long, vec![])))
        .collect();
    let deep: Vec<Type> = (2..999)
        .map(|id| kind(Kind::List, vec![id + 1]))
        .chain([kind(Kind::Long, vec![])])
        .collect();
    let later = vec![Type {
        kind: Some(77),
        ..Default::default()
    }];
    for (types, reason) in [
        (union, "a union of more than 127 types of column b"),
        (deep[..998].to_vec(), "more than 100 levels of nested types of column b"),
        (later, "type kind 77 of column b"),
    ] {
        let opened = open(file(vec![("a", longs()), ("b", longs())], |parts| {
            let direct = parts.stripe_footer.columns[1].clone();
            parts.stripe_footer.columns.resize(2 + types.len(), direct);
            parts.footer.types.truncate(2);
            parts.footer.types.extend(types);
        }));
        let opened = opened.unwrap();
        assert_eq!(&opened.read(0, ReadOptions::default()).unwrap(), &longs());
        let error = opened.error(1, ReadOptions::default());
        assert!(error.contains(reason) && error.contains("is not supported"), "{error}");
        assert!(error.contains("EXCLUDE"), "{error}");
    }
}
