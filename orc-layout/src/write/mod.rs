//! [`ArrowWriter`], Arrow batches to an ORC file laid out for on-demand reading. Direct streams are aligned, the row
//! index has positions and statistics, and columns that queries fetch by value are raw chunks.
//!
//! ```text
//! RecordBatch ─► types (schema) ─► portions (threads) ─► column (nulls, statistics, positions)
//!   ─► values (by type): strings (dictionary, byte_sequences), timestamp, decimal, nested; arrow_input (no nulls)
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
mod byte_sequences;
mod column;
mod column_checks;
mod column_properties;
mod decimal;
mod dictionary;
mod double_statistics;
mod nested;
mod portions;
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

use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;

use self::column::Column;
use self::column_checks::check_columns;
pub use self::column_properties::ColumnProperties;
pub use self::portions::EncodingThreads;
use self::portions::{Portion, Portions};
pub use self::stored_types::{stored_schema, to_stored};
use self::stream::Storage;
use self::tail::{ColumnContents, FileContents, MAGIC};
pub use self::writer_properties::{CHUNK_ALIGNMENT_BYTES, WriterProperties, WriterPropertiesBuilder};
use crate::error::{LayoutError, Result};
use crate::tail::{FileTail, TailParse};

/// Rows taken at a time if there is no row index.
const PORTION_ROWS: usize = 10_000;

/// Bytes of a stripe that are written at once. Larger pieces are written as they are.
const SINK_BUFFER_BYTES: usize = 64 << 10;

/// Writes one ORC file. Nothing is valid before
/// [`finish`](Self::finish), [`close`](Self::close) or [`into_inner`](Self::into_inner) has returned.
#[derive(Debug)]
pub struct ArrowWriter<W: Write> {
    sink: W,
    schema: SchemaRef,
    options: WriterProperties,
    storage: Storage,
    /// The columns, if a stripe has begun or its memory waits for the next one.
    root: Option<Column>,
    portions: Portions,
    threads: Option<Arc<dyn EncodingThreads>>,
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
        let (node, _) = types::root(&schema, &options)?;
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
        let mut contents = Vec::new();
        root.for_each(&mut |column| {
            contents.push(ColumnContents {
                statistics: column.no_statistics(),
                bytes: 0,
            });
        });
        let begun = sink.write_all(MAGIC.as_bytes()).and_then(|()| sink.flush());
        begun.map_err(sink_error)?;
        Ok(Self {
            sink,
            schema,
            portions: Portions::new(options.stripe_size_bytes),
            options,
            storage,
            contents: FileContents::new(contents),
            root: Some(root),
            threads: None,
            stripe_rows: 0,
            group_rows: 0,
            progress: FileProgress::Open,
        })
    }

    /// The same with threads, on which the columns of a stripe are encoded side by side. The file has the same bytes.
    pub fn with_threads(self, threads: Arc<dyn EncodingThreads>) -> Self {
        Self {
            threads: Some(threads),
            ..self
        }
    }

    /// Appends rows; may write finished stripes. With threads, rows can wait: an error about a value may come from a
    /// later call.
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

    /// Ends the stripe that is being collected, writes it to the sink, and frees the memory that it had.
    ///
    /// # Errors
    /// `Sink` when the sink fails; `Write` if an earlier write failed, or the file is finished.
    pub fn flush(&mut self) -> Result<()> {
        self.check_open()?;
        self.progress = FileProgress::Failed;
        self.end_stripe()?;
        self.root = None;
        self.contents.shrink();
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
        self.root.as_ref().map_or(0, Column::buffered_bytes) + self.portions.buffered_bytes()
    }

    /// Bytes held in memory, about: the stripe being collected, buffers for the next one, and what the tail will say of
    /// finished stripes. [`flush`](Self::flush) leaves the last part alone.
    pub fn memory_size(&self) -> usize {
        let columns = self.root.as_ref().map_or(0, Column::memory_size);
        size_of::<Self>() + columns + self.portions.buffered_bytes() + self.contents.memory_size()
    }

    fn write_tail(&mut self) -> Result<Bytes> {
        self.check_open()?;
        self.progress = FileProgress::Failed;
        self.end_stripe()?;
        let (_, types) = types::root(&self.schema, &self.options)?;
        let tail = Bytes::from(tail::encode(&self.options, self.storage, &self.contents, types)?);
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
        let starts_group = self.stripe_rows == 0 || self.group_rows == group;
        if starts_group {
            self.group_rows = 0;
        }
        let rows = (batch.num_rows() - from)
            .min(group - self.group_rows)
            .min(self.options.stripe_rows - self.stripe_rows)
            .min(if group == usize::MAX { PORTION_ROWS } else { usize::MAX });
        let columns: Vec<ArrayRef> = batch.columns().iter().map(|column| column.slice(from, rows)).collect();
        self.portions.push(Portion {
            starts_group,
            rows,
            columns,
        });
        self.stripe_rows += rows;
        self.group_rows += rows;
        let is_last = self.stripe_rows >= self.options.stripe_rows;
        let is_due = self.portions.take_due();
        if is_last || is_due || self.threads.as_ref().is_none_or(|threads| threads.count() < 2) {
            self.encode()?;
        }
        let is_large = || self.root.as_ref().map_or(0, Column::buffered_bytes) >= self.options.stripe_size_bytes;
        if is_last || is_due && is_large() {
            self.end_stripe()?;
        }
        Ok(rows)
    }

    /// Encodes the rows that wait.
    fn encode(&mut self) -> Result<()> {
        if self.root.is_none() {
            let (node, _) = types::root(&self.schema, &self.options)?;
            self.root = Some(Column::new(&node, &self.options, self.storage));
        }
        match &mut self.root {
            Some(root) => self.portions.encode(root, self.threads.as_deref()),
            None => Ok(()),
        }
    }

    /// Encodes the rest of the stripe and writes it to the sink.
    fn end_stripe(&mut self) -> Result<()> {
        if self.stripe_rows == 0 {
            return Ok(());
        }
        let threads = self.threads.clone();
        let (storage, alignment, offset) = (self.storage, self.options.alignment_bytes, self.contents.length);
        let (has_index, stripe_rows) = (self.options.row_index_stride > 0, self.stripe_rows);
        self.encode()?;
        let Some(root) = &mut self.root else { return Ok(()) };
        portions::finish(root, threads.as_deref())?;
        let index = match has_index {
            false => Vec::new(),
            true => stripe::index_streams(root, storage)?,
        };
        let mut encodings = Vec::new();
        root.for_each(&mut |column| encodings.push(column.encoding()));
        let mut streams = Vec::new();
        root.streams(stripe_rows, &mut streams);
        let rows = stripe_rows as u64;
        let layout = stripe::lay_out(offset, rows, index, encodings, &mut streams, storage, alignment)?;
        let mut sink = BufWriter::with_capacity(SINK_BUFFER_BYTES, &mut self.sink);
        let written = layout.write_to(&streams, &mut sink);
        let written = written
            .and_then(|bytes| sink.flush().map(|()| bytes))
            .map_err(sink_error)?;
        drop(sink);

        let mut contents = Vec::new();
        root.for_each_mut(&mut |column| {
            contents.push(ColumnContents {
                bytes: layout.column_bytes[column.id as usize],
                statistics: column.end_stripe(),
            });
        });
        self.contents.push(layout.information, written, &contents);
        self.portions.start_stripe();
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
