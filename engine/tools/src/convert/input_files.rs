//! What comes in: finds the files, sees which format they have, and reads each as a stream of batches of the wanted columns.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format as CsvFormat;
use arrow::datatypes::{Schema, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use regex::Regex;

use super::stored_types::words;
use super::{ConvertError, ConvertOptions, CsvOptions, orc_input};

/// Rows per batch.
pub(super) const BATCH_ROWS: usize = 8192;

/// A file's batches, in row order.
pub(super) struct Input {
    /// Of the batches: the wanted columns in the wanted order.
    pub(super) schema: SchemaRef,
    pub(super) batches: Box<dyn Iterator<Item = Result<RecordBatch, String>>>,
}

/// The formats that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Parquet,
    Orc,
    Csv,
}

/// All input files: those named, and those in folders that are named, sorted.
pub(super) fn files(options: &ConvertOptions) -> Result<Vec<PathBuf>, ConvertError> {
    let mut files = Vec::new();
    for input in &options.inputs {
        if !input.is_dir() {
            files.push(input.clone());
            continue;
        }
        let before = files.len();
        let entries = fs::read_dir(input).map_err(|e| failed(input, e))?;
        for entry in entries {
            let path = entry.map_err(|e| failed(input, e))?.path();
            if path.is_file() && has_known_ending(&path) {
                files.push(path);
            }
        }
        files[before..].sort();
        if files.len() == before {
            return Err(failed(input, "no .parquet, .csv, .tsv or .orc file in this folder"));
        }
    }
    if files.is_empty() {
        return Err(ConvertError::Options("name at least one file to convert".to_owned()));
    }
    Ok(files)
}

fn has_known_ending(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."));
    let ending = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    !hidden && matches!(ending.as_deref(), Some("parquet" | "csv" | "tsv" | "orc"))
}

fn failed(path: &Path, reason: impl ToString) -> ConvertError {
    ConvertError::Input {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// Opens one file.
pub(super) fn open(path: &Path, options: &ConvertOptions) -> Result<Input, ConvertError> {
    let columns = options.columns.as_deref();
    match format(path)? {
        Format::Parquet => open_parquet(path, columns),
        Format::Orc => orc_input::open(path, columns),
        Format::Csv => open_csv(path, columns, &options.csv),
    }
}

/// Looks at the first bytes; anything that is neither Parquet nor ORC is taken for CSV if it looks like text.
fn format(path: &Path) -> Result<Format, ConvertError> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|e| failed(path, e))?;
    let read = file.take(4096).read_to_end(&mut start);
    read.map_err(|e| failed(path, e))?;
    if start.starts_with(b"PAR1") {
        Ok(Format::Parquet)
    } else if start.starts_with(b"ORC") {
        Ok(Format::Orc)
    } else if start.contains(&0) {
        Err(failed(path, "neither Parquet nor ORC nor text"))
    } else if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("orc")) {
        Ok(Format::Orc) // and its reader says what is wrong with it
    } else {
        Ok(Format::Csv)
    }
}

/// Positions of the wanted columns in a file's schema.
pub(super) fn positions(path: &Path, schema: &Schema, columns: Option<&[String]>) -> Result<Vec<usize>, ConvertError> {
    let Some(columns) = columns else {
        return Ok((0..schema.fields().len()).collect());
    };
    columns
        .iter()
        .map(|name| {
            schema.index_of(name).map_err(|_| {
                let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
                failed(
                    path,
                    format!("there is no column '{name}'; there are {}", names.join(", ")),
                )
            })
        })
        .collect()
}

/// How `positions` must be rearranged when the reader yields columns in file order.
fn order(positions: &[usize]) -> Vec<usize> {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let place = |p: &usize| sorted.partition_point(|s| s < p);
    positions.iter().map(place).collect()
}

fn open_parquet(path: &Path, columns: Option<&[String]>) -> Result<Input, ConvertError> {
    let file = File::open(path).map_err(|e| failed(path, e))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| failed(path, e))?;
    let positions = positions(path, builder.schema(), columns)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), positions.iter().copied());
    let schema = builder.schema().project(&positions).map_err(|e| failed(path, e))?;
    let reader = builder.with_projection(mask).with_batch_size(BATCH_ROWS).build();
    let reader = reader.map_err(|e| failed(path, e))?;
    Ok(ordered(schema, order(&positions), reader))
}

fn open_csv(path: &Path, columns: Option<&[String]>, csv: &CsvOptions) -> Result<Input, ConvertError> {
    let open = || File::open(path).map_err(|e| failed(path, e));
    let mut format = CsvFormat::default()
        .with_header(csv.header)
        .with_delimiter(csv.delimiter);
    if let Some(text) = &csv.null_text {
        let pattern = format!("^(?:{})?$", regex::escape(text));
        let pattern = Regex::new(&pattern).map_err(|e| ConvertError::Options(e.to_string()))?;
        format = format.with_null_regex(pattern);
    }
    let inferred = format.infer_schema(BufReader::new(open()?), Some(csv.infer_rows));
    let (schema, _) = inferred.map_err(|e| failed(path, words(&e)))?;
    let positions = positions(path, &schema, columns)?;
    let projected = schema.project(&positions).map_err(|e| failed(path, e))?;
    let reader = ReaderBuilder::new(schema.into())
        .with_format(format)
        .with_batch_size(BATCH_ROWS)
        .with_projection(positions)
        .build(open()?)
        .map_err(|e| failed(path, words(&e)))?;
    // This reader yields the columns in the order in which they were asked for.
    let in_order = (0..projected.fields().len()).collect();
    Ok(ordered(projected, in_order, reader))
}

/// Batches with their columns rearranged to `order`.
pub(super) fn ordered(
    schema: Schema,
    order: Vec<usize>,
    batches: impl Iterator<Item = Result<RecordBatch, arrow::error::ArrowError>> + 'static,
) -> Input {
    let rearrange = move |batch: Result<RecordBatch, _>| batch.and_then(|b| b.project(&order)).map_err(|e| words(&e));
    Input {
        schema: schema.into(),
        batches: Box::new(batches.map(rearrange)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_put_back_into_the_wanted_order() {
        assert_eq!(order(&[4, 0, 2]), [2, 0, 1]);
        assert_eq!(order(&[0, 1]), [0, 1]);
    }

    #[test]
    fn the_content_says_which_format_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.dat");
        for (content, wanted) in [
            (&b"PAR1..."[..], Format::Parquet),
            (b"ORC...", Format::Orc),
            (b"a,b\n1,2\n", Format::Csv),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(format(&path).unwrap(), wanted);
        }
        fs::write(&path, b"\x7fELF\0\0").unwrap();
        assert!(format(&path).is_err());
    }
}
