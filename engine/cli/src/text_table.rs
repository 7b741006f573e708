//! [`TextTable`]: results as aligned text, either as a table or as records with one value per line.
//!
//! Numbers are aligned to the right. If a table is wider than the terminal:
//! 1. cells are cut, first to [`MAX_CELL_COLUMNS`], then to [`NARROW_CELL_COLUMNS`];
//! 2. cut columns get the width that is left;
//! 3. columns in the middle are left out, with a note below the table.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use console::{Style, measure_text_width, truncate_str};

use crate::units;

/// The form in which a table is drawn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableStyle {
    /// Largest number of printed rows; `None`: all.
    pub(crate) max_rows: Option<usize>,
    /// Columns of the terminal; `None` if the output is no terminal.
    pub(crate) width: Option<usize>,
    /// Whether each value gets a line of its own.
    pub(crate) expanded: bool,
}

/// Cells wider than this are cut on a terminal if the table does not fit.
const NARROW_CELL_COLUMNS: usize = 24;
/// Cells wider than this are always cut on a terminal.
const MAX_CELL_COLUMNS: usize = 100;

/// The characters that draw the lines of a table.
struct Borders {
    /// Whether values are cut to their column's width.
    cut: bool,
    vertical: &'static str,
    top: [&'static str; 4],
    middle: [&'static str; 4],
    bottom: [&'static str; 4],
}

const LINES: Borders = Borders {
    cut: true,
    vertical: "│",
    top: ["┌", "─", "┬", "┐"],
    middle: ["├", "─", "┼", "┤"],
    bottom: ["└", "─", "┴", "┘"],
};

const ASCII: Borders = Borders {
    cut: false,
    vertical: "|",
    top: ["+", "-", "+", "+"],
    middle: ["+", "-", "+", "+"],
    bottom: ["+", "-", "+", "+"],
};

/// The texts of the cells, row by row.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    names: Vec<String>,
    numeric: Vec<bool>,
    rows: Vec<Vec<Option<String>>>,
    /// Widths and shown columns, from the first printed part on.
    frame: Option<(Vec<usize>, Vec<Option<usize>>)>,
}

impl TextTable {
    pub(crate) fn new(schema: &Schema) -> Self {
        Self {
            names: schema.fields().iter().map(|field| visible(field.name())).collect(),
            numeric: schema
                .fields()
                .iter()
                .map(|field| is_number(field.data_type()))
                .collect(),
            rows: Vec::new(),
            frame: None,
        }
    }

    /// A table of texts; `numeric` columns are aligned to the right.
    pub(crate) fn of_text(names: &[&str], numeric: &[bool], rows: Vec<Vec<String>>) -> Self {
        Self {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            numeric: numeric.to_vec(),
            rows: rows
                .into_iter()
                .map(|row| row.into_iter().map(Some).collect())
                .collect(),
            frame: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Takes the first `limit` rows of a batch.
    pub(crate) fn push(&mut self, batch: &RecordBatch, limit: usize) -> Result<(), ArrowError> {
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
        for row in 0..batch.num_rows().min(limit) {
            let cells = formatters.iter().map(|(nulls, formatter)| {
                let is_value = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
                is_value.then(|| visible(&formatter.value(row).to_string()))
            });
            self.rows.push(cells.collect());
        }
        Ok(())
    }

    /// The whole table as text.
    pub(crate) fn render(&self, style: TableStyle) -> String {
        self.render_last(style, 0)
    }

    /// Widths and shown columns, in order; `None` stands for the left-out columns.
    fn plan(&self, width: Option<usize>) -> (Vec<usize>, Vec<Option<usize>>) {
        let mut widths: Vec<usize> = self.names.iter().map(|name| measure_text_width(name)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.as_deref().map_or(4, measure_text_width));
            }
        }
        let all = (0..widths.len()).map(Some).collect();
        let Some(terminal) = width else {
            return (widths, all);
        };
        widths
            .iter_mut()
            .for_each(|width| *width = (*width).min(MAX_CELL_COLUMNS));
        let total = |widths: &[usize]| widths.iter().map(|width| width + 3).sum::<usize>() + 1;
        if total(&widths) <= terminal {
            return (widths, all);
        }
        widths
            .iter_mut()
            .for_each(|width| *width = (*width).min(NARROW_CELL_COLUMNS));
        if total(&widths) <= terminal {
            self.widen(&mut widths, terminal);
            return (widths, all);
        }
        let shown = leave_out(&widths, terminal);
        (widths, shown)
    }

    /// Gives the remaining width to the columns that were cut, the leftmost first.
    fn widen(&self, widths: &mut [usize], terminal: usize) {
        let mut rest = terminal - (widths.iter().map(|width| width + 3).sum::<usize>() + 1);
        for (column, width) in widths.iter_mut().enumerate() {
            let cells = self.rows.iter().filter_map(|row| row[column].as_deref());
            let wanted = cells.map(measure_text_width).max().unwrap_or(0).min(MAX_CELL_COLUMNS);
            let more = wanted.saturating_sub(*width).min(rest);
            *width += more;
            rest -= more;
        }
    }

    /// Prints and drops the rows held so far, of a table whose end is not known yet.
    pub(crate) fn render_part(&mut self, style: TableStyle, printed: &mut usize) -> String {
        if self.frame.is_none() {
            self.frame = Some(self.plan(style.width));
        }
        let mut text = String::new();
        self.body(&mut text, style, *printed);
        *printed += self.rows.len();
        self.rows.clear();
        text
    }

    /// Prints the held rows and the table's end.
    pub(crate) fn render_last(&self, style: TableStyle, printed: usize) -> String {
        let mut text = String::new();
        self.body(&mut text, style, printed);
        if style.expanded {
            return text;
        }
        let (widths, shown) = self.frame.clone().unwrap_or_else(|| self.plan(style.width));
        rule(&mut text, &borders(style).bottom, &shown_widths(&widths, &shown));
        if shown.contains(&None) {
            let count = shown.iter().flatten().count();
            text.push_str(&format!("({count} of {} columns shown; \\x shows all)\n", widths.len()));
        }
        text
    }

    /// The held rows, after the table's head if these rows are the first.
    fn body(&self, text: &mut String, style: TableStyle, printed: usize) {
        if style.expanded {
            return self.records(text, style, printed);
        }
        let (widths, shown) = self.frame.clone().unwrap_or_else(|| self.plan(style.width));
        let borders = borders(style);
        if printed == 0 {
            let bold = Style::new().bold();
            rule(text, &borders.top, &shown_widths(&widths, &shown));
            line(text, borders, &shown, &widths, |column| {
                (bold.clone(), self.numeric[column], self.names[column].as_str())
            });
            rule(text, &borders.middle, &shown_widths(&widths, &shown));
        }
        for row in &self.rows {
            line(text, borders, &shown, &widths, |column| match &row[column] {
                Some(cell) => (Style::new(), self.numeric[column], cell.as_str()),
                None => (Style::new().dim(), self.numeric[column], "NULL"),
            });
        }
    }

    fn records(&self, text: &mut String, style: TableStyle, printed: usize) {
        let names = self
            .names
            .iter()
            .map(|name| measure_text_width(name))
            .max()
            .unwrap_or(0);
        let (dash, bar) = if style.width.is_some() {
            ("─", "│")
        } else {
            ("-", "|")
        };
        for (number, row) in self.rows.iter().enumerate() {
            let title = format!("{dash}[ row {} ]", printed + number + 1);
            text.push_str(&title);
            text.push_str(&dash.repeat((names + 20).saturating_sub(title.chars().count())));
            text.push('\n');
            for (name, cell) in self.names.iter().zip(row) {
                push_padded(text, name, names, false, &Style::new().bold(), false);
                text.push_str(&format!(" {bar} "));
                match cell {
                    Some(cell) => text.push_str(cell),
                    None => text.push_str(&Style::new().dim().apply_to("NULL").to_string()),
                }
                text.push('\n');
            }
        }
    }
}

fn borders(style: TableStyle) -> &'static Borders {
    if style.width.is_some() { &LINES } else { &ASCII }
}

fn shown_widths(widths: &[usize], shown: &[Option<usize>]) -> Vec<usize> {
    shown
        .iter()
        .map(|column| column.map_or(1, |column| widths[column]))
        .collect()
}

fn line<'a>(
    text: &mut String,
    borders: &Borders,
    shown: &[Option<usize>],
    widths: &[usize],
    cell: impl Fn(usize) -> (Style, bool, &'a str),
) {
    for column in shown {
        text.push_str(borders.vertical);
        text.push(' ');
        match column {
            Some(column) => {
                let (style, right, value) = cell(*column);
                push_padded(text, value, widths[*column], right, &style, borders.cut);
            }
            None => text.push('…'),
        }
        text.push(' ');
    }
    text.push_str(borders.vertical);
    text.push('\n');
}

/// The column numbers that fit into `terminal`: the first and the last columns. The middle is left out.
fn leave_out(widths: &[usize], terminal: usize) -> Vec<Option<usize>> {
    let (mut left, mut right) = (0, widths.len());
    let mut rest = terminal.saturating_sub(1 + 4);
    while left < right {
        let next = if left <= widths.len() - right { left } else { right - 1 };
        if widths[next] + 3 > rest && left > 0 {
            break;
        }
        rest = rest.saturating_sub(widths[next] + 3);
        if next == left { left += 1 } else { right -= 1 }
    }
    let mut shown: Vec<Option<usize>> = (0..left).map(Some).collect();
    if left < right {
        shown.push(None);
    }
    shown.extend((right..widths.len()).map(Some));
    shown
}

fn rule(text: &mut String, [left, dash, cross, right]: &[&str; 4], widths: &[usize]) {
    text.push_str(left);
    for (place, width) in widths.iter().enumerate() {
        if place > 0 {
            text.push_str(cross);
        }
        text.push_str(&dash.repeat(width + 2));
    }
    text.push_str(right);
    text.push('\n');
}

/// Appends a value, padded to `width` and cut to it if `cut` is set. Values are cut on terminals only.
fn push_padded(text: &mut String, value: &str, width: usize, right: bool, style: &Style, cut: bool) {
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

/// Words in columns, top to bottom.
pub(crate) fn words_in_columns(words: &[String], width: usize) -> String {
    let widest = words.iter().map(|word| word.len()).max().unwrap_or(0) + 2;
    let columns = (width / widest.max(1)).max(1);
    let lines = words.len().div_ceil(columns);
    let mut text = String::new();
    for line in 0..lines {
        let cells = words
            .iter()
            .skip(line)
            .step_by(lines.max(1))
            .map(|word| format!("{word:<widest$}"));
        text.push_str(cells.collect::<String>().trim_end());
        text.push('\n');
    }
    text
}

/// The text with control characters made visible, so that no value can garble a terminal.
fn visible(text: &str) -> String {
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

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// The format of values for people.
pub(crate) fn format_options() -> FormatOptions<'static> {
    FormatOptions::new()
        .with_null("NULL")
        .with_display_error(true)
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"))
}

/// The note below a table that was cut after `shown` rows.
pub(crate) fn more_note(shown: u64, more: MoreRows) -> String {
    let advice = "--max-rows or \\maxrows shows more";
    let shown = units::count(shown);
    match more {
        MoreRows::None => String::new(),
        MoreRows::Rows(rows) => format!("… {} ({shown} shown; {advice})\n", units::counted(rows, "more row")),
        MoreRows::AtLeast(rows) => format!(
            "… over {} (stopped after {shown}; {advice})\n",
            units::counted(rows, "more row")
        ),
    }
}

/// The number of rows that a result has beyond the printed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MoreRows {
    None,
    Rows(u64),
    /// The query was stopped before its end.
    AtLeast(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> TextTable {
        let row = |a: &str, b: Option<&str>| vec![Some(a.to_owned()), b.map(str::to_owned)];
        TextTable {
            names: vec!["miles".into(), "zone".into()],
            numeric: vec![true, false],
            rows: vec![row("30.5", Some("Newark")), row("120", None)],
            frame: None,
        }
    }

    #[test]
    fn numbers_are_aligned_to_the_right() {
        insta::assert_snapshot!(cells().render(TableStyle::default()), @r"
        +-------+--------+
        | miles | zone   |
        +-------+--------+
        |  30.5 | Newark |
        |   120 | NULL   |
        +-------+--------+
        ");
    }

    #[test]
    fn columns_that_do_not_fit_are_left_out_with_a_note() {
        let style = TableStyle {
            width: Some(17),
            ..TableStyle::default()
        };
        insta::assert_snapshot!(cells().render(style), @r"
        ┌───────┬───┐
        │ miles │ … │
        ├───────┼───┤
        │  30.5 │ … │
        │   120 │ … │
        └───────┴───┘
        (1 of 2 columns shown; \x shows all)
        ");
    }

    #[test]
    fn records_have_a_line_for_each_value() {
        let style = TableStyle {
            expanded: true,
            ..TableStyle::default()
        };
        insta::assert_snapshot!(cells().render(style), @r"
        -[ row 1 ]---------------
        miles | 30.5
        zone  | Newark
        -[ row 2 ]---------------
        miles | 120
        zone  | NULL
        ");
    }

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(visible("a\nb\t\u{1b}[31m"), "a\\nb\\t\\u{1b}[31m");
    }

    #[test]
    fn words_fill_columns_top_to_bottom() {
        let words: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!(words_in_columns(&words, 6), "a  d\nb  e\nc\n");
        assert_eq!(words_in_columns(&[], 80), "");
    }
}
