//! Rows of which each value has a line of its own: records as `\x` prints them, and lines `name = value`.

use console::{Style, measure_text_width};

use crate::table_borders::push_padded;

/// Appends records, each below a line with its number. `first` rows were printed before; `fine`: the output is a
/// terminal.
pub(crate) fn records(text: &mut String, names: &[String], rows: &[Vec<Option<String>>], first: usize, fine: bool) {
    let width = width(names);
    let (dash, bar) = if fine { ("─", "│") } else { ("-", "|") };
    for (number, row) in rows.iter().enumerate() {
        let title = format!("{dash}[ row {} ]", first + number + 1);
        text.push_str(&title);
        text.push_str(&dash.repeat((width + 20).saturating_sub(title.chars().count())));
        text.push('\n');
        for (name, cell) in names.iter().zip(row) {
            push_padded(text, name, width, false, &Style::new().bold(), false);
            text.push_str(&format!(" {bar} "));
            push_value(text, cell.as_deref());
        }
    }
}

/// Appends lines `name = value`, with an empty line between rows. `first` rows were printed before.
pub(crate) fn lines(text: &mut String, names: &[String], rows: &[Vec<Option<String>>], first: usize) {
    let width = width(names);
    for (number, row) in rows.iter().enumerate() {
        if first + number > 0 {
            text.push('\n');
        }
        for (name, cell) in names.iter().zip(row) {
            push_padded(text, name, width, true, &Style::new().bold(), false);
            text.push_str(" = ");
            push_value(text, cell.as_deref());
        }
    }
}

fn width(names: &[String]) -> usize {
    names.iter().map(|name| measure_text_width(name)).max().unwrap_or(0)
}

fn push_value(text: &mut String, cell: Option<&str>) {
    match cell {
        Some(cell) => text.push_str(cell),
        None => text.push_str(&Style::new().dim().apply_to("NULL").to_string()),
    }
    text.push('\n');
}
