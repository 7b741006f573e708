//! The texts of values: for people, and within Markdown.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// The format of values for people.
pub(crate) fn format_options() -> FormatOptions<'static> {
    FormatOptions::new()
        .with_null("NULL")
        .with_display_error(true)
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
}

/// The values of the first `limit` rows of a batch, row by row; NULL is `None`. `escape` makes a text safe to print.
pub(crate) fn cells(
    batch: &RecordBatch,
    limit: usize,
    escape: impl Fn(&str) -> String,
) -> Result<Vec<Vec<Option<String>>>, ArrowError> {
    let options = format_options();
    let formatters = batch
        .columns()
        .iter()
        .map(|column| {
            Ok((
                column.logical_nulls(),
                ArrayFormatter::try_new(column.as_ref(), &options)?,
            ))
        })
        .collect::<Result<Vec<_>, ArrowError>>()?;
    let row = |row| {
        let cells = formatters.iter().map(|(nulls, formatter)| {
            let is_value = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            is_value.then(|| escape(&formatter.value(row).to_string()))
        });
        cells.collect()
    };
    Ok((0..batch.num_rows().min(limit)).map(row).collect())
}

/// The text with control characters made visible, so that no value can garble a terminal.
pub(crate) fn visible(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let mut result = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            c if c.is_control() => result.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => result.push(c),
        }
    }
    result
}

/// The text as a cell of a Markdown table, which ends at `|` and at the line's end. A backslash before a mark would
/// escape the mark.
pub(crate) fn markdown(text: &str) -> String {
    let mut result = String::with_capacity(text.len() + 8);
    let text = text.replace("\r\n", "\n");
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '|' => result.push_str("\\|"),
            '\n' | '\r' => result.push_str("<br>"),
            '\t' => result.push(' '),
            '\\' if rest.peek().is_some_and(char::is_ascii_punctuation) => result.push_str("\\\\"),
            c if c.is_control() => result.push_str(&visible(&c.to_string())),
            c => result.push(c),
        }
    }
    result
}

/// Whether values are aligned to the right.
pub(crate) fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(visible("a\nb\t\u{1b}[31m"), "a\\nb\\t\\u{1b}[31m");
    }

    #[test]
    fn markdown_cells_end_neither_at_marks_nor_at_lines() {
        for (text, cell) in [
            ("a|b", r"a\|b"),
            (r"a\|b", r"a\\\|b"),
            (r"C:\dir", r"C:\dir"),
            (r"\\", r"\\\"),
            ("a\r\nb\nc", "a<br>b<br>c"),
            ("a\tb\u{1b}", "a b\\u{1b}"),
        ] {
            assert_eq!(markdown(text), cell, "{text:?}");
        }
    }
}
