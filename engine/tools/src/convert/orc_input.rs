//! ORC files as an [`Input`]: whole columns, stripe after stripe, through the readers of `grampus-orc-layout`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use grampus_orc_layout::access::Access;
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::{FileTail, TailParse};
use grampus_orc_layout::{LayoutError, Result};

use super::input::{BATCH_ROWS, Fault, Input, positions};
use crate::error::ToolError;

/// Opens an ORC file for reading from front to back.
pub(super) fn open(path: &Path, columns: Option<&[String]>) -> Result<Input, ToolError> {
    let (tail, source) = open_tail(path)?;
    let positions = positions(&tail.schema.arrow, columns).map_err(|fault| fault.in_input(path))?;
    let schema = tail.schema.arrow.project(&positions);
    let schema: SchemaRef = Arc::new(schema.map_err(|e| ToolError::Options(e.to_string()))?);
    let columns = positions.iter().map(|&p| tail.schema.fields()[p]).collect();
    let batches = Batches {
        tail: Arc::new(tail),
        source,
        columns,
        schema: Arc::clone(&schema),
        next_stripe: 0,
        open: None,
    };
    Ok(Input {
        schema,
        batches: Box::new(batches.map(|batch| batch.map_err(Fault::from))),
    })
}

fn open_tail(path: &Path) -> Result<(FileTail, Arc<dyn ByteSource>)> {
    let name: Arc<str> = path.display().to_string().into();
    let fail = |e: io::Error| LayoutError::Io {
        file: Arc::clone(&name),
        offset: 0,
        length: 0,
        reason: e.to_string(),
    };
    let file = File::open(path).map_err(fail)?;
    let length = file.metadata().map_err(fail)?.len();
    let source = FileSource {
        name: Arc::clone(&name),
        file,
    };
    let mut wanted = FileTail::FIRST_READ_BYTES;
    loop {
        let last = source.read(length - wanted.min(length)..length)?;
        match FileTail::parse(&name, length, &last)? {
            TailParse::Complete(tail) => return Ok((*tail, Arc::new(source))),
            // A tail that asks for no more bytes than it has seen would ask for ever.
            TailParse::NeedBytes(more) if more > wanted && wanted < length => wanted = more,
            TailParse::NeedBytes(_) => {
                return Err(LayoutError::NotOrc {
                    file: name,
                    reason: "its tail is longer than the file".to_owned(),
                });
            }
        }
    }
}

/// Positioned reads from a local file.
struct FileSource {
    name: Arc<str>,
    file: File,
}

impl ByteSource for FileSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let length = range.end.saturating_sub(range.start);
        let mut buffer = vec![0; length as usize];
        match read_at(&self.file, &mut buffer, range.start) {
            Ok(()) => Ok(buffer.into()),
            Err(e) => Err(LayoutError::Io {
                file: Arc::clone(&self.name),
                offset: range.start,
                length,
                reason: e.to_string(),
            }),
        }
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
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
    columns: Vec<ColumnId>,
    schema: SchemaRef,
    next_stripe: usize,
    open: Option<OpenStripe>,
}

impl Batches {
    fn open_stripe(&self, index: usize) -> Result<OpenStripe> {
        let footer = self.source.read(self.tail.stripes[index].footer_range())?;
        let stripe = Arc::new(StripeLayout::parse(&self.tail, index, &footer)?);
        let reader = |&column: &ColumnId| -> Result<ColumnReader> {
            let source = self.source.as_ref();
            let access = Access::of(&self.tail, &stripe, column, None, source, false)?;
            let (tail, stripe) = (Arc::clone(&self.tail), Arc::clone(&stripe));
            ColumnReader::new(tail, stripe, column, None, access, Arc::clone(&self.source))
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
                let end = (open.next_row + BATCH_ROWS as u64).min(open.rows);
                let rows = RowSelection::range(open.next_row..end);
                open.next_row = end;
                let arrays = open.readers.iter_mut().map(|r| r.read(&rows));
                let arrays = arrays.collect::<Result<Vec<ArrayRef>>>()?;
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
