//! Columns of CSV files whose numbers have leading zeros: [`with_texts`] makes them text.
//!
//! A postcode `00501` would become 501. DataFusion infers a column's type from the first rows of the first files. This
//! search looks at all files, at most [`MAX_BYTES`] of them together.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use bytes::{Buf, Bytes};
use datafusion::common::config::CsvOptions;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::error::{DataFusionError, Result};
use futures::stream::{BoxStream, StreamExt, TryStreamExt, try_unfold};
use object_store::{GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt};

/// Bytes of text that are searched, of local files and of others.
const MAX_BYTES: u64 = 16 << 20;
const MAX_REMOTE_BYTES: u64 = 1 << 20;
/// Bytes of one read of a local file.
const READ_BYTES: usize = 256 << 10;

/// The schema with text in place of each number of which a value has a leading zero.
///
/// # Errors
/// If the files cannot be read.
pub(super) async fn with_texts(
    format: &CsvFormat,
    has_header: bool,
    store: &Arc<dyn ObjectStore>,
    objects: &[ObjectMeta],
    schema: SchemaRef,
) -> Result<SchemaRef> {
    let mut search = Search::new(format.options(), has_header, &schema);
    let mut left = MAX_BYTES;
    for object in objects {
        if left == 0 || search.numbers.is_empty() {
            break;
        }
        let (is_local, bytes) = bytes_of(store, object).await?;
        if !is_local {
            left = left.min(MAX_REMOTE_BYTES);
        }
        let mut records = format.read_to_delimited_chunks_from_stream(bytes);
        let mut is_first = true;
        while let Some(chunk) = records.try_next().await? {
            left = left.saturating_sub(chunk.len() as u64);
            search.look_at(&chunk, is_first);
            is_first = false;
            if left == 0 || search.numbers.is_empty() {
                break;
            }
        }
    }
    Ok(search.schema(&schema))
}

/// An object's bytes, and whether they are those of a local file.
pub(super) async fn bytes_of(
    store: &Arc<dyn ObjectStore>,
    object: &ObjectMeta,
) -> Result<(bool, BoxStream<'static, Result<Bytes>>)> {
    Ok(match store.get(&object.location).await?.payload {
        GetResultPayload::File(file, _) => (true, try_unfold(file, next_bytes).boxed()),
        GetResultPayload::Stream(stream) => (false, stream.map_err(DataFusionError::from).boxed()),
    })
}

async fn next_bytes(mut file: File) -> Result<Option<(Bytes, File)>> {
    let mut bytes = Vec::with_capacity(READ_BYTES);
    file.by_ref().take(READ_BYTES as u64).read_to_end(&mut bytes)?;
    Ok((!bytes.is_empty()).then(|| (bytes.into(), file)))
}

/// The state of a search.
struct Search<'a> {
    options: &'a CsvOptions,
    has_header: bool,
    /// All columns as text.
    texts: SchemaRef,
    /// Positions of columns of numbers without a leading zero so far.
    numbers: Vec<usize>,
    /// Positions of those with one.
    found: Vec<usize>,
}

impl<'a> Search<'a> {
    fn new(options: &'a CsvOptions, has_header: bool, schema: &Schema) -> Self {
        let text = |field: &Arc<Field>| Field::new(field.name(), DataType::Utf8, true);
        let is_number = |at: &usize| schema.field(*at).data_type().is_numeric();
        Self {
            options,
            has_header,
            texts: Arc::new(Schema::new(schema.fields().iter().map(text).collect::<Vec<_>>())),
            numbers: (0..schema.fields().len()).filter(is_number).collect(),
            found: Vec::new(),
        }
    }

    /// Looks at whole records. Of records that cannot be read, the scan says what is wrong.
    fn look_at(&mut self, records: &Bytes, is_first: bool) {
        if !may_have_zeros(records, self.options) {
            return;
        }
        let reader = ReaderBuilder::new(Arc::clone(&self.texts))
            .with_format(self.format(is_first && self.has_header))
            .with_projection(self.numbers.clone())
            .build(records.clone().reader());
        let Ok(reader) = reader else { return };
        for batch in reader.map_while(std::result::Result::ok) {
            let of_column = |at: &usize| {
                let place = self.numbers.iter().position(|number| number == at)?;
                Some(
                    batch
                        .column(place)
                        .as_string_opt::<i32>()?
                        .iter()
                        .flatten()
                        .any(has_leading_zero),
                )
            };
            let found: Vec<usize> = (self.numbers.iter().copied())
                .filter(|at| !self.found.contains(at) && of_column(at) == Some(true))
                .collect();
            self.found.extend(found);
        }
        self.numbers.retain(|at| !self.found.contains(at));
    }

    fn format(&self, has_header: bool) -> Format {
        let mut format = Format::default()
            .with_header(has_header)
            .with_delimiter(self.options.delimiter)
            .with_quote(self.options.quote)
            .with_truncated_rows(true);
        if let Some(escape) = self.options.escape {
            format = format.with_escape(escape);
        }
        if let Some(comment) = self.options.comment {
            format = format.with_comment(comment);
        }
        if let Some(terminator) = self.options.terminator {
            format = format.with_terminator(terminator);
        }
        format
    }

    fn schema(&self, schema: &SchemaRef) -> SchemaRef {
        if self.found.is_empty() {
            return Arc::clone(schema);
        }
        let fields = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(at, field)| match self.found.contains(&at) {
                true => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
                false => Arc::clone(field),
            });
        Arc::new(Schema::new_with_metadata(
            fields.collect::<Vec<_>>(),
            schema.metadata().clone(),
        ))
    }
}

/// Whether a field may begin with a zero and a digit, perhaps after a sign. Most files have no such field.
fn may_have_zeros(bytes: &[u8], options: &CsvOptions) -> bool {
    let begins = |at: usize| match at.checked_sub(1).map(|before| bytes[before]) {
        None | Some(b'\n' | b'\r') => true,
        Some(byte) => byte == options.delimiter || byte == options.quote || Some(byte) == options.terminator,
    };
    let is_sign = |at: usize| matches!(bytes[at], b'+' | b'-');
    let mut pairs = bytes.windows(2).enumerate();
    pairs.any(|(at, pair)| {
        let is_zero = pair[0] == b'0' && pair[1].is_ascii_digit();
        is_zero && (begins(at) || is_sign(at - 1) && begins(at - 1))
    })
}

/// Whether a number is written with a zero that it does not need: `007`, `-05`, `00.5`.
fn has_leading_zero(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']).as_bytes();
    matches!(digits, [b'0', second, ..] if second.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_needless_zeros_are_found() {
        let may_have_zeros = |text: &str| may_have_zeros(text.as_bytes(), &CsvOptions::default());
        for text in ["007", "00", "-05", "+05", "00.5", "01e3"] {
            assert!(has_leading_zero(text) && may_have_zeros(text), "{text}");
            assert!(may_have_zeros(&format!("1,\"{text}\"\n")), "{text}");
            assert!(may_have_zeros(&format!("a\n{text},1")), "{text}");
        }
        for text in ["0", "-0", "0.5", "-0.05", "0e3", "10", "", "-", "100.007"] {
            assert!(!has_leading_zero(text), "{text}");
        }
        assert!(!may_have_zeros("id,x\n1,0.05\n100,1.007\nx00,2020-01-05 09:00:00\n0"));
    }
}
