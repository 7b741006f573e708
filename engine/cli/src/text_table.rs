//! [`TextTable`]: results as aligned text, as a table or with one value per line.
//!
//! Numbers are aligned to the right. If a table is wider than the terminal:
//! 1. cells are cut, first to [`MAX_CELL_COLUMNS`], then to [`NARROW_CELL_COLUMNS`];
//! 2. cut columns get the width that is left;
//! 3. columns in the middle are left out, with a note below the table.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use console::{Style, measure_text_width};
use grampus::sql_type_name;

use crate::cell_text::{cells, is_number, markdown, visible};
use crate::table_borders::{ASCII, Borders, LINES, MARKDOWN, line, rule};
use crate::text_records::{lines, records};
use crate::units;

/// The form in which a table is drawn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableStyle {
    /// Largest number of printed rows; `None`: all.
    pub(crate) max_rows: Option<usize>,
    /// Columns of the terminal; `None` if the output is no terminal.
    pub(crate) width: Option<usize>,
    pub(crate) form: TableForm,
    /// Whether the columns' types stand below their names.
    pub(crate) types: bool,
    /// Whether cells of Markdown are padded to no width.
    pub(crate) is_compact: bool,
}

/// What is drawn around the values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TableForm {
    /// Lines on a terminal, and ASCII elsewhere.
    #[default]
    Grid,
    /// Lines everywhere.
    Box,
    /// A table of Markdown. It is never cut.
    Markdown,
    /// Each value on a line of its own, below a line with the row's number.
    Records,
    /// Lines `name = value`.
    Lines,
}

/// Cells wider than this are cut on a terminal if the table does not fit.
const NARROW_CELL_COLUMNS: usize = 24;
/// Cells wider than this are always cut on a terminal.
const MAX_CELL_COLUMNS: usize = 100;

/// The texts of the cells, row by row.
#[derive(Debug)]
pub(crate) struct TextTable {
    names: Vec<String>,
    /// The types of the columns in SQL; empty: they are not shown.
    types: Vec<String>,
    numeric: Vec<bool>,
    rows: Vec<Vec<Option<String>>>,
    /// What makes a text safe to print.
    escape: fn(&str) -> String,
    /// Widths and shown columns, from the first printed part on.
    frame: Option<(Vec<usize>, Vec<Option<usize>>)>,
}

impl TextTable {
    /// An empty table with the columns of `schema`.
    pub(crate) fn new(schema: &Schema, style: TableStyle) -> Self {
        let has_types = style.types && matches!(style.form, TableForm::Grid | TableForm::Box);
        let escape = match style.form {
            TableForm::Markdown => markdown,
            _ => visible,
        };
        Self {
            names: schema.fields().iter().map(|field| escape(field.name())).collect(),
            types: schema
                .fields()
                .iter()
                .filter(|_| has_types)
                .map(|field| visible(&sql_type_name(field.data_type())))
                .collect(),
            numeric: schema
                .fields()
                .iter()
                .map(|field| is_number(field.data_type()))
                .collect(),
            rows: Vec::new(),
            escape,
            frame: None,
        }
    }

    /// A table of texts; `numeric` columns are aligned to the right.
    pub(crate) fn of_text(names: &[&str], numeric: &[bool], rows: Vec<Vec<String>>) -> Self {
        Self {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            types: Vec::new(),
            numeric: numeric.to_vec(),
            rows: rows
                .into_iter()
                .map(|row| row.into_iter().map(Some).collect())
                .collect(),
            escape: visible,
            frame: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Takes the first `limit` rows of a batch.
    pub(crate) fn push(&mut self, batch: &RecordBatch, limit: usize) -> Result<(), ArrowError> {
        self.rows.extend(cells(batch, limit, self.escape)?);
        Ok(())
    }

    /// The whole table as text.
    pub(crate) fn render(&self, style: TableStyle) -> String {
        self.render_last(style, 0)
    }

    /// Widths and shown columns, in order; `None` stands for the left-out columns.
    fn plan(&self, style: TableStyle) -> (Vec<usize>, Vec<Option<usize>>) {
        if style.is_compact && style.form == TableForm::Markdown {
            return (vec![1; self.names.len()], (0..self.names.len()).map(Some).collect());
        }
        let mut widths: Vec<usize> = self.names.iter().map(|name| measure_text_width(name)).collect();
        for (width, name) in widths.iter_mut().zip(&self.types) {
            *width = (*width).max(measure_text_width(name));
        }
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.as_deref().map_or(4, measure_text_width));
            }
        }
        let all = (0..widths.len()).map(Some).collect();
        let Some(terminal) = style.width.filter(|_| style.form != TableForm::Markdown) else {
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
            self.frame = Some(self.plan(style));
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
        if is_by_line(style.form) {
            return text;
        }
        let (widths, shown) = self.frame.clone().unwrap_or_else(|| self.plan(style));
        if let Some(bottom) = &borders(style).bottom {
            rule(&mut text, bottom, &shown_widths(&widths, &shown), |_| None);
        }
        if shown.contains(&None) {
            let count = shown.iter().flatten().count();
            text.push_str(&format!("({count} of {} columns shown; \\x shows all)\n", widths.len()));
        }
        text
    }

    /// The held rows, after the table's head if these rows are the first.
    fn body(&self, text: &mut String, style: TableStyle, printed: usize) {
        match style.form {
            TableForm::Records => return records(text, &self.names, &self.rows, printed, style.width.is_some()),
            TableForm::Lines => return lines(text, &self.names, &self.rows, printed),
            TableForm::Grid | TableForm::Box | TableForm::Markdown => {}
        }
        let (widths, shown) = self.frame.clone().unwrap_or_else(|| self.plan(style));
        let borders = borders(style);
        let cut = style.width.is_some() && style.form != TableForm::Markdown;
        if printed == 0 {
            self.head(text, borders, cut, &widths, &shown);
        }
        for row in &self.rows {
            line(text, borders, cut, &shown, &widths, |column| match &row[column] {
                Some(cell) => (Style::new(), self.numeric[column], cell.as_str()),
                None => (Style::new().dim(), self.numeric[column], "NULL"),
            });
        }
    }

    /// The names, and the types if they are shown, between two lines.
    fn head(&self, text: &mut String, borders: &Borders, cut: bool, widths: &[usize], shown: &[Option<usize>]) {
        let bold = Style::new().bold();
        let shown_widths = shown_widths(widths, shown);
        if let Some(top) = &borders.top {
            rule(text, top, &shown_widths, |_| None);
        }
        line(text, borders, cut, shown, widths, |column| {
            (bold.clone(), self.numeric[column], self.names[column].as_str())
        });
        if !self.types.is_empty() {
            let dim = Style::new().dim();
            line(text, borders, cut, shown, widths, |column| {
                (dim.clone(), self.numeric[column], self.types[column].as_str())
            });
        }
        rule(text, &borders.middle, &shown_widths, |place| {
            let is_number = shown[place].is_some_and(|column| self.numeric[column]);
            borders.below_numbers.filter(|_| is_number)
        });
    }
}

/// Whether each value has a line of its own.
fn is_by_line(form: TableForm) -> bool {
    matches!(form, TableForm::Records | TableForm::Lines)
}

fn borders(style: TableStyle) -> &'static Borders {
    match style.form {
        TableForm::Markdown => &MARKDOWN,
        TableForm::Box => &LINES,
        _ if style.width.is_some() => &LINES,
        _ => &ASCII,
    }
}

fn shown_widths(widths: &[usize], shown: &[Option<usize>]) -> Vec<usize> {
    shown
        .iter()
        .map(|column| column.map_or(1, |column| widths[column]))
        .collect()
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
            types: Vec::new(),
            numeric: vec![true, false],
            rows: vec![row("30.5", Some("Newark")), row("120", None)],
            escape: visible,
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
            form: TableForm::Records,
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
    fn words_fill_columns_top_to_bottom() {
        let words: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        assert_eq!(words_in_columns(&words, 6), "a  d\nb  e\nc\n");
        assert_eq!(words_in_columns(&[], 80), "");
    }
}
