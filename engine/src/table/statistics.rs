//! Statistics of a table from its files' tails: exact row counts, bounds, and estimates of sizes and distinct values.
//!
//! DataFusion may answer `min`, `max` and `count` from exact values without reading. Everything that is not certain is
//! inexact, and serves the order of joins alone.

use std::collections::HashSet;

use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use grampus_orc_layout::statistics::{ColumnStatistics as Stored, TypedStatistics};

use super::column_bounds::extremes;
use super::files::TableFile;
use crate::config::InvalidUtf8;

/// Bytes of an offset of a string.
const OFFSET_BYTES: usize = size_of::<i32>();

/// Statistics of the table columns `columns` (with their types) over `files`, read with this setting.
pub(crate) fn of_files(files: &[TableFile], columns: &[(usize, DataType)], invalid_utf8: InvalidUtf8) -> Statistics {
    let rows: u64 = files.iter().map(|file| file.file.tail.rows).sum();
    let columns = columns.iter().map(|(column, data_type)| {
        let known = of_column(files, *column, data_type);
        // The bounds are of the stored bytes, and U+FFFD may lie beyond them.
        match *data_type == DataType::Utf8 && invalid_utf8 == InvalidUtf8::Replace {
            true => ColumnStatistics {
                min_value: Precision::Absent,
                max_value: Precision::Absent,
                ..known
            },
            false => known,
        }
    });
    Statistics {
        num_rows: Precision::Exact(rows as usize),
        total_byte_size: Precision::Absent,
        column_statistics: columns.collect(),
    }
}

/// The statistics with the size in memory: the sum of the columns' sizes, if all of them are known.
///
/// The columns' own sizes are left out. DataFusion passes them through joins as they are, and adds them up above a
/// semi-join, whose output would then seem as large as the tables below it.
pub(crate) fn with_total_size(mut statistics: Statistics) -> Statistics {
    let columns = statistics.column_statistics.iter_mut();
    let sizes = columns.map(|column| std::mem::take(&mut column.byte_size));
    let total_byte_size = sizes.reduce(|sum, size| sum.add(&size)).unwrap_or_default();
    statistics.total_byte_size = total_byte_size.to_inexact();
    statistics
}

fn of_column(files: &[TableFile], column: usize, data_type: &DataType) -> ColumnStatistics {
    let mut whole: Option<FileColumn> = None;
    let mut constants = HashSet::new();
    let mut is_constant = true;
    for file in files.iter().filter(|file| file.file.tail.rows > 0) {
        let rows = file.file.tail.rows;
        let one = match file.place_of(column) {
            Ok(id) => {
                is_constant = false;
                match file.file.tail.file_statistics.get(id as usize) {
                    Some(stored) => FileColumn::stored(stored, rows, data_type, file.is_converted(column)),
                    None => return ColumnStatistics::new_unknown(),
                }
            }
            // Partition columns, and columns that the file lacks.
            Err(value) => {
                let one = FileColumn::constant(&value, rows, data_type);
                constants.insert(value);
                one
            }
        };
        whole = Some(match whole {
            None => one,
            Some(so_far) => so_far.merge(one),
        });
    }
    let Some(FileColumn { mut statistics, .. }) = whole else {
        return ColumnStatistics::new_unknown();
    };
    statistics.distinct_count = match is_constant {
        true => Precision::Inexact(constants.iter().filter(|value| !value.is_null()).count()),
        false => distinct_count(&statistics, files),
    };
    statistics
}

/// Distinct values at most: as many as lie between the bounds, and as many as there are rows.
fn distinct_count(statistics: &ColumnStatistics, files: &[TableFile]) -> Precision<usize> {
    let rows: u64 = files.iter().map(|file| file.file.tail.rows).sum();
    let (Some(min), Some(max)) = (statistics.min_value.get_value(), statistics.max_value.get_value()) else {
        return Precision::Absent;
    };
    let is_counted = min.data_type().is_integer() || matches!(min, ScalarValue::Date32(_));
    let between = match (min, max) {
        (ScalarValue::Boolean(Some(min)), ScalarValue::Boolean(Some(max))) => Some(usize::from(min != max)),
        _ => max.distance(min).filter(|_| is_counted),
    };
    let values = rows as usize
        - statistics
            .null_count
            .get_value()
            .map_or(0, |nulls| (*nulls).min(rows as usize));
    between.map_or(Precision::Absent, |between| {
        Precision::Inexact(between.saturating_add(1).min(values))
    })
}

/// A column in the rows of one or more files.
struct FileColumn {
    statistics: ColumnStatistics,
    /// Whether the rows hold NULL alone, so that there are no bounds.
    is_null: bool,
}

impl FileColumn {
    /// A column of `rows` rows with one value.
    fn constant(value: &ScalarValue, rows: u64, data_type: &DataType) -> Self {
        let is_null = value.is_null();
        // Floating-point zeros of both signs are equal.
        let precision = match data_type.is_floating() {
            true => Precision::Inexact,
            false => Precision::Exact,
        };
        let bound = || {
            if is_null {
                Precision::Absent
            } else {
                precision(value.clone())
            }
        };
        let text = value
            .try_as_str()
            .flatten()
            .map(|text| (text.len() as u64).saturating_mul(rows));
        Self {
            statistics: ColumnStatistics {
                null_count: Precision::Exact(if is_null { rows as usize } else { 0 }),
                min_value: bound(),
                max_value: bound(),
                byte_size: byte_size(data_type, rows, text.or(is_null.then_some(0))),
                ..ColumnStatistics::new_unknown()
            },
            is_null,
        }
    }

    /// A column of a file by the file's statistics.
    ///
    /// Only certain values are exact: no widened timestamp, no truncated string, no FLOAT, and no floating-point zero,
    /// whose sign is unknown.
    fn stored(stored: &Stored, rows: u64, data_type: &DataType, is_converted: bool) -> Self {
        let mut statistics = ColumnStatistics::new_unknown();
        let text = match &stored.typed {
            Some(TypedStatistics::String { total_length, .. }) => *total_length,
            Some(TypedStatistics::Binary { total_length }) => Some(*total_length),
            _ => None,
        };
        statistics.byte_size = byte_size(data_type, rows, text.and_then(|length| u64::try_from(length).ok()));
        match (stored.values, stored.has_null) {
            (Some(values), has_null) if values <= rows && (values < rows) == has_null.unwrap_or(values < rows) => {
                statistics.null_count = Precision::Exact((rows - values) as usize);
            }
            // The writer's claims contradict each other: use none of them.
            (Some(_), _) => {
                return Self {
                    statistics,
                    is_null: false,
                };
            }
            (None, _) => {}
        }
        if let Some((min, max)) = extremes(stored, data_type) {
            let precision = match are_values(stored, data_type, is_converted) {
                true => Precision::Exact,
                false => Precision::Inexact,
            };
            statistics.min_value = precision(min);
            statistics.max_value = precision(max);
        }
        Self {
            statistics,
            is_null: stored.values == Some(0),
        }
    }

    fn merge(self, other: Self) -> Self {
        let (one, two) = (&self.statistics, &other.statistics);
        let (min_value, max_value) = match (self.is_null, other.is_null) {
            (true, _) => (two.min_value.clone(), two.max_value.clone()),
            (_, true) => (one.min_value.clone(), one.max_value.clone()),
            _ => (one.min_value.min(&two.min_value), one.max_value.max(&two.max_value)),
        };
        Self {
            statistics: ColumnStatistics {
                null_count: one.null_count.add(&two.null_count),
                min_value,
                max_value,
                byte_size: one.byte_size.add(&two.byte_size),
                ..ColumnStatistics::new_unknown()
            },
            is_null: self.is_null && other.is_null,
        }
    }
}

/// Bytes of `rows` values in memory, about; `text` is the sum of the lengths of values without a fixed width.
fn byte_size(data_type: &DataType, rows: u64, text: Option<u64>) -> Precision<usize> {
    let rows = rows as usize;
    let bytes = match data_type {
        DataType::Boolean => Some(rows.div_ceil(8)),
        DataType::Utf8 | DataType::Binary => {
            text.map(|length| (length as usize).saturating_add(OFFSET_BYTES.saturating_mul(rows)))
        }
        _ => data_type.primitive_width().map(|width| rows.saturating_mul(width)),
    };
    bytes.map_or(Precision::Absent, Precision::Inexact)
}

/// Whether the stored bounds are values of the column, and not just bounds.
fn are_values(stored: &Stored, data_type: &DataType, is_converted: bool) -> bool {
    match (&stored.typed, data_type) {
        (Some(TypedStatistics::Double { min, max, sum }), DataType::Float64) => {
            sum.is_some_and(|sum| !sum.is_nan()) && *min != 0.0 && *max != 0.0 && !is_converted
        }
        (Some(TypedStatistics::String { exact, .. }), _) => *exact,
        (Some(TypedStatistics::Integer { .. } | TypedStatistics::Date { .. } | TypedStatistics::Decimal { .. }), _) => {
            true
        }
        _ => false,
    }
}
