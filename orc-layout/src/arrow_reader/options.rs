//! [`ArrowReaderOptions`], the Arrow types in which a reader returns the columns of a file.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::read_options::{CharPadding, InvalidUtf8, TimestampUnit};

/// Arrow type of STRING, CHAR and VARCHAR columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StringType {
    /// `Utf8`.
    #[default]
    Utf8,
    /// `Utf8View`, at any depth outside of unions.
    Utf8View,
    /// `Dictionary(UInt32, Utf8)` for columns of the root struct. Where a stripe stores a dictionary, its entries are
    /// taken over; they need not all occur.
    Dictionary,
}

/// The Arrow types in which a reader returns columns, and the treatment of values without a place in them.
#[derive(Debug, Clone, Default)]
pub struct ArrowReaderOptions {
    pub(super) timestamp_unit: Option<TimestampUnit>,
    pub(super) string_type: StringType,
    pub(super) char_padding: CharPadding,
    pub(super) invalid_utf8: InvalidUtf8,
    pub(super) zone: Option<Arc<str>>,
    pub(super) schema: Option<SchemaRef>,
}

impl ArrowReaderOptions {
    /// The default: `Utf8` strings, CHAR without trailing blanks, instants in UTC, an error for text that is not UTF-8.
    /// Timestamps have nanoseconds, or microseconds in a column whose statistics tell that a value does not fit.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the unit of all timestamps.
    pub fn with_timestamp_unit(self, unit: TimestampUnit) -> Self {
        Self {
            timestamp_unit: Some(unit),
            ..self
        }
    }

    /// Sets the type of strings.
    pub fn with_string_type(self, string_type: StringType) -> Self {
        Self { string_type, ..self }
    }

    /// Sets the treatment of the blanks that fill CHAR values.
    pub fn with_char_padding(self, char_padding: CharPadding) -> Self {
        Self { char_padding, ..self }
    }

    /// Sets the treatment of strings that are not UTF-8.
    pub fn with_invalid_utf8(self, invalid_utf8: InvalidUtf8) -> Self {
        Self { invalid_utf8, ..self }
    }

    /// Sets the zone of TIMESTAMP_INSTANT columns: an IANA name ("Europe/Berlin") or an offset ("+02:00"). The instants
    /// stay the same. TIMESTAMP columns have no zone.
    pub fn with_zone(self, zone: impl Into<Arc<str>>) -> Self {
        Self {
            zone: Some(zone.into()),
            ..self
        }
    }

    /// Sets the whole schema: a field for each column of the root struct, with its name, in the file's order. Columns
    /// are cast to the fields' types; a value that does not fit is an error. The unit, the string type and the zone
    /// follow from the schema.
    pub fn with_schema(self, schema: SchemaRef) -> Self {
        Self {
            schema: Some(schema),
            ..self
        }
    }
}
