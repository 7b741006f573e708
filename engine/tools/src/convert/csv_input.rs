//! CSV files as an [`Input`]. Column types are inferred from the first rows. As in PostgreSQL, a field of nothing is
//! NULL and a field of two quotation marks is the empty text. A column is text if any number in it has a leading zero,
//! as postcodes have.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use arrow::array::AsArray;
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
    // Both pass over the file before its first batch.
    let (inferred, may_have_zeros) = std::thread::scope(|scope| {
        let search = scope.spawn(|| may_have_zeros(open_text(path)?, csv.delimiter));
        let text = BufReader::new(open_text(path)?);
        let inferred = format.infer_schema(text, Some(csv.infer_rows));
        let searched = search.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, Fault>((inferred?, searched?))
    })?;
    let schema = with_texts(&inferred.0, |_| false);
    let zeros = match may_have_zeros {
        true => leading_zeros(path, &schema, &format)?,
        false => Vec::new(),
    };
    let schema = with_texts(&schema, |at| zeros.contains(&at));
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

/// The schema with text for columns in which no row has a value, and for those that `is_text` names by position.
fn with_texts(schema: &Schema, is_text: impl Fn(usize) -> bool) -> Schema {
    let fields = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(at, field)| match field.data_type() {
            DataType::Null => Field::new(field.name(), DataType::Utf8, true),
            _ if is_text(at) => Field::new(field.name(), DataType::Utf8, true),
            _ => field.as_ref().clone(),
        });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Positions of the columns of numbers in which a number has a leading zero, in any row. Rows that cannot be read are
/// errors of the conversion itself.
fn leading_zeros(path: &Path, schema: &Schema, format: &Format) -> Result<Vec<usize>, Fault> {
    let is_number = |at: &usize| schema.field(*at).data_type().is_numeric();
    let numbers: Vec<usize> = (0..schema.fields().len()).filter(is_number).collect();
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let reader = ReaderBuilder::new(with_texts(schema, |_| true).into())
        .with_format(format.clone())
        .with_batch_size(BATCH_ROWS)
        .with_projection(numbers.clone())
        .build(open_text(path)?)?;
    let mut found = vec![false; numbers.len()];
    for batch in reader.map_while(Result::ok) {
        for (column, found) in batch.columns().iter().zip(&mut found) {
            let texts = column.as_string_opt::<i32>();
            *found |= texts.is_some_and(|texts| texts.iter().flatten().any(has_leading_zero));
        }
    }
    let found = numbers.into_iter().zip(found).filter(|(_, found)| *found);
    Ok(found.map(|(at, _)| at).collect())
}

/// Whether a field may begin with a zero and a digit, perhaps after a sign. Most files have no such field.
fn may_have_zeros(mut text: impl Read, delimiter: u8) -> io::Result<bool> {
    let ends_field = |byte: u8| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r');
    let is_found = |bytes: &[u8]| {
        let is_sign = matches!(bytes[1], b'+' | b'-');
        let begins = ends_field(bytes[1]) || is_sign && ends_field(bytes[0]);
        begins && bytes[2] == b'0' && bytes[3].is_ascii_digit()
    };
    // The last three bytes of the part before, and the part.
    let mut buffer = vec![b'\n'; 3 + (256 << 10)];
    loop {
        let length = text.read(&mut buffer[3..])?;
        if length == 0 {
            return Ok(false);
        }
        if buffer[..3 + length].windows(4).any(is_found) {
            return Ok(true);
        }
        buffer.copy_within(length..length + 3, 0);
    }
}

/// Whether a number is written with a zero that it does not need: `007`, `-05`, `00.5`.
fn has_leading_zero(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']).as_bytes();
    matches!(digits, [b'0', second, ..] if second.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes a few at a time.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(self.1).min(buffer.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    #[test]
    fn needless_zeros_are_found_across_reads() {
        for piece in 1..6 {
            let may_have_zeros = |text: &str| may_have_zeros(Pieces(text.as_bytes(), piece), b',').unwrap();
            for text in ["007", "1,-05", "x\n00.5", "1,\"01\"", "a,b\r\n1,\r\n2,09\r\n"] {
                assert!(may_have_zeros(text), "{text:?} by {piece}");
            }
            let dates = "2020-01-05 09:00:00,1;00\n";
            for text in ["", "0", "id,x\n1,0.05\n100,1.007\nx00,a00\n", "0,0\n0,10", dates] {
                assert!(!may_have_zeros(text), "{text:?} by {piece}");
            }
        }
        assert!(["007", "-05", "00.5", "01e3"].into_iter().all(has_leading_zero));
        assert!(!["0", "-0", "0.5", "0e3", "10", ""].into_iter().any(has_leading_zero));
    }
}
