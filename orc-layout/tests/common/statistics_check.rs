//! Agreement of statistics and bloom filters with values: no bound excludes one, no filter denies one, at file, stripe
//! and row-group level.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType,
};
use grampus_orc_layout::bloom::BloomFilter;
use grampus_orc_layout::metadata_reader;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::statistics::{ColumnStatistics, TypedStatistics};
use grampus_orc_layout::tail::FileTail;

/// Checks all statistics of a file against its top-level columns; returns the numbers of statistics and bloom filters.
pub(crate) fn check_statistics(tail: &FileTail, source: &dyn ByteSource, columns: &[ArrayRef]) -> (usize, usize) {
    let file = &tail.file;
    let (mut checked, mut filters) = (0, 0);
    for (column, values) in top_and_below(tail, columns) {
        if let Some(statistics) = tail.file_statistics.get(column as usize) {
            checked += check(&format!("{file} column {column}"), &values, statistics, None);
        }
        for info in &tail.stripes {
            let place = format!("{file} stripe {} column {column}", info.index);
            let values = values.slice(info.first_row as usize, info.rows as usize);
            if let Some(statistics) = tail.stripe_statistics.get(info.index) {
                checked += check(&place, &values, &statistics[column as usize], None);
            }
            let stripe = metadata_reader::read_stripe(tail, source, info.index).unwrap();
            let index = metadata_reader::read_index(tail, &stripe, source, column).unwrap();
            for (group, statistics) in index.statistics.iter().enumerate() {
                let rows = stripe.row_group_rows(tail, group);
                let values = values.slice(rows.start as usize, (rows.end - rows.start) as usize);
                let filter = index.bloom_filters.get(group);
                filters += usize::from(filter.is_some());
                checked += check(&format!("{place} group {group}"), &values, statistics, filter);
            }
        }
    }
    (checked, filters)
}

/// The top-level columns, and the fields of those that are structs without nulls.
fn top_and_below(tail: &FileTail, columns: &[ArrayRef]) -> Vec<(ColumnId, ArrayRef)> {
    let mut all = Vec::new();
    for (&column, values) in tail.schema.fields().iter().zip(columns) {
        all.push((column, values.clone()));
        if let Some(parent) = values.as_struct_opt().filter(|parent| parent.null_count() == 0) {
            let children = &tail.schema.column(column).children;
            all.extend(children.iter().copied().zip(parent.columns().iter().cloned()));
        }
    }
    all
}

/// Non-null values in the form of their bounds: integers, doubles or text.
fn check(place: &str, values: &dyn Array, statistics: &ColumnStatistics, filter: Option<&BloomFilter>) -> usize {
    if matches!(values.data_type(), DataType::Union(..)) {
        return 0; // Arrow's unions have no nulls of their own
    }
    let present = (values.len() - values.null_count()) as u64;
    assert!(
        statistics.values.is_none_or(|stated| stated == present),
        "{place}: {statistics:?}"
    );
    assert!(
        statistics.has_null != Some(false) || values.null_count() == 0,
        "{place}"
    );
    let Some(typed) = &statistics.typed else { return 0 };
    macro_rules! integers {
        ($array:ty, $min:expr, $max:expr) => {{
            for value in values.as_primitive::<$array>().iter().flatten() {
                let inside = *$min <= value.into() && *$max >= value.into();
                assert!(inside, "{place}: {value} outside {typed:?}");
                if let (Some(filter), Ok(value)) = (filter, i64::try_from(i128::from(value))) {
                    assert!(filter.may_contain_long(value), "{place}: {value} denied");
                }
            }
        }};
    }
    match (typed, values.data_type()) {
        (TypedStatistics::Integer { min, max, .. }, DataType::Int8) => integers!(Int8Type, min, max),
        (TypedStatistics::Integer { min, max, .. }, DataType::Int16) => integers!(Int16Type, min, max),
        (TypedStatistics::Integer { min, max, .. }, DataType::Int32) => integers!(Int32Type, min, max),
        (TypedStatistics::Integer { min, max, .. }, DataType::Int64) => integers!(Int64Type, min, max),
        (TypedStatistics::Date { min, max }, DataType::Date32) => integers!(Date32Type, min, max),
        (TypedStatistics::Timestamp { min, max }, DataType::Timestamp(..)) => {
            for value in values.as_primitive::<TimestampNanosecondType>().iter().flatten() {
                let inside = (*min..=*max).contains(&i128::from(value));
                assert!(inside, "{place}: {value} outside {typed:?}");
            }
        }
        (TypedStatistics::Decimal { min, max, .. }, DataType::Decimal128(..)) => {
            for value in values.as_primitive::<Decimal128Type>().iter().flatten() {
                assert!((*min..=*max).contains(&value), "{place}: {value} outside {typed:?}");
            }
        }
        (TypedStatistics::Double { min, max, .. }, DataType::Float32 | DataType::Float64) => {
            let doubles: Vec<f64> = match values.data_type() {
                DataType::Float32 => values
                    .as_primitive::<Float32Type>()
                    .iter()
                    .flatten()
                    .map(f64::from)
                    .collect(),
                _ => values.as_primitive::<Float64Type>().iter().flatten().collect(),
            };
            for value in doubles {
                assert!((*min..=*max).contains(&value), "{place}: {value} outside {typed:?}");
                assert!(
                    filter.is_none_or(|filter| filter.may_contain_double(value)),
                    "{place}: {value} denied"
                );
            }
        }
        (TypedStatistics::String { min, max, .. }, DataType::Utf8) => {
            for value in values.as_string::<i32>().iter().flatten() {
                let above = min.as_deref().is_none_or(|min| min <= value);
                let below = max.as_deref().is_none_or(|max| max >= value);
                assert!(above && below, "{place}: {value} outside {typed:?}");
                let maybe = filter.is_none_or(|filter| filter.may_contain_bytes(value.as_bytes()));
                assert!(maybe, "{place}: {value} denied");
            }
        }
        (TypedStatistics::Boolean { true_count }, DataType::Boolean) => {
            assert_eq!(*true_count, values.as_boolean().true_count() as u64, "{place}");
        }
        (TypedStatistics::Binary { total_length }, DataType::Binary) => {
            let total: usize = values.as_binary::<i32>().iter().flatten().map(<[u8]>::len).sum();
            assert_eq!(*total_length, total as i64, "{place}");
        }
        (typed, data_type) => panic!("{place}: {typed:?} of {data_type}"),
    }
    1
}
