//! Fuzzing of the whole reader: bytes as an ORC file, read the way the engine does. Tail, stripe footers, indexes, then
//! rows of every column through `ColumnReader`. Checks the invariants of any answer; other tests check values.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::error::ArrowError;
use bytes::Bytes;
use grampus_orc_layout::access::{Access, byte_ranges};
use grampus_orc_layout::arrow_reader::{
    ArrowPredicateFn, ArrowReaderOptions, OrcReaderBuilder, ProjectionMask, RowFilter, StringType,
};
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::index::{ColumnIndex, IndexRanges};
use grampus_orc_layout::read_options::{CharPadding, InvalidUtf8};
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::{ByteSource, ChunkReader};
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::{FileTail, TailParse};
use grampus_orc_layout::{LayoutError, Result};

/// Limits of the work per input: stripes, columns, and rows of each.
const MAX_STRIPES: usize = 4;
const MAX_COLUMNS: usize = 40;
const MAX_ROWS: u64 = 2_000;

/// A file in memory; reads beyond its end are errors, as they are on a disk.
struct Memory {
    file: Arc<str>,
    bytes: Bytes,
}

impl ByteSource for Memory {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        assert!(
            range.start <= range.end,
            "reader asked for the backward range {range:?}"
        );
        if range.end > self.bytes.len() as u64 {
            let reason = "beyond the end of the file";
            return Err(LayoutError::io_without_source(&self.file, range, reason));
        }
        Ok(self.bytes.slice(range.start as usize..range.end as usize))
    }
}

impl ChunkReader for Memory {
    fn length(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Reads everything within the bounds and returns the number of values. An error in one column or stripe does not end
/// the read of the others; the first error is returned.
///
/// # Errors
/// The first error of orc-layout.
///
/// # Panics
/// If orc-layout panics, or an answer breaks an invariant.
pub fn read_file(data: &[u8]) -> Result<u64> {
    let file: Arc<str> = "fuzz.orc".into();
    let bytes = Bytes::copy_from_slice(data);
    let tail = Arc::new(parse_tail(&file, &bytes)?);
    let source = Arc::new(Memory { file, bytes });
    let mut values = 0;
    let mut first_error = None;
    for stripe in 0..tail.stripes.len().min(MAX_STRIPES) {
        if let Err(error) = read_stripe(&tail, stripe, &source, &mut values) {
            first_error.get_or_insert(error);
        }
    }
    if let Err(error) = read_batches(source) {
        first_error.get_or_insert(error);
    }
    first_error.map_or(Ok(values), Err)
}

/// Reads the first and the last rows by the reader's builder, with a filter that every other row passes.
fn read_batches(source: Arc<Memory>) -> Result<()> {
    for (string_type, char_padding) in [
        (StringType::Utf8View, CharPadding::Kept),
        (StringType::Dictionary, CharPadding::Removed),
    ] {
        let options = ArrowReaderOptions::new()
            .with_string_type(string_type)
            .with_char_padding(char_padding)
            .with_invalid_utf8(InvalidUtf8::Replace);
        let builder = OrcReaderBuilder::try_new_with_options(source.clone(), &options)?;
        let rows: u64 = builder.metadata().rows;
        let mut selection = RowSelection::range(0..rows.min(100));
        selection.push(rows.saturating_sub(100).max(100)..rows);
        let columns = builder.schema().fields().len().min(MAX_COLUMNS);
        let predicate = ArrowPredicateFn::new(ProjectionMask::roots(0..columns.min(1)), |batch: RecordBatch| {
            Ok((0..batch.num_rows()).map(|row| Some(row % 2 == 0)).collect())
        });
        let reader = builder
            .with_projection(ProjectionMask::roots(0..columns))
            .with_row_selection(selection)
            .with_row_filter(RowFilter::new(vec![Box::new(predicate)]))
            .with_batch_size(30)
            .build()?;
        let mut found = 0;
        for batch in reader {
            let batch = batch.map_err(|error| match error {
                ArrowError::ExternalError(error) => *error.downcast::<LayoutError>().expect("an error of orc-layout"),
                other => panic!("{other}"),
            })?;
            assert!((1..=30).contains(&batch.num_rows()));
            found += batch.num_rows() as u64;
            batch.columns().iter().for_each(|column| {
                check(column, batch.num_rows() as u64);
            });
        }
        assert!(found <= rows.min(200));
    }
    Ok(())
}

fn parse_tail(file: &Arc<str>, bytes: &Bytes) -> Result<FileTail> {
    let length = bytes.len() as u64;
    // The first read is small, so that the request for more bytes is tested too.
    let mut wanted = length.min(64);
    loop {
        match FileTail::parse(file, length, &bytes.slice((length - wanted) as usize..))? {
            TailParse::Complete(tail) => return Ok(*tail),
            TailParse::NeedBytes(more) => {
                assert!(
                    more > wanted && more <= length,
                    "asked for {more} bytes, had {wanted} of {length}"
                );
                wanted = more;
            }
        }
    }
}

fn read_stripe(tail: &Arc<FileTail>, stripe: usize, source: &Arc<Memory>, values: &mut u64) -> Result<()> {
    let info = &tail.stripes[stripe];
    let footer = source.read(info.footer_range())?;
    let layout = Arc::new(StripeLayout::parse(tail, stripe, &footer)?);
    for stream in &layout.streams {
        assert!(stream.range().end <= tail.file_length, "{stream:?} leaves the file");
    }
    let mut first_error = None;
    for &column in tail.schema.fields().iter().take(MAX_COLUMNS) {
        if let Err(error) = read_column(tail, &layout, column, source, values) {
            first_error.get_or_insert(error);
        }
    }
    first_error.map_or(Ok(()), Err)
}

fn read_column(
    tail: &Arc<FileTail>,
    stripe: &Arc<StripeLayout>,
    column: ColumnId,
    source: &Arc<Memory>,
    values: &mut u64,
) -> Result<()> {
    // A broken index is an error to the user, but must not keep this test from the data behind it.
    let index = read_index(tail, stripe, column, source);
    let kept = index.as_ref().ok().and_then(Clone::clone);
    let access = Access::of(tail, stripe, column, kept.as_deref(), source.as_ref(), true)?;
    for rows in selections(stripe.info.rows) {
        for range in byte_ranges(tail, stripe, column, kept.as_deref(), &access, &rows)? {
            assert!(
                range.start <= range.end && range.end <= tail.file_length,
                "{range:?} leaves the file"
            );
        }
        let mut reader = ColumnReader::new(
            tail.clone(),
            stripe.clone(),
            column,
            kept.clone(),
            access.clone(),
            source.clone(),
        )?;
        *values += check(&reader.read(&rows)?, rows.rows());
        // The rows are read again, range by range, with a step back at the end.
        let Some(last) = rows.ranges().last().cloned() else {
            continue;
        };
        for range in rows
            .ranges()
            .iter()
            .take(8)
            .cloned()
            .chain([last, rows.ranges()[0].clone()])
        {
            let rows = RowSelection::range(range);
            check(&reader.read(&rows)?, rows.rows());
        }
    }
    index.map(|_| ())
}

fn read_index(
    tail: &FileTail,
    stripe: &StripeLayout,
    column: ColumnId,
    source: &Memory,
) -> Result<Option<Arc<ColumnIndex>>> {
    let ranges = IndexRanges::of(tail, stripe, column);
    let row_index = ranges.row_index.map(|range| source.read(range)).transpose()?;
    let bloom_filter = ranges.bloom_filter.map(|range| source.read(range)).transpose()?;
    if row_index.is_none() && bloom_filter.is_none() {
        return Ok(None);
    }
    let index = ColumnIndex::parse(tail, stripe, column, row_index.as_ref(), bloom_filter.as_ref())?;
    for filter in &index.bloom_filters {
        let _ = (
            filter.may_contain_long(42),
            filter.may_contain_double(0.5),
            filter.may_contain_bytes(b"orc"),
        );
    }
    Ok(Some(Arc::new(index)))
}

/// The stripe's first rows; a few far apart; its last rows.
fn selections(rows: u64) -> Vec<RowSelection> {
    let mut sparse = RowSelection::new();
    let step = (rows / 16).max(3);
    let mut row = 1;
    while row < rows && sparse.rows() < 40 {
        sparse.push(row..(row + 2).min(rows));
        row = row.saturating_add(step);
    }
    vec![
        RowSelection::range(0..rows.min(MAX_ROWS)),
        sparse,
        RowSelection::range(rows.saturating_sub(50)..rows),
    ]
}

fn check(array: &ArrayRef, rows: u64) -> u64 {
    assert_eq!(array.len() as u64, rows, "as many values as rows were asked for");
    array
        .to_data()
        .validate_full()
        .expect("an array that follows Arrow's rules");
    array.len() as u64
}
