//! CSV files as an [`Input`]. Column types are inferred from the first rows. As in PostgreSQL, a field of nothing is
//! NULL and a field of two quotation marks is the empty text.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, Schema};
use regex::Regex;

use super::empty_fields::{EmptyFieldReader, without_marks};
use super::file_format::BYTE_ORDER_MARK;
use super::input::{BATCH_ROWS, Fault, Input, positions};
use super::options::CsvOptions;
use crate::error::ToolError;

/// Opens a CSV file.
pub(super) fn open(path: &Path, columns: Option<&[String]>, csv: &CsvOptions) -> Result<Input, ToolError> {
    let mut format = Format::default().with_header(csv.header).with_delimiter(csv.delimiter);
    if let Some(text) = &csv.null_text {
        let pattern = format!("^(?:{})?$", regex::escape(text));
        let pattern = Regex::new(&pattern).map_err(|e| ToolError::Options(e.to_string()))?;
        format = format.with_null_regex(pattern);
    }
    read(path, columns, format, csv).map_err(|fault| fault.in_input(path))
}

fn read(path: &Path, columns: Option<&[String]>, format: Format, csv: &CsvOptions) -> Result<Input, Fault> {
    let (schema, _) = format.infer_schema(BufReader::new(open_text(path)?), Some(csv.infer_rows))?;
    let schema = with_texts(&schema);
    let positions = positions(&schema, columns)?;
    let projected = schema.project(&positions)?;
    let marked = EmptyFieldReader::new(open_text(path)?, csv.delimiter, &schema);
    let reader = ReaderBuilder::new(schema.into())
        .with_format(format)
        .with_batch_size(BATCH_ROWS)
        .with_projection(positions)
        .build(marked)?;
    let batches = reader.map(|batch| {
        let batch = batch?;
        let columns = batch.columns().iter().map(without_marks).collect();
        arrow::array::RecordBatch::try_new(batch.schema(), columns)
    });
    // This reader yields the columns in the order of the projection.
    let in_order = (0..projected.fields().len()).collect();
    Ok(Input::reordered(projected, in_order, batches))
}

/// Opens a file after its byte order mark.
fn open_text(path: &Path) -> io::Result<File> {
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    file.by_ref()
        .take(BYTE_ORDER_MARK.len() as u64)
        .read_to_end(&mut start)?;
    if start != BYTE_ORDER_MARK {
        file.seek(SeekFrom::Start(0))?;
    }
    Ok(file)
}

/// The schema with text for columns in which no row has a value.
fn with_texts(schema: &Schema) -> Schema {
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Null => Field::new(field.name(), DataType::Utf8, true),
        _ => field.as_ref().clone(),
    });
    Schema::new(fields.collect::<Vec<_>>())
}
