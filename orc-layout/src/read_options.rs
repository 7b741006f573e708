//! [`ReadOptions`]: how stored values become Arrow values where ORC leaves a choice.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};

/// How stored values become Arrow values where ORC leaves a choice. The default is nanoseconds, an error, expanded
/// dictionaries and CHAR values without trailing blanks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Unit of TIMESTAMP and TIMESTAMP_INSTANT values.
    pub timestamp_unit: TimestampUnit,
    /// Treatment of strings that are not UTF-8.
    pub invalid_utf8: InvalidUtf8,
    /// Type of a top-level STRING, CHAR or VARCHAR column that a stripe stores with a dictionary.
    pub dictionaries: Dictionaries,
    /// Trailing blanks of CHAR values.
    pub char_padding: CharPadding,
}

impl ReadOptions {
    /// The default options.
    pub const fn new() -> Self {
        Self {
            timestamp_unit: TimestampUnit::Nanosecond,
            invalid_utf8: InvalidUtf8::Error,
            dictionaries: Dictionaries::Expand,
            char_padding: CharPadding::Removed,
        }
    }

    /// The same with a unit of timestamps.
    pub const fn with_timestamp_unit(self, timestamp_unit: TimestampUnit) -> Self {
        Self { timestamp_unit, ..self }
    }

    /// The same with a treatment of strings that are not UTF-8.
    pub const fn with_invalid_utf8(self, invalid_utf8: InvalidUtf8) -> Self {
        Self { invalid_utf8, ..self }
    }

    /// The same with a type of dictionary-encoded strings.
    pub const fn with_dictionaries(self, dictionaries: Dictionaries) -> Self {
        Self { dictionaries, ..self }
    }

    /// The same with a treatment of the blanks of CHAR values.
    pub const fn with_char_padding(self, char_padding: CharPadding) -> Self {
        Self { char_padding, ..self }
    }
}

/// Trailing blanks of CHAR values. Writers fill a value with blanks up to the type's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum CharPadding {
    /// Values without their trailing blanks, as SQL compares them.
    #[default]
    Removed,
    /// Values as they are stored.
    Kept,
}

/// Type of a string column that a stripe stores with a dictionary. Other stripes of the file may store it without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Dictionaries {
    /// `Utf8`, as of every other string column.
    #[default]
    Expand,
    /// `Dictionary(UInt32, Utf8)` with the stored entries, which may repeat and need not all occur. Columns inside of
    /// others are expanded.
    Keep,
}

/// Unit of timestamps in Arrow arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub enum TimestampUnit {
    /// 64-bit nanoseconds: the years 1677 to 2262.
    #[default]
    Nanosecond,
    /// 64-bit microseconds: any year of a calendar. Fractions of a microsecond are cut off, towards the past.
    Microsecond,
}

/// Treatment of STRING, CHAR and VARCHAR values whose bytes are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum InvalidUtf8 {
    /// An error that names file and column.
    #[default]
    Error,
    /// U+FFFD for each invalid sequence of bytes, as Java's `Text` and Rust's `String::from_utf8_lossy` do.
    Replace,
}

impl TimestampUnit {
    /// `data_type` with timestamps of this unit, at any depth.
    pub fn apply(self, data_type: &DataType) -> DataType {
        let field = |field: &FieldRef| -> FieldRef {
            let data_type = self.apply(field.data_type());
            match data_type == *field.data_type() {
                true => Arc::clone(field),
                false => Arc::new(Field::clone(field).with_data_type(data_type)),
            }
        };
        match data_type {
            DataType::Timestamp(_, zone) => DataType::Timestamp(self.arrow(), zone.clone()),
            DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
            DataType::List(item) => DataType::List(field(item)),
            DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
            DataType::Union(variants, mode) => {
                let variants = variants.iter().map(|(id, variant)| (id, field(variant)));
                DataType::Union(variants.collect(), *mode)
            }
            other => other.clone(),
        }
    }

    /// The unit of the timestamps in `data_type`, at any depth: microseconds if one has microseconds.
    pub fn of(data_type: &DataType) -> Self {
        let of_field = |field: &FieldRef| Self::of(field.data_type());
        match data_type {
            DataType::Timestamp(TimeUnit::Microsecond, _) => Self::Microsecond,
            DataType::Struct(fields) => fields.iter().map(of_field).max().unwrap_or_default(),
            DataType::List(field) | DataType::Map(field, _) => of_field(field),
            DataType::Union(variants, _) => variants.iter().map(|(_, f)| of_field(f)).max().unwrap_or_default(),
            _ => Self::Nanosecond,
        }
    }

    /// Arrow's unit.
    pub fn arrow(self) -> TimeUnit {
        match self {
            Self::Nanosecond => TimeUnit::Nanosecond,
            Self::Microsecond => TimeUnit::Microsecond,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_reach_every_depth_of_a_type() {
        let nanoseconds = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let fields = |inner: &DataType| -> DataType {
            let list = DataType::new_list(inner.clone(), true);
            DataType::Struct(vec![Field::new("a", DataType::Int8, true), Field::new("b", list, true)].into())
        };
        let before = fields(&nanoseconds);
        let after = TimestampUnit::Microsecond.apply(&before);
        assert_eq!(
            after,
            fields(&DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))
        );
        assert_eq!(TimestampUnit::of(&before), TimestampUnit::Nanosecond);
        assert_eq!(TimestampUnit::of(&after), TimestampUnit::Microsecond);
        assert_eq!(TimestampUnit::Nanosecond.apply(&after), before);
    }
}
