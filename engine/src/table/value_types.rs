//! The types of a table's columns where the values of all files decide: the unit of timestamps, and CHAR.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use grampus_orc_layout::read_options::TimestampUnit;
use grampus_orc_layout::schema::{ColumnId, TypeKind};
use grampus_orc_layout::tail::FileTail;

use super::files::ColumnMap;
use crate::config::TimestampUnit as Setting;

/// The key of a field's metadata that marks a column as CHAR in all files. Such values have no trailing blanks, so
/// literals that are compared with them lose theirs.
pub(crate) const CHAR_KEY: &str = "grampus.char";

/// `schema` with timestamps of the unit that `setting` asks for, and with marks of CHAR columns. By [`Setting::Auto`] a
/// column has microseconds if the statistics of one of the files tell that a value does not fit nanoseconds.
///
/// `files` gives each file's tail and its columns by column of the table.
pub(crate) fn resolve<'a>(
    schema: &SchemaRef,
    files: impl Iterator<Item = (&'a FileTail, Arc<ColumnMap>)>,
    setting: Setting,
) -> SchemaRef {
    let mut found = vec![Found::default(); schema.fields().len()];
    for (tail, columns) in files {
        for (found, column) in found.iter_mut().zip(&columns.0) {
            column.iter().for_each(|column| found.add(tail, column.id));
        }
    }
    let fields: Vec<FieldRef> = schema
        .fields()
        .iter()
        .zip(&found)
        .map(|(f, found)| found.field(f, setting))
        .collect();
    Arc::new(Schema::new(fields))
}

/// `data_type`, the type of a file's column, with the timestamps that the table's column has.
pub(crate) fn read_as(data_type: &DataType, table: &DataType) -> DataType {
    TimestampUnit::of(table).apply(data_type)
}

/// The findings about a column of the table in all files.
#[derive(Debug, Clone, Default)]
struct Found {
    unit: TimestampUnit,
    is_char: bool,
    is_other: bool,
}

impl Found {
    fn add(&mut self, tail: &FileTail, column: ColumnId) {
        self.unit = self.unit.max(tail.timestamp_unit(column).unwrap_or_default());
        match tail.schema.column(column).kind {
            TypeKind::Char { .. } => self.is_char = true,
            _ => self.is_other = true,
        }
    }

    fn field(&self, field: &FieldRef, setting: Setting) -> FieldRef {
        let unit = match setting {
            Setting::Auto => self.unit,
            Setting::Ns => TimestampUnit::Nanosecond,
            Setting::Us => TimestampUnit::Microsecond,
        };
        let mut resolved = Field::clone(field).with_data_type(unit.apply(field.data_type()));
        if self.is_char && !self.is_other {
            resolved.metadata_mut().insert(CHAR_KEY.to_owned(), "true".to_owned());
        }
        Arc::new(resolved)
    }
}
