//! Comma- and tab-separated values, with PostgreSQL's rule for NULL: NULL is a field of nothing, and the empty text
//! is a field of two quotation marks. `grampus convert` reads both back as they were.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::cell_text::format_options;

/// The line of names.
pub(crate) fn header(schema: &Schema, delimiter: u8) -> String {
    let mut text = String::new();
    for (place, field) in schema.fields().iter().enumerate() {
        start_field(&mut text, place, delimiter);
        push_field(&mut text, field.name(), delimiter);
    }
    text.push('\n');
    text
}

/// The rows of a batch. Nested values are text.
pub(crate) fn rows(batch: &RecordBatch, delimiter: u8) -> Result<String, ArrowError> {
    let plain = FormatOptions::default().with_display_error(false);
    let nested = format_options().with_display_error(false);
    let formatters = batch.columns().iter().map(|column| {
        let options = if column.data_type().is_nested() {
            &nested
        } else {
            &plain
        };
        // The nulls of an array that has no values, or whose values are elsewhere, are no buffer of its own.
        Ok((
            column.logical_nulls(),
            ArrayFormatter::try_new(column.as_ref(), options)?,
        ))
    });
    let formatters = formatters.collect::<Result<Vec<_>, ArrowError>>()?;
    let mut text = String::new();
    let mut field = String::new();
    for row in 0..batch.num_rows() {
        for (place, (nulls, formatter)) in formatters.iter().enumerate() {
            start_field(&mut text, place, delimiter);
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                field.clear();
                formatter.value(row).write(&mut field)?;
                push_field(&mut text, &field, delimiter);
            }
        }
        text.push('\n');
    }
    Ok(text)
}

fn start_field(text: &mut String, place: usize, delimiter: u8) {
    if place > 0 {
        text.push(char::from(delimiter));
    }
}

/// Appends a value, in quotation marks if it is empty or holds a character with a meaning.
fn push_field(text: &mut String, field: &str, delimiter: u8) {
    let has_meaning = |byte: u8| matches!(byte, b'"' | b'\n' | b'\r') || byte == delimiter;
    if !field.is_empty() && !field.bytes().any(has_meaning) {
        return text.push_str(field);
    }
    text.push('"');
    for (place, part) in field.split('"').enumerate() {
        if place > 0 {
            text.push_str("\"\"");
        }
        text.push_str(part);
    }
    text.push('"');
}
