//! Statistics of a table from its files' tails: exact row counts, and bounds that can be trusted.

use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use grampus_orc_layout::statistics::{ColumnStatistics as Stored, TypedStatistics};

use super::files::TableFile;

/// Statistics of the table columns `columns` (with their types) over `files`.
pub(crate) fn of_files(files: &[TableFile], columns: &[(usize, DataType)]) -> Statistics {
    let rows: u64 = files.iter().map(|file| file.file.tail.rows).sum();
    Statistics {
        num_rows: Precision::Exact(rows as usize),
        total_byte_size: Precision::Absent,
        column_statistics: columns
            .iter()
            .map(|(column, kind)| of_column(files, *column, kind))
            .collect(),
    }
}

fn of_column(files: &[TableFile], column: usize, data_type: &DataType) -> ColumnStatistics {
    let mut whole: Option<ColumnStatistics> = None;
    for file in files.iter().filter(|file| file.file.tail.rows > 0) {
        let rows = file.file.tail.rows;
        let one = match file.place_of(column) {
            Ok(id) => match file.file.tail.file_statistics.get(id as usize) {
                Some(stored) => of_stored(stored, rows, data_type, file.is_converted(column)),
                None => return ColumnStatistics::new_unknown(),
            },
            // Partition columns and columns that the file lacks stay unknown.
            _ => return ColumnStatistics::new_unknown(),
        };
        whole = Some(match whole {
            None => one,
            Some(so_far) => ColumnStatistics {
                null_count: so_far.null_count.add(&one.null_count),
                min_value: so_far.min_value.min(&one.min_value),
                max_value: so_far.max_value.max(&one.max_value),
                ..ColumnStatistics::new_unknown()
            },
        });
    }
    whole.unwrap_or_else(ColumnStatistics::new_unknown)
}

/// DataFusion may answer `min`, `max` and `count` from exact values without reading. Therefore only certain values are
/// exact: no widened timestamp, no truncated string, no FLOAT, and no floating-point zero, whose sign is unknown.
fn of_stored(stored: &Stored, rows: u64, data_type: &DataType, is_converted: bool) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    match (stored.values, stored.has_null) {
        (Some(values), has_null) if values <= rows && (values < rows) == has_null.unwrap_or(values < rows) => {
            statistics.null_count = Precision::Exact((rows - values) as usize);
        }
        // The writer's claims contradict each other: use none of them.
        (Some(_), _) => return statistics,
        (None, _) => {}
    }
    let bounds = match (&stored.typed, data_type) {
        (Some(TypedStatistics::Integer { min, max, .. }), _) => integer(*min, data_type)
            .zip(integer(*max, data_type))
            .map(|bounds| (bounds, true)),
        (Some(TypedStatistics::Date { min, max }), DataType::Date32) => {
            Some(((ScalarValue::Date32(Some(*min)), ScalarValue::Date32(Some(*max))), true))
        }
        (Some(TypedStatistics::Decimal { min, max, .. }), DataType::Decimal128(p, s)) => {
            let bound = |value| ScalarValue::Decimal128(Some(value), *p, *s);
            Some(((bound(*min), bound(*max)), true))
        }
        (
            Some(TypedStatistics::Double {
                min,
                max,
                sum: Some(sum),
            }),
            DataType::Float64,
        ) if !sum.is_nan() => {
            let bounds = (ScalarValue::Float64(Some(*min)), ScalarValue::Float64(Some(*max)));
            Some((bounds, *min != 0.0 && *max != 0.0 && !is_converted))
        }
        (
            Some(TypedStatistics::String {
                min: Some(min),
                max: Some(max),
                exact: true,
                ..
            }),
            DataType::Utf8,
        ) => Some(((ScalarValue::from(min.as_str()), ScalarValue::from(max.as_str())), true)),
        _ => None,
    };
    if let Some(((min, max), exact)) = bounds {
        let precision = if exact { Precision::Exact } else { Precision::Inexact };
        statistics.min_value = precision(min);
        statistics.max_value = precision(max);
    }
    statistics
}

fn integer(value: i64, data_type: &DataType) -> Option<ScalarValue> {
    Some(match data_type {
        DataType::Int8 => ScalarValue::Int8(Some(value.try_into().ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(value.try_into().ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(value.try_into().ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(value)),
        _ => return None,
    })
}
