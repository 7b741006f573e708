//! CSV files as an [`Input`]. Column types are inferred from the first rows.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use regex::Regex;

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
    read(path, columns, format, csv.infer_rows).map_err(|fault| fault.in_input(path))
}

fn read(path: &Path, columns: Option<&[String]>, format: Format, infer_rows: usize) -> Result<Input, Fault> {
    let (schema, _) = format.infer_schema(BufReader::new(File::open(path)?), Some(infer_rows))?;
    let positions = positions(&schema, columns)?;
    let projected = schema.project(&positions)?;
    let reader = ReaderBuilder::new(schema.into())
        .with_format(format)
        .with_batch_size(BATCH_ROWS)
        .with_projection(positions)
        .build(File::open(path)?)?;
    // This reader yields the columns in the order of the projection.
    let in_order = (0..projected.fields().len()).collect();
    Ok(Input::reordered(projected, in_order, reader))
}
