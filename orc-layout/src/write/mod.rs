//! [`ArrowWriter`], Arrow batches to an ORC file laid out for on-demand reading. Direct streams are aligned, the row
//! index has positions and statistics, and columns that queries fetch by value are raw chunks.
//!
//! ```text
//! RecordBatch ─► types (schema) ─► column (nulls, statistics, positions)
//!   ─► values (by type): strings with dictionary, timestamp, decimal, nested; arrow_input (without nulls)
//!   ─► encodings: rle_v2, byte_rle, run_encoder, bits
//!   ─► stream (chunks) ─► stripe (order, padding) ─► tail
//!
//! beside them: stored_types (any Arrow type to a stored one)
//! beside them: writer_properties with column_properties and column_checks; text_limit (CHAR, VARCHAR)
//! beside them: statistics with double_statistics and string_bound; bloom
//! ```
//!
//! **Invariant:** every run ends where a row group ends. A row group's bytes therefore begin at its positions, and
//! nothing is skipped but bits of a shared byte. Reading one row group costs no byte of its neighbours, as far as
//! chunks allow.

mod arrow_input;
mod bits;
mod bloom;
mod byte_rle;
mod column;
mod column_checks;
mod column_properties;
mod decimal;
mod dictionary;
mod double_statistics;
mod nested;
mod rle_v2;
mod run_encoder;
mod statistics;
mod stored_types;
mod stream;
mod string_bound;
mod strings;
mod stripe;
mod tail;
mod text_limit;
mod timestamp;
mod types;
mod values;
mod writer_properties;

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;

use self::column::Column;
use self::column_checks::check_columns;
pub use self::column_properties::ColumnProperties;
pub use self::stored_types::{stored_schema, to_stored};
use self::stream::Storage;
use self::tail::{FileContents, MAGIC};
pub use self::writer_properties::{CHUNK_ALIGNMENT_BYTES, WriterProperties, WriterPropertiesBuilder};
use crate::error::{LayoutError, Result};
use crate::proto;
use crate::tail::{FileTail, TailParse};

/// Rows taken at a time if there is no row index.
const PORTION_ROWS: usize = 10_000;

/// Writes one ORC file. Nothing is valid before
/// [`finish`](Self::finish), [`close`](Self::close) or [`into_inner`](Self::into_inner) has returned.
#[derive(Debug)]
pub struct ArrowWriter<W: Write> {
    sink: W,
    schema: SchemaRef,
    options: WriterProperties,
    storage: Storage,
    root: Column,
    types: Vec<proto::Type>,
    contents: FileContents,
    /// Rows of the stripe being collected.
    stripe_rows: usize,
    /// Rows of its current row group.
    group_rows: usize,
    progress: FileProgress,
}

/// What can still happen to the file.
#[derive(Debug)]
enum FileProgress {
    /// Rows can be written.
    Open,
    /// A write failed: the rows are incomplete.
    Failed,
    /// The tail is written.
    Finished,
}

impl<W: Write> ArrowWriter<W> {
    /// Starts a file with this schema: primitive types, decimals, timestamps, strings and binary, and lists, structs,
    /// maps and unions of them. `None` stands for the default properties.
    ///
    /// A field's metadata becomes its type's attributes. [`TEXT_TYPE_KEY`](crate::text_type::TEXT_TYPE_KEY) in it makes
    /// a text column CHAR or VARCHAR.
    ///
    /// # Errors
    /// `Write` for types that ORC cannot store (unsigned 64-bit, intervals, …) and for properties that contradict each
    /// other or the schema; `Sink` when the sink fails.
    pub fn try_new(mut sink: W, schema: SchemaRef, properties: Option<WriterProperties>) -> Result<Self> {
        let options = properties.unwrap_or_default();
        options.check(&schema)?;
        let (node, types) = types::root(&schema, &options)?;
        check_columns(&options, &node)?;
        let storage = match options.codec {
            None => Storage::Raw,
            codec => Storage::Chunks {
                codec,
                size_bytes: options.chunk_size_bytes,
            },
        };
        let root = Column::new(&node, &options, storage);
        let refused = root
            .children
            .iter()
            .zip(schema.fields())
            .find(|(column, _)| column.bloom_filter_refused());
        if let Some((_, field)) = refused {
            return Err(LayoutError::Write(format!(
                "column {}: no bloom filters are made of {}",
                field.name(),
                field.data_type()
            )));
        }
        sink.write_all(MAGIC.as_bytes()).map_err(sink_error)?;
        Ok(Self {
            sink,
            schema,
            options,
            storage,
            root,
            types,
            contents: FileContents {
                length: MAGIC.len() as u64,
                ..Default::default()
            },
            stripe_rows: 0,
            group_rows: 0,
            progress: FileProgress::Open,
        })
    }

    /// Appends rows; may write finished stripes.
    ///
    /// # Errors
    /// `Write` when the batch's schema differs or a value cannot be stored; `Sink` when the sink fails (disk full).
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_open()?;
        self.check(batch)?;
        self.progress = FileProgress::Failed;
        let mut done = 0;
        while done < batch.num_rows() {
            done += self.write_portion(batch, done)?;
        }
        self.progress = FileProgress::Open;
        Ok(())
    }

    /// Ends the stripe that is being collected and writes it to the sink.
    ///
    /// # Errors
    /// `Sink` when the sink fails; `Write` if an earlier write failed, or the file is finished.
    pub fn flush(&mut self) -> Result<()> {
        self.check_open()?;
        self.progress = FileProgress::Failed;
        self.end_stripe()?;
        self.sink.flush().map_err(sink_error)?;
        self.progress = FileProgress::Open;
        Ok(())
    }

    /// Writes the last stripe and the tail. Returns what a reader finds in the tail: stripes, types, statistics.
    ///
    /// # Errors
    /// `Sink` when the sink fails; `Write` if an earlier write failed, or the file is finished.
    pub fn finish(&mut self) -> Result<FileTail> {
        let tail = self.write_tail()?;
        match FileTail::parse(&"written file".into(), self.contents.length, &tail)? {
            TailParse::Complete(parsed) => Ok(*parsed),
            TailParse::NeedBytes(_) => Err(LayoutError::Write("the written tail is not complete".into())),
        }
    }

    /// As [`finish`](Self::finish), and drops the sink.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn close(mut self) -> Result<FileTail> {
        self.finish()
    }

    /// Finishes the file, if that has not been done, and returns the sink.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn into_inner(mut self) -> Result<W> {
        if !matches!(self.progress, FileProgress::Finished) {
            self.write_tail()?;
        }
        Ok(self.sink)
    }

    /// The sink.
    pub fn inner(&self) -> &W {
        &self.sink
    }

    /// Rows of the stripe being collected.
    pub fn in_progress_rows(&self) -> usize {
        self.stripe_rows
    }

    /// Bytes of the stripe being collected, about.
    pub fn in_progress_size(&self) -> usize {
        self.root.buffered_bytes()
    }

    fn write_tail(&mut self) -> Result<Bytes> {
        self.check_open()?;
        self.progress = FileProgress::Failed;
        self.end_stripe()?;
        let mut statistics = Vec::with_capacity(self.types.len());
        self.root.for_each(&mut |column| {
            statistics.push(proto::ColumnStatistics {
                bytes_on_disk: Some(column.file_bytes),
                ..column.file.to_proto()
            });
        });
        let (contents, types) = (std::mem::take(&mut self.contents), std::mem::take(&mut self.types));
        (self.contents.rows, self.contents.length) = (contents.rows, contents.length);
        let tail = Bytes::from(tail::encode(&self.options, self.storage, contents, types, statistics)?);
        let written = self.sink.write_all(&tail).and_then(|()| self.sink.flush());
        written.map_err(sink_error)?;
        self.contents.length += tail.len() as u64;
        self.progress = FileProgress::Finished;
        Ok(tail)
    }

    /// Rows taken so far.
    pub fn rows(&self) -> u64 {
        self.contents.rows + self.stripe_rows as u64
    }

    /// Bytes written to the sink so far, without the stripe being collected.
    pub fn bytes_written(&self) -> u64 {
        self.contents.length
    }

    fn check_open(&self) -> Result<()> {
        let reason = match self.progress {
            FileProgress::Open => return Ok(()),
            FileProgress::Failed => "the file is incomplete, because an earlier write failed",
            FileProgress::Finished => "the file is finished",
        };
        Err(LayoutError::Write(reason.into()))
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let (ours, theirs) = (self.schema.fields(), batch.schema_ref().fields());
        if ours.len() != theirs.len() {
            return Err(LayoutError::Write(format!(
                "a batch has {} columns, the file {}",
                theirs.len(),
                ours.len()
            )));
        }
        for (ours, theirs) in ours.iter().zip(theirs) {
            if ours.data_type() != theirs.data_type() || ours.name() != theirs.name() {
                return Err(LayoutError::Write(format!(
                    "a batch has column {} ({}) where the file has {} ({})",
                    theirs.name(),
                    theirs.data_type(),
                    ours.name(),
                    ours.data_type()
                )));
            }
        }
        Ok(())
    }

    /// Takes rows up to the end of the row group, the stripe or the batch; returns their number.
    fn write_portion(&mut self, batch: &RecordBatch, from: usize) -> Result<usize> {
        let group = match self.options.row_index_stride {
            0 => usize::MAX,
            stride => stride as usize,
        };
        if self.stripe_rows == 0 || self.group_rows == group {
            self.root.start_group()?;
            self.group_rows = 0;
        }
        let rows = (batch.num_rows() - from)
            .min(group - self.group_rows)
            .min(self.options.stripe_rows - self.stripe_rows)
            .min(if group == usize::MAX { PORTION_ROWS } else { usize::MAX });
        let columns: Vec<ArrayRef> = batch.columns().iter().map(|column| column.slice(from, rows)).collect();
        self.root.write_root(rows, &columns)?;
        self.stripe_rows += rows;
        self.group_rows += rows;
        let full = self.stripe_rows >= self.options.stripe_rows
            || self.root.buffered_bytes() >= self.options.stripe_size_bytes;
        if full {
            self.end_stripe()?;
        }
        Ok(rows)
    }

    /// Encodes the rest of the stripe and writes it to the sink.
    fn end_stripe(&mut self) -> Result<()> {
        if self.stripe_rows == 0 {
            return Ok(());
        }
        self.root.finish()?;
        let index = match self.options.row_index_stride {
            0 => Vec::new(),
            _ => stripe::index_streams(&mut self.root, self.storage)?,
        };
        let mut encodings = Vec::with_capacity(self.types.len());
        self.root.for_each(&mut |column| encodings.push(column.encoding()));
        let mut streams = Vec::new();
        self.root.streams(self.stripe_rows, &mut streams);
        let rows = self.stripe_rows as u64;
        let alignment = self.options.alignment_bytes;
        let layout = stripe::lay_out(
            self.contents.length,
            rows,
            index,
            encodings,
            &mut streams,
            self.storage,
            alignment,
        )?;
        let written = layout.write_to(&streams, &mut self.sink).map_err(sink_error)?;

        self.contents.length += written;
        self.contents.rows += rows;
        self.contents.stripes.push(layout.information);
        let mut statistics = proto::StripeStatistics::default();
        self.root.for_each_mut(&mut |column| {
            statistics
                .col_stats
                .push(column.end_stripe(layout.column_bytes[column.id as usize]));
        });
        self.contents.stripe_statistics.push(statistics);
        self.stripe_rows = 0;
        self.group_rows = 0;
        Ok(())
    }
}

/// The system's message, with advice for the common cause.
fn sink_error(error: io::Error) -> LayoutError {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; free some space or write elsewhere",
        _ => "",
    };
    LayoutError::Sink {
        reason: format!("{error}{advice}; the file is incomplete and should be removed"),
        source: Arc::new(error),
    }
}
