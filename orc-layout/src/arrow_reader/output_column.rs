//! [`OutputColumn`], one column of a reader: the options under which it is decoded, and the field that it becomes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef};

use super::options::{ArrowReaderOptions, StringType};
use crate::error::{LayoutError, Result};
use crate::read_options::{Dictionaries, ReadOptions, TimestampUnit};
use crate::schema::{ColumnId, OrcType, TypeKind};
use crate::tail::FileTail;
use crate::text_type::TEXT_TYPE_KEY;

/// A column of the root struct, as a reader returns it.
#[derive(Debug, Clone)]
pub(super) struct OutputColumn {
    /// ORC column id.
    pub(super) id: ColumnId,
    /// Options of the decoder.
    pub(super) options: ReadOptions,
    /// The field of the reader's schema.
    pub(super) field: FieldRef,
}

impl OutputColumn {
    /// The column at `position` of the root struct.
    ///
    /// # Errors
    /// `InvalidRequest` if the options ask for a type that the column cannot have.
    pub(super) fn new(tail: &FileTail, position: usize, options: &ArrowReaderOptions) -> Result<Self> {
        let id = tail.schema.fields()[position];
        let stored = &tail.schema.arrow.fields()[position];
        let wanted = options.schema.as_ref().map(|schema| &schema.fields()[position]);
        let unit = match wanted {
            Some(field) => TimestampUnit::of(field.data_type()),
            None => options
                .timestamp_unit
                .or_else(|| tail.timestamp_unit(id))
                .unwrap_or_default(),
        };
        let decoded = unit.apply(stored.data_type());
        let field = match wanted {
            Some(field) => Arc::clone(field),
            None => {
                let field = Field::clone(stored).with_data_type(type_of(&decoded, options, true));
                Arc::new(field.with_metadata(field_metadata(tail.schema.column(id))))
            }
        };
        if field.name() != stored.name() {
            let reason = format!(
                "the schema has a column {} where the file has {}",
                field.name(),
                stored.name()
            );
            return Err(LayoutError::invalid_request(&tail.file, reason));
        }
        let is_same = decoded == *field.data_type();
        if !is_same && !can_cast_types(&decoded, field.data_type()) {
            let reason = format!(
                "column {} is {decoded}, which does not become {}",
                field.name(),
                field.data_type()
            );
            return Err(LayoutError::invalid_request(&tail.file, reason));
        }
        let keeps = matches!(field.data_type(), DataType::Dictionary(key, value)
            if **key == DataType::UInt32 && **value == DataType::Utf8);
        let dictionaries = match keeps && decoded == DataType::Utf8 {
            true => Dictionaries::Keep,
            false => Dictionaries::Expand,
        };
        let options = ReadOptions::new()
            .with_timestamp_unit(unit)
            .with_invalid_utf8(options.invalid_utf8)
            .with_char_padding(options.char_padding)
            .with_dictionaries(dictionaries);
        Ok(Self { id, options, field })
    }

    /// A decoded array as the field's type.
    ///
    /// # Errors
    /// `OutOfRange` for a value that the type cannot hold.
    pub(super) fn convert(&self, tail: &FileTail, array: ArrayRef) -> Result<ArrayRef> {
        if array.data_type() == self.field.data_type() {
            return Ok(array);
        }
        let strict = CastOptions {
            safe: false,
            ..CastOptions::default()
        };
        cast_with_options(&array, self.field.data_type(), &strict).map_err(|error| LayoutError::OutOfRange {
            file: tail.file.clone(),
            column: self.field.name().clone(),
            reason: error.to_string(),
        })
    }
}

/// The attributes of a type, and the type of text: the writer makes the same type of them.
fn field_metadata(column: &OrcType) -> HashMap<String, String> {
    let mut metadata: HashMap<String, String> = column.attributes.iter().cloned().collect();
    if matches!(column.kind, TypeKind::Char { .. } | TypeKind::Varchar { .. }) {
        metadata.insert(TEXT_TYPE_KEY.to_owned(), column.kind.to_string());
    }
    metadata
}

/// The type in which a column of type `decoded` is returned. Unions stay as they are: Arrow casts none.
fn type_of(decoded: &DataType, options: &ArrowReaderOptions, is_root: bool) -> DataType {
    let child = |field: &FieldRef| -> FieldRef {
        let data_type = type_of(field.data_type(), options, false);
        Arc::new(Field::clone(field).with_data_type(data_type))
    };
    match decoded {
        DataType::Utf8 => match options.string_type {
            StringType::Utf8View => DataType::Utf8View,
            StringType::Dictionary if is_root => {
                DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
            }
            StringType::Dictionary | StringType::Utf8 => DataType::Utf8,
        },
        DataType::Timestamp(unit, Some(zone)) => {
            DataType::Timestamp(*unit, Some(options.zone.as_ref().unwrap_or(zone).clone()))
        }
        DataType::Struct(fields) if !has_union(decoded) => DataType::Struct(fields.iter().map(child).collect()),
        DataType::List(item) if !has_union(decoded) => DataType::List(child(item)),
        DataType::Map(entries, sorted) if !has_union(decoded) => DataType::Map(child(entries), *sorted),
        other => other.clone(),
    }
}

fn has_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_union(field.data_type())),
        DataType::List(field) | DataType::Map(field, _) => has_union(field.data_type()),
        _ => false,
    }
}
