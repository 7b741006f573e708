//! [`Borders`]: the lines and marks that draw a table, and the drawing of one line.

use console::{Style, measure_text_width, truncate_str};

/// The characters that draw the lines of a table: left end, line, crossing, right end.
pub(crate) struct Borders {
    pub(crate) vertical: &'static str,
    pub(crate) top: Option<[&'static str; 4]>,
    pub(crate) middle: [&'static str; 4],
    pub(crate) bottom: Option<[&'static str; 4]>,
    /// The end of the middle line below a column of numbers, in the place of its last character.
    pub(crate) below_numbers: Option<&'static str>,
}

pub(crate) const LINES: Borders = Borders {
    vertical: "│",
    top: Some(["┌", "─", "┬", "┐"]),
    middle: ["├", "─", "┼", "┤"],
    bottom: Some(["└", "─", "┴", "┘"]),
    below_numbers: None,
};

pub(crate) const ASCII: Borders = Borders {
    vertical: "|",
    top: Some(["+", "-", "+", "+"]),
    middle: ["+", "-", "+", "+"],
    bottom: Some(["+", "-", "+", "+"]),
    below_numbers: None,
};

pub(crate) const MARKDOWN: Borders = Borders {
    vertical: "|",
    top: None,
    middle: ["|", "-", "|", "|"],
    bottom: None,
    below_numbers: Some(":"),
};

/// One cell: its style, whether it is aligned to the right, its text.
pub(crate) type Cell<'a> = (Style, bool, &'a str);

/// Appends a line of cells. `None` of `shown` stands for columns that are left out. `cut`: texts that are wider than
/// their column are cut.
pub(crate) fn line<'a>(
    text: &mut String,
    borders: &Borders,
    cut: bool,
    shown: &[Option<usize>],
    widths: &[usize],
    cell: impl Fn(usize) -> Cell<'a>,
) {
    for column in shown {
        text.push_str(borders.vertical);
        text.push(' ');
        match column {
            Some(column) => {
                let (style, right, value) = cell(*column);
                push_padded(text, value, widths[*column], right, &style, cut);
            }
            None => text.push('…'),
        }
        text.push(' ');
    }
    text.push_str(borders.vertical);
    text.push('\n');
}

/// Appends a line between columns of these widths. `below_numbers` says which end otherwise.
pub(crate) fn rule(
    text: &mut String,
    [left, dash, cross, right]: &[&str; 4],
    widths: &[usize],
    below_numbers: impl Fn(usize) -> Option<&'static str>,
) {
    text.push_str(left);
    for (place, width) in widths.iter().enumerate() {
        if place > 0 {
            text.push_str(cross);
        }
        match below_numbers(place) {
            Some(end) => text.push_str(&format!("{}{end}", dash.repeat(width + 1))),
            None => text.push_str(&dash.repeat(width + 2)),
        }
    }
    text.push_str(right);
    text.push('\n');
}

/// Appends a value, padded to `width` and cut to it if `cut` is set. Values are cut on terminals only.
pub(crate) fn push_padded(text: &mut String, value: &str, width: usize, right: bool, style: &Style, cut: bool) {
    let value = if cut {
        truncate_str(value, width, "…")
    } else {
        value.into()
    };
    let pad = " ".repeat(width.saturating_sub(measure_text_width(&value)));
    if right {
        text.push_str(&pad);
    }
    text.push_str(&style.apply_to(value).to_string());
    if !right {
        text.push_str(&pad);
    }
}
