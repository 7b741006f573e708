//! Writes results in the format asked for, batch by batch as they arrive. Only tables for people wait for
//! rows: for as many as are printed, or as it takes to know the widths.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::csv::WriterBuilder as CsvBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::WriterBuilder as JsonBuilder;
use arrow::json::writer::{JsonArray, JsonFormat, LineDelimited};
use arrow::util::display::ArrayFormatter;
use console::style;

use crate::args::Format;
use crate::error_messages::clean;
use crate::exit_error::{Failure, Report, output};
use crate::text_table::{Cells, Look, More, format_options, more_note};

/// Rows whose widths decide the widths of all, when all are printed.
const WIDTH_SAMPLE_ROWS: usize = 10_000;

/// Takes the batches of one result.
pub(crate) struct Sink<'a> {
    writer: &'a mut dyn Write,
    schema: SchemaRef,
    shape: Shape,
    shown: u64,
    on_terminal: bool,
}

enum Shape {
    Table { cells: Cells, look: Look, printed: usize },
    Plan,
    Separated { delimiter: u8, header: bool },
    Json(Box<arrow::json::Writer<Vec<u8>, JsonArray>>),
    Lines(Box<arrow::json::Writer<Vec<u8>, LineDelimited>>),
}

impl<'a> Sink<'a> {
    pub(crate) fn new(writer: &'a mut dyn Write, format: Format, schema: SchemaRef, look: Look) -> Self {
        let shape = match format {
            Format::Table if is_plan(&schema) => Shape::Plan,
            Format::Table => Shape::Table {
                cells: Cells::new(&schema),
                look,
                printed: 0,
            },
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
            on_terminal: look.width.is_some(),
        }
    }

    /// Whether more rows would not be printed.
    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.shape, Shape::Table { cells, look, .. } if look.max_rows.is_some_and(|max| cells.len() >= max))
    }

    /// Rows that are printed, or will be.
    pub(crate) fn shown(&self) -> u64 {
        self.shown
    }

    /// Whether rows appear on the terminal as they arrive, so that nothing else should be drawn there.
    pub(crate) fn fills_the_terminal(&self) -> bool {
        self.on_terminal && !matches!(self.shape, Shape::Table { .. } | Shape::Plan)
    }

    /// Whether this is the answer to EXPLAIN, whose rows mean nothing.
    pub(crate) fn is_plan(&self) -> bool {
        matches!(self.shape, Shape::Plan)
    }

    /// Takes a batch.
    pub(crate) fn push(&mut self, batch: &RecordBatch) -> Result<(), Failure> {
        let room = match &self.shape {
            Shape::Table { cells, look, .. } => look.max_rows.map_or(usize::MAX, |max| max - cells.len().min(max)),
            _ => usize::MAX,
        };
        self.shown += batch.num_rows().min(room) as u64;
        let bytes = self.text_of(batch, room).map_err(|error| unprintable(&error))?;
        self.writer.write_all(&bytes).map_err(|error| output(&error))
    }

    fn text_of(&mut self, batch: &RecordBatch, room: usize) -> Result<Vec<u8>, ArrowError> {
        match &mut self.shape {
            Shape::Table { cells, look, printed } => {
                cells.push(batch, room)?;
                if look.max_rows.is_some() || cells.len() < WIDTH_SAMPLE_ROWS {
                    return Ok(Vec::new());
                }
                Ok(cells.render_part(*look, printed).into_bytes())
            }
            Shape::Plan => Ok(plan_text(batch).into_bytes()),
            Shape::Separated { delimiter, header } => {
                let mut bytes = Vec::new();
                let with_header = std::mem::take(header);
                let builder = CsvBuilder::new().with_delimiter(*delimiter).with_header(with_header);
                builder.build(&mut bytes).write(&flattened(batch)?)?;
                Ok(bytes)
            }
            Shape::Json(writer) => json_text(writer, batch),
            Shape::Lines(writer) => json_text(writer, batch),
        }
    }

    /// Writes what is held back. `more` says what was not pushed.
    pub(crate) fn finish(mut self, more: More) -> Result<(), Failure> {
        if matches!(self.shape, Shape::Separated { header: true, .. }) {
            self.push(&RecordBatch::new_empty(Arc::clone(&self.schema)))?;
        }
        let bytes = match &mut self.shape {
            Shape::Table { cells, look, printed } => {
                let mut text = cells.render_last(*look, *printed);
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
        let written = self.writer.write_all(&bytes).and_then(|()| self.writer.flush());
        written.map_err(|error| output(&error))
    }
}

fn unprintable(error: &ArrowError) -> Failure {
    Report::new(format!("cannot print the result: {}", clean(&error.to_string())))
        .hint("try another --format, or CAST the column to VARCHAR")
        .into()
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

/// The batch with nested columns as text: separated values have no other way to hold them.
fn flattened(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.columns().iter().any(|column| column.data_type().is_nested()) {
        return Ok(batch.clone());
    }
    let options = format_options().with_null("");
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if column.data_type().is_nested() {
            let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
            let texts = (0..column.len()).map(|row| (!column.is_null(row)).then(|| formatter.value(row).to_string()));
            columns.push(Arc::new(texts.collect::<StringArray>()));
            fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
        } else {
            columns.push(Arc::clone(column));
            fields.push(Arc::clone(field));
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// Whether this is the answer to EXPLAIN.
fn is_plan(schema: &Schema) -> bool {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    names == ["plan_type", "plan"]
}

/// Plans as they are, each under its name.
fn plan_text(batch: &RecordBatch) -> String {
    let (Some(names), Some(plans)) = (
        batch.column(0).as_string_opt::<i32>(),
        batch.column(1).as_string_opt::<i32>(),
    ) else {
        return String::new();
    };
    let mut text = String::new();
    for (name, plan) in names.iter().zip(plans) {
        let name = name.unwrap_or("plan").replace('_', " ");
        text.push_str(&format!("{}\n", style(name).bold()));
        for line in plan.unwrap_or("").trim_end().lines() {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}

/// Where results go: standard output or a file, buffered.
pub(crate) fn writer(path: Option<&std::path::Path>) -> Result<Box<dyn Write + Send>, Failure> {
    let Some(path) = path else {
        return Ok(Box::new(io::BufWriter::with_capacity(1 << 16, io::stdout())));
    };
    let file = std::fs::File::create(path);
    let file = file.map_err(|error| crate::exit_error::file("write", &path.display().to_string(), &error))?;
    Ok(Box::new(io::BufWriter::with_capacity(1 << 16, file)))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, ListArray};
    use arrow::datatypes::Int64Type;

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

    fn text(format: Format, batches: &[RecordBatch], look: Look, more: More) -> String {
        let mut bytes = Vec::new();
        let mut sink = Sink::new(&mut bytes, format, batch().schema(), look);
        for batch in batches {
            sink.push(batch).unwrap();
        }
        sink.finish(more).unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn separated_values_quote_what_needs_it() {
        insta::assert_snapshot!(text(Format::Csv, &[batch()], Look::default(), More::None), @r#"
        id,miles,note,parts
        1,0.5,"a,""b""","[1, ]"
        2,,tab	,
        3,NaN,,[]
        "#);
        assert_eq!(
            text(Format::Tsv, &[], Look::default(), More::None),
            "id\tmiles\tnote\tparts\n"
        );
    }

    #[test]
    fn json_is_one_array_however_many_batches() {
        insta::assert_snapshot!(text(Format::Json, &[batch().slice(0, 1), batch().slice(1, 2)], Look::default(), More::None), @r#"[{"id":1,"miles":0.5,"note":"a,\"b\"","parts":[1,null]},{"id":2,"miles":null,"note":"tab\t","parts":null},{"id":3,"miles":null,"note":null,"parts":[]}]"#);
        assert_eq!(text(Format::Json, &[], Look::default(), More::None), "[]\n");
        assert_eq!(text(Format::Ndjson, &[], Look::default(), More::None), "");
        assert_eq!(
            text(Format::Ndjson, &[batch()], Look::default(), More::None)
                .lines()
                .count(),
            3
        );
    }

    #[test]
    fn tables_are_cut_and_say_so() {
        let look = Look {
            max_rows: Some(2),
            ..Look::default()
        };
        insta::assert_snapshot!(text(Format::Table, &[batch()], look, More::Rows(1)), @r#"
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
        let text = text(Format::Table, &many, Look::default(), More::None);
        assert_eq!(text.lines().count(), many.len() * 3 + 4);
        assert_eq!(text.lines().filter(|line| line.starts_with('+')).count(), 3);
        assert!(
            text.lines()
                .all(|line| line.len() == text.lines().next().unwrap().len())
        );
    }
}
