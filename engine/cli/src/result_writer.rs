//! [`ResultWriter`]: writes a result in the chosen [`ResultStyle`], batch by batch.
//!
//! Only aligned tables hold rows back: all printed rows, or the rows that decide the widths.

use std::io::Write;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::{JsonArray, JsonFormat, LineDelimited};
use datafusion::physical_plan::ExecutionPlan;
use grampus::printable;

use crate::column_headings::{unique, with_names};
use crate::exit_error::{ErrorReport, ExitError};
use crate::explained_plan::{self, PlanText};
use crate::result_format::Format;
use crate::separated_values;
use crate::sql_literals::insert_statements;
use crate::text_table::{MoreRows, TableForm, TableStyle, TextTable, more_note};
use crate::wording::clean;

/// Rows that decide the widths of the columns if all rows are printed.
const WIDTH_SAMPLE_ROWS: usize = 10_000;

/// How a result is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResultStyle {
    pub(crate) format: Format,
    pub(crate) table: TableStyle,
    /// The table of INSERT statements, as SQL writes it.
    pub(crate) insert_table: String,
    /// Whether the output has text already.
    pub(crate) follows: bool,
}

/// The writer of one result.
pub(crate) struct ResultWriter<'a> {
    writer: &'a mut dyn Write,
    schema: SchemaRef,
    shape: Shape,
    shown: u64,
    on_terminal: bool,
    /// Whether an empty line comes before the result. Markdown would take two tables for one.
    needs_gap: bool,
}

enum Shape {
    Table {
        cells: TextTable,
        style: TableStyle,
        printed: usize,
    },
    Plan(PlanText),
    Insert {
        table: String,
    },
    Separated {
        delimiter: u8,
        header: bool,
    },
    Json(Box<arrow::json::Writer<Vec<u8>, JsonArray>>),
    Lines(Box<arrow::json::Writer<Vec<u8>, LineDelimited>>),
}

impl<'a> ResultWriter<'a> {
    /// A writer of the batches of `plan`, whose columns get the names of `schema`.
    pub(crate) fn new(
        writer: &'a mut dyn Write,
        schema: SchemaRef,
        plan: &dyn ExecutionPlan,
        style: ResultStyle,
    ) -> Self {
        let ResultStyle {
            format,
            table: style,
            insert_table,
            follows,
        } = style;
        let schema = match format {
            // The keys of an object differ.
            Format::Json | Format::Ndjson => unique(&schema),
            _ => schema,
        };
        let table = |form| {
            if explained_plan::is_explain(plan) {
                return match form {
                    TableForm::Markdown => Shape::Plan(PlanText::fenced(plan)),
                    _ => Shape::Plan(PlanText::new(plan, style.width)),
                };
            }
            let style = TableStyle { form, ..style };
            Shape::Table {
                cells: TextTable::new(&schema, style),
                style,
                printed: 0,
            }
        };
        let shape = match format {
            Format::Table => table(style.form),
            // `\x` holds for these too.
            Format::Box if style.form == TableForm::Records => table(style.form),
            Format::Box => table(TableForm::Box),
            Format::Markdown => table(TableForm::Markdown),
            Format::Line => table(TableForm::Lines),
            Format::Vertical => table(TableForm::Records),
            Format::Insert => Shape::Insert { table: insert_table },
            Format::Csv => Shape::Separated {
                delimiter: b',',
                header: true,
            },
            Format::Tsv => Shape::Separated {
                delimiter: b'\t',
                header: true,
            },
            Format::Json => Shape::Json(Box::new(json_writer())),
            Format::Ndjson => Shape::Lines(Box::new(json_writer())),
        };
        Self {
            writer,
            schema,
            shape,
            shown: 0,
            on_terminal: style.width.is_some(),
            needs_gap: follows && matches!(format, Format::Markdown | Format::Line),
        }
    }

    /// Whether the table has as many rows as are printed.
    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.shape, Shape::Table { cells, style, .. } if style.max_rows.is_some_and(|max| cells.len() >= max))
    }

    /// Rows that are or will be printed.
    pub(crate) fn shown(&self) -> u64 {
        self.shown
    }

    /// Whether rows appear on the terminal as they arrive. The progress line may not be drawn then.
    pub(crate) fn fills_the_terminal(&self) -> bool {
        self.on_terminal
            && match &self.shape {
                Shape::Table { style, .. } => style.max_rows.is_none(),
                Shape::Plan(_) => false,
                _ => true,
            }
    }

    /// Whether the result is the answer to EXPLAIN. The number of its rows has no meaning.
    pub(crate) fn is_plan(&self) -> bool {
        matches!(self.shape, Shape::Plan(_))
    }

    /// Writes a batch, or holds it back until the widths are known.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<(), ExitError> {
        let capacity = match &self.shape {
            Shape::Table { cells, style, .. } => style.max_rows.map_or(usize::MAX, |max| max - cells.len().min(max)),
            _ => usize::MAX,
        };
        self.shown += batch.num_rows().min(capacity) as u64;
        let bytes = self.text_of(batch, capacity).map_err(|error| unprintable(&error))?;
        self.write(&bytes)
    }

    /// Writes text, after the empty line that parts the result from those before it.
    fn write(&mut self, bytes: &[u8]) -> Result<(), ExitError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let gap: &[u8] = if std::mem::take(&mut self.needs_gap) {
            b"\n"
        } else {
            b""
        };
        let written = self.writer.write_all(gap).and_then(|()| self.writer.write_all(bytes));
        written.map_err(|error| ExitError::output(&error))
    }

    fn text_of(&mut self, batch: &RecordBatch, capacity: usize) -> Result<Vec<u8>, ArrowError> {
        printable::verify(&batch.slice(0, batch.num_rows().min(capacity)))?;
        match &mut self.shape {
            Shape::Table { cells, style, printed } => {
                cells.push(batch, capacity)?;
                if style.max_rows.is_some() || cells.len() < WIDTH_SAMPLE_ROWS {
                    return Ok(Vec::new());
                }
                Ok(cells.render_part(*style, printed).into_bytes())
            }
            Shape::Plan(plan) => Ok(plan.text(batch).into_bytes()),
            Shape::Insert { table } => Ok(insert_statements(batch, table)?.into_bytes()),
            Shape::Separated { delimiter, header } => {
                let mut text = String::new();
                if std::mem::take(header) {
                    text = separated_values::header(&self.schema, *delimiter);
                }
                text.push_str(&separated_values::rows(batch, *delimiter)?);
                Ok(text.into_bytes())
            }
            Shape::Json(writer) => json_text(writer, &with_names(batch, &self.schema)?),
            Shape::Lines(writer) => json_text(writer, &with_names(batch, &self.schema)?),
        }
    }

    /// Writes the rows that were held back. `more` counts the rows that were not pushed.
    pub(crate) fn finish(mut self, more: MoreRows) -> Result<(), ExitError> {
        if matches!(self.shape, Shape::Separated { header: true, .. }) {
            self.push(&RecordBatch::new_empty(Arc::clone(&self.schema)))?;
        }
        let bytes = match &mut self.shape {
            Shape::Table { cells, style, printed } => {
                let mut text = cells.render_last(*style, *printed);
                text.push_str(&more_note(self.shown, more));
                text.into_bytes()
            }
            Shape::Json(writer) => {
                writer.finish().map_err(|error| unprintable(&error))?;
                let mut bytes = std::mem::take(writer.get_mut());
                bytes.push(b'\n');
                bytes
            }
            _ => Vec::new(),
        };
        self.write(&bytes)?;
        self.writer.flush().map_err(|error| ExitError::output(&error))
    }
}

fn unprintable(error: &ArrowError) -> ExitError {
    let report = ErrorReport::new(format!("cannot print the result: {}", clean(&error.to_string())));
    match error {
        ArrowError::InvalidArgumentError(_) => report.into(), // `verify` names the way out
        _ => report
            .hint("try another --format, or CAST the column to VARCHAR")
            .into(),
    }
}

fn json_writer<F: JsonFormat>() -> arrow::json::Writer<Vec<u8>, F> {
    JsonBuilder::new().with_explicit_nulls(true).build(Vec::new())
}

fn json_text<F: JsonFormat>(
    writer: &mut arrow::json::Writer<Vec<u8>, F>,
    batch: &RecordBatch,
) -> Result<Vec<u8>, ArrowError> {
    writer.write(batch)?;
    Ok(std::mem::take(writer.get_mut()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Float64Array, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int64Type;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    fn batch() -> RecordBatch {
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
        RecordBatch::try_from_iter_with_nullable([
            ("id", Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef, false),
            (
                "miles",
                Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::NAN)])),
                true,
            ),
            (
                "note",
                Arc::new(StringArray::from(vec![Some("a,\"b\""), Some("tab\t"), None])),
                true,
            ),
            ("parts", Arc::new(lists), true),
        ])
        .unwrap()
    }

    fn text(format: Format, batches: &[RecordBatch], style: TableStyle, more: MoreRows) -> String {
        let mut bytes = Vec::new();
        let style = ResultStyle {
            format,
            table: style,
            insert_table: "t".to_owned(),
            follows: false,
        };
        let plan = EmptyExec::new(batch().schema());
        let mut sink = ResultWriter::new(&mut bytes, batch().schema(), &plan, style);
        for batch in batches {
            sink.push(batch).unwrap();
        }
        sink.finish(more).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn separated_values_quote_delimiters_and_quotes() {
        insta::assert_snapshot!(text(Format::Csv, &[batch()], TableStyle::default(), MoreRows::None), @r#"
        id,miles,note,parts
        1,0.5,"a,""b""","[1, NULL]"
        2,,tab	,
        3,NaN,,[]
        "#);
        assert_eq!(
            text(Format::Tsv, &[], TableStyle::default(), MoreRows::None),
            "id\tmiles\tnote\tparts\n"
        );
    }

    #[test]
    fn json_is_one_array_for_any_number_of_batches() {
        let batches = [batch().slice(0, 1), batch().slice(1, 2)];
        let json = text(Format::Json, &batches, TableStyle::default(), MoreRows::None);
        insta::assert_snapshot!(json.replace("},{", "},\n{"), @r#"
        [{"id":1,"miles":0.5,"note":"a,\"b\"","parts":[1,null]},
        {"id":2,"miles":null,"note":"tab\t","parts":null},
        {"id":3,"miles":null,"note":null,"parts":[]}]
        "#);
        assert_eq!(json.lines().count(), 1);
        assert_eq!(text(Format::Json, &[], TableStyle::default(), MoreRows::None), "[]\n");
        assert_eq!(text(Format::Ndjson, &[], TableStyle::default(), MoreRows::None), "");
        assert_eq!(
            text(Format::Ndjson, &[batch()], TableStyle::default(), MoreRows::None)
                .lines()
                .count(),
            3
        );
    }

    #[test]
    fn tables_are_cut_with_a_note() {
        let style = TableStyle {
            max_rows: Some(2),
            ..TableStyle::default()
        };
        insta::assert_snapshot!(text(Format::Table, &[batch()], style, MoreRows::Rows(1)), @r#"
        +----+-------+-------+-----------+
        | id | miles | note  | parts     |
        +----+-------+-------+-----------+
        |  1 |   0.5 | a,"b" | [1, NULL] |
        |  2 |  NULL | tab\t | NULL      |
        +----+-------+-------+-----------+
        … 1 more row (2 shown; --max-rows or \maxrows shows more)
        "#);
    }

    #[test]
    fn long_tables_are_printed_in_parts_without_a_seam() {
        let many = vec![batch(); WIDTH_SAMPLE_ROWS / 3 + 10];
        let text = text(Format::Table, &many, TableStyle::default(), MoreRows::None);
        assert_eq!(text.lines().count(), many.len() * 3 + 4);
        assert_eq!(text.lines().filter(|line| line.starts_with('+')).count(), 3);
        assert!(
            text.lines()
                .all(|line| line.len() == text.lines().next().unwrap().len())
        );
    }
}
