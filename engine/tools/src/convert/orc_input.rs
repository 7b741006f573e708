//! ORC files as an [`Input`]: whole columns, stripe after stripe, through the readers of `grampus-orc-layout`.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use grampus_orc_layout::access::Access;
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::read_options::{ReadOptions, TimestampUnit};
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::FileTail;
use grampus_orc_layout::{LayoutError, Result, metadata_reader};

use super::input::{BATCH_ROWS, Fault, Input, positions};
use crate::error::ToolError;
use crate::file_source::FileSource;

/// Opens an ORC file for reading from front to back. Timestamps have the unit that holds all values of their column.
pub(super) fn open(path: &Path, columns: Option<&[String]>) -> Result<Input, ToolError> {
    let (tail, source) = open_tail(path)?;
    let positions = positions(&tail.schema.arrow, columns).map_err(|fault| fault.in_input(path))?;
    let unit = |&position: &usize| tail.timestamp_unit(tail.schema.fields()[position]).unwrap_or_default();
    let units = positions.iter().map(unit).collect();
    input(tail, source, &positions, units)
}

/// Opens a file whose columns were written from arrays of `schema`. Timestamps have the units of these arrays.
pub(super) fn open_written(path: &Path, schema: &Schema) -> Result<Input, ToolError> {
    let (tail, source) = open_tail(path)?;
    let positions: Vec<usize> = (0..tail.schema.fields().len()).collect();
    let unit = |&position: &usize| {
        let field = schema.fields().get(position);
        field.map_or_else(TimestampUnit::default, |field| TimestampUnit::of(field.data_type()))
    };
    let units = positions.iter().map(unit).collect();
    input(tail, source, &positions, units)
}

fn input(
    tail: FileTail,
    source: Arc<dyn ByteSource>,
    positions: &[usize],
    units: Vec<TimestampUnit>,
) -> Result<Input, ToolError> {
    let read_as = |(&position, unit): (&usize, &TimestampUnit)| {
        let field = tail.schema.arrow.field(position);
        field.clone().with_data_type(unit.apply(field.data_type()))
    };
    let fields: Vec<Field> = positions.iter().zip(&units).map(read_as).collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let columns = positions.iter().map(|&p| tail.schema.fields()[p]).zip(units).collect();
    let batches = Batches {
        tail: Arc::new(tail),
        source,
        columns,
        schema: Arc::clone(&schema),
        next_stripe: 0,
        open: None,
        batch_rows: BATCH_ROWS as u64,
    };
    Ok(Input {
        schema,
        batches: Box::new(batches.map(|batch| batch.map_err(Fault::from))),
    })
}

fn open_tail(path: &Path) -> Result<(FileTail, Arc<dyn ByteSource>)> {
    let source = FileSource::open(path)?;
    let tail = metadata_reader::read_tail(&source.name(), source.length(), &source)?;
    Ok((tail, Arc::new(source)))
}

/// A stripe being read.
struct OpenStripe {
    readers: Vec<ColumnReader>,
    rows: u64,
    next_row: u64,
}

/// The file's batches.
struct Batches {
    tail: Arc<FileTail>,
    source: Arc<dyn ByteSource>,
    columns: Vec<(ColumnId, TimestampUnit)>,
    schema: SchemaRef,
    next_stripe: usize,
    open: Option<OpenStripe>,
    /// Rows of a batch: fewer, once a batch's values were too large.
    batch_rows: u64,
}

impl Batches {
    fn open_stripe(&self, index: usize) -> Result<OpenStripe> {
        let footer = self.source.read(self.tail.stripes[index].footer_range())?;
        let stripe = Arc::new(StripeLayout::parse(&self.tail, index, &footer)?);
        let reader = |&(column, timestamp_unit): &(ColumnId, TimestampUnit)| -> Result<ColumnReader> {
            let source = self.source.as_ref();
            let access = Access::of(&self.tail, &stripe, column, None, source, false)?;
            let (tail, stripe) = (Arc::clone(&self.tail), Arc::clone(&stripe));
            let options = ReadOptions::new().with_timestamp_unit(timestamp_unit);
            ColumnReader::with_options(tail, stripe, column, None, access, Arc::clone(&self.source), options)
        };
        Ok(OpenStripe {
            readers: self.columns.iter().map(reader).collect::<Result<_>>()?,
            rows: stripe.info.rows,
            next_row: 0,
        })
    }

    /// The next batch; `None` at the end of the file.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(open) = self.open.as_mut().filter(|o| o.next_row < o.rows) {
                let end = (open.next_row + self.batch_rows).min(open.rows);
                let rows = RowSelection::range(open.next_row..end);
                let arrays = open.readers.iter_mut().map(|r| r.read(&rows));
                let arrays = match arrays.collect::<Result<Vec<ArrayRef>>>() {
                    Err(LayoutError::TooLarge { .. }) if rows.rows() > 1 => {
                        self.batch_rows = rows.rows() / 2;
                        continue;
                    }
                    arrays => arrays?,
                };
                open.next_row = end;
                let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
                return batch.map(Some).map_err(|e| LayoutError::Corrupt {
                    file: Arc::clone(&self.tail.file),
                    offset: self.tail.stripes[self.next_stripe - 1].offset,
                    place: format!("stripe {}", self.next_stripe - 1),
                    reason: e.to_string(),
                });
            }
            if self.next_stripe == self.tail.stripes.len() {
                return Ok(None);
            }
            self.next_stripe += 1;
            self.open = Some(self.open_stripe(self.next_stripe - 1)?);
        }
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.next_batch();
        if batch.is_err() {
            // An error is the last item.
            self.next_stripe = self.tail.stripes.len();
            self.open = None;
        }
        batch.transpose()
    }
}
