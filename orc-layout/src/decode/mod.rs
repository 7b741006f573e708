//! [`ColumnReader`], streams to values: exactly the selected rows of one top-level column of one stripe.
//!
//! 1. `plan` turns the rows into seeks to row groups, and steps (skip, read) from there.
//! 2. One `Decoder` per column of the tree turns steps over rows into steps over values (`steps`, `decoder_tree`).
//! 3. `presence`, `int`, `byte_rle` and `boolean` apply the steps to one stream's values.
//! 4. `cursor` fetches one stream's bytes through the [`ByteSource`], chunk by chunk.
//! 5. `finish` builds the arrays.
//!
//! `budget` bounds the text and the elements of one read. A dictionary has at most the stripe's rows as entries.
//!
//! - encodings: `rle_v1`, `rle_v2` and `bit_unpacking` (integers), `byte_rle`, `boolean`, `bits` (bitmaps)
//! - types: `numeric`, `decimal`, `timestamp` with `clock`, `hybrid_date`, `nested`
//! - text: `string`, `dictionary` with `entries`, `char_text`
//! - `direct`: values read in place

mod bit_unpacking;
mod bits;
mod boolean;
mod budget;
mod byte_rle;
mod char_text;
mod clock;
mod cursor;
mod decimal;
mod decoder_tree;
mod dictionary;
mod direct;
mod entries;
mod hybrid_date;
mod int;
mod nested;
mod numeric;
mod presence;
mod rle_v1;
mod rle_v2;
mod steps;
mod string;
mod timestamp;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray, UInt64Array, UInt64Builder, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;

use crate::access::Access;
use crate::error::{LayoutError, Result};
use crate::index::ColumnIndex;
use crate::positions::{ColumnPositions, GroupEnd, StreamPosition};
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::read_options::{Dictionaries, ReadOptions};
use crate::schema::ColumnId;
use crate::selection::RowSelection;
use crate::source::ByteSource;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

pub use clock::{Clock, ClockChange};
use cursor::StreamSource;
pub use entries::{Dictionary, DictionaryShare};
use steps::{Step, Steps};

/// Maximum bytes of text and list elements of one [`ColumnReader::read`], and of the entries of a dictionary.
pub const MAX_READ_BYTES: u64 = 256 << 20;

/// A stream that can be entered at row-index positions.
trait EntryPoint {
    /// Kind of the stream.
    fn kind(&self) -> Kind;

    /// Goes to a position. Reads no more than the values before that position in its run need.
    fn seek(&mut self, at: StreamPosition) -> Result<()>;

    /// Sets the end of the wanted bytes (`None`: the stream's end). Only the run and the chunk that straddle `end` are
    /// read beyond it.
    fn limit(&mut self, end: Option<GroupEnd>);
}

/// Decoder of one column of the tree, in the middle of its streams.
trait Decoder: Send {
    /// Visits every stream that has row-index positions; children's after their parent's.
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()>;

    /// Goes through `rows`: rows of the top-level column, values of the parent for its children.
    fn select(&mut self, rows: &[Step]) -> Result<()>;

    /// The array of everything read since the last call. Rows where `parent` is null become nulls, without a value.
    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef>;
}

/// Reader of one top-level column of one stripe. A new reader is cheap: nothing is read before [`read`](Self::read).
///
/// Calls with ascending rows reuse the open run and chunk; a call that goes back seeks. Columns without entry points
/// (no row index, nested types) are decoded from the stripe's start, once for ascending calls.
pub struct ColumnReader {
    source: StreamSource,
    column: ColumnId,
    arrow_type: DataType,
    /// Entry points by row group, if the column is entered by row group.
    positions: Option<ColumnPositions>,
    /// Row groups without any value; empty if no such group is known.
    empty_groups: Vec<bool>,
    access: Access,
    /// `None` for a direct column, and after an error, which leaves the streams at an unknown position.
    decoder: Option<Box<dyn Decoder>>,
    /// The row after the last decoded one.
    row: u64,
    scratch: direct::Scratch,
}

/// The entries of a column's dictionary in a stripe, in the order of their indexes.
///
/// # Errors
/// `Corrupt` for streams that do not hold the entries, `Io` from the source.
pub fn dictionary_entries(
    tail: Arc<FileTail>,
    stripe: Arc<StripeLayout>,
    column: ColumnId,
    source: Arc<dyn ByteSource>,
    options: ReadOptions,
) -> Result<StringArray> {
    let source = StreamSource {
        tail,
        stripe,
        source,
        budget: Arc::default(),
        options,
        dictionaries: None,
    };
    dictionary::entries(&source, column)
}

/// One step of a plan: an optional seek, and the steps from there.
struct ReadStep {
    seek: Option<u64>,
    steps: Steps,
    end: u64,
}

impl ColumnReader {
    /// Prepares to read `column` (a child of the root struct) with the default options.
    ///
    /// # Errors
    /// As [`with_options`](Self::with_options).
    pub fn new(
        tail: Arc<FileTail>,
        stripe: Arc<StripeLayout>,
        column: ColumnId,
        index: Option<Arc<ColumnIndex>>,
        access: Access,
        source: Arc<dyn ByteSource>,
    ) -> Result<Self> {
        Self::with_options(tail, stripe, column, index, access, source, ReadOptions::default())
    }

    /// Prepares to read `column` (a child of the root struct).
    ///
    /// # Errors
    /// `Corrupt` when streams or encodings that the type needs are missing, `Unsupported` for a writer's zone that is
    /// not known.
    pub fn with_options(
        tail: Arc<FileTail>,
        stripe: Arc<StripeLayout>,
        column: ColumnId,
        index: Option<Arc<ColumnIndex>>,
        access: Access,
        source: Arc<dyn ByteSource>,
        options: ReadOptions,
    ) -> Result<Self> {
        let source = StreamSource {
            tail,
            stripe,
            source,
            budget: Arc::default(),
            options,
            dictionaries: None,
        };
        let schema = &source.tail.schema;
        let field = schema.fields().iter().position(|&id| id == column);
        let field = field.and_then(|k| schema.arrow.fields().get(k));
        let Some(field) = field else {
            return Err(source.corrupt(0, format!("column {column} is not a field of the root struct")));
        };
        let mut arrow_type = options.timestamp_unit.apply(field.data_type());
        if options.dictionaries == Dictionaries::Keep && arrow_type == DataType::Utf8 && has_dictionary(&source, column)
        {
            arrow_type = dictionary::dictionary_type();
        }
        // A direct column needs no decoder, and a scan opens its columns in every stripe.
        let decoder = match &access {
            Access::Direct(_) => None,
            Access::Decode { .. } => Some(decoder_tree::open(&source, column, &arrow_type)?),
        };
        let positions = match (&access, &index) {
            (Access::Decode { seekable: true }, Some(index)) => {
                ColumnPositions::of(&source.tail, &source.stripe, column, &index.positions)
                    .map_err(|reason| source.corrupt(column, reason))?
            }
            _ => None,
        };
        let empty_groups = match (&positions, &index) {
            (Some(positions), Some(index)) => empty_groups(positions, index),
            _ => Vec::new(),
        };
        Ok(Self {
            source,
            column,
            arrow_type,
            positions,
            empty_groups,
            access,
            decoder,
            row: 0,
            scratch: direct::Scratch::default(),
        })
    }

    /// The reader with dictionaries that it shares with other readers of the stripe.
    #[must_use]
    pub fn sharing(mut self, dictionaries: Arc<dyn DictionaryShare>) -> Self {
        self.source.dictionaries = Some(dictionaries);
        self.decoder = None; // the next one opens with it
        self
    }

    /// The column's access.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The values of the selected rows (stripe-relative), in order: an array of `rows.rows()` values of the column's
    /// Arrow type.
    ///
    /// A contiguous range of an aligned direct column is returned without copying if the source's bytes allow it.
    ///
    /// # Errors
    /// As [`read_within`](Self::read_within) for [`MAX_READ_BYTES`].
    pub fn read(&mut self, rows: &RowSelection) -> Result<ArrayRef> {
        self.read_within(rows, MAX_READ_BYTES)
    }

    /// As [`read`](Self::read), for at most `limit_bytes` of text and list elements.
    ///
    /// What the read allocates is bounded by a small multiple of `limit_bytes` and of the rows' fixed width, by a chunk
    /// (8 MiB) for each stream, and by the column's dictionary.
    ///
    /// # Errors
    /// `TooLarge` if the values take more than `limit_bytes`; a selection of fewer rows may be read instead. `Corrupt`
    /// with stream and offset, `Io` from the source, `OutOfRange` for values that Arrow's type cannot hold.
    pub fn read_within(&mut self, rows: &RowSelection, limit_bytes: u64) -> Result<ArrayRef> {
        self.source.budget.start(limit_bytes);
        self.read_rows(rows).map_err(|error| match error {
            LayoutError::TooLarge {
                file,
                column,
                limit_bytes,
                ..
            } => LayoutError::TooLarge {
                file,
                column,
                rows: rows.rows(),
                limit_bytes,
            },
            error => error,
        })
    }

    fn read_rows(&mut self, rows: &RowSelection) -> Result<ArrayRef> {
        let stripe_rows = self.source.stripe.info.rows;
        if let Some(last) = rows.ranges().last()
            && last.end > stripe_rows
        {
            let reason = format!("row {} is wanted of a stripe of {stripe_rows} rows", last.end - 1);
            return Err(self.source.corrupt(self.column, reason));
        }
        if let Access::Direct(direct) = &self.access {
            return direct::read(&self.source, self.column, direct, rows, &mut self.scratch);
        }
        if let Some((with_values, places)) = self.without_empty_groups(rows) {
            if with_values.is_empty() {
                return Ok(new_null_array(&self.arrow_type, places.len()));
            }
            let values = self.decode(&with_values)?;
            return take(&values, &places, None).map_err(|error| self.source.corrupt(self.column, error.to_string()));
        }
        self.decode(rows)
    }

    /// If most of `rows` lie in row groups without a value: the other rows, and the position of each of `rows` among
    /// them.
    fn without_empty_groups(&self, rows: &RowSelection) -> Option<(RowSelection, UInt64Array)> {
        if self.empty_groups.is_empty() {
            return None;
        }
        let mut with_values = RowSelection::new();
        let mut places = UInt64Builder::new();
        for range in rows.ranges() {
            let mut row = range.start;
            while row < range.end {
                let group = self.group_of(row);
                let end = range.end.min((group + 1).saturating_mul(self.stride()));
                if self.empty_groups.get(group as usize) == Some(&true) {
                    places.append_nulls((end - row) as usize);
                } else {
                    let first = with_values.rows();
                    (first..first + (end - row)).for_each(|place| places.append_value(place));
                    with_values.push(row..end);
                }
                row = end;
            }
        }
        // Runs of nulls are decoded faster than many values are moved.
        (with_values.rows() * 2 <= rows.rows()).then(|| (with_values, places.finish()))
    }

    fn decode(&mut self, rows: &RowSelection) -> Result<ArrayRef> {
        let mut decoder = match self.decoder.take() {
            Some(decoder) => decoder,
            None => {
                self.row = 0;
                decoder_tree::open(&self.source, self.column, &self.arrow_type)?
            }
        };
        for stretch in self.plan(rows) {
            self.go(&mut *decoder, &stretch)?;
        }
        let array = decoder.finish(None)?;
        if array.len() as u64 != rows.rows() {
            let reason = format!("{} rows were read instead of {}", array.len(), rows.rows());
            return Err(self.source.corrupt(self.column, reason));
        }
        self.decoder = Some(decoder);
        Ok(array)
    }

    /// The seeks, and the rows to skip and read after each. Later rows of the same row group are skipped to; other rows
    /// are sought if the row index has their position.
    fn plan(&self, rows: &RowSelection) -> Vec<ReadStep> {
        let mut row = self.row;
        let stretch = |seek, at| ReadStep {
            seek,
            steps: Steps::default(),
            end: at,
        };
        let mut stretches = vec![stretch(None, row)];
        for range in rows.ranges() {
            let group = self.group_of(range.start);
            if range.start < row || group != self.group_of(row) {
                row = group * self.stride();
                stretches.push(stretch(Some(group), row));
            }
            if let Some(last) = stretches.last_mut() {
                last.steps.skip(range.start - row);
                last.steps.read(range.end - range.start);
                last.end = range.end;
            }
            row = range.end;
        }
        stretches
    }

    fn go(&mut self, decoder: &mut dyn Decoder, stretch: &ReadStep) -> Result<()> {
        if stretch.steps.as_slice().is_empty() {
            return Ok(());
        }
        // The limits are set before the seek, because a seek may read the first values of a run.
        let after = self.group_of(stretch.end - 1) + 1;
        decoder.streams(&mut |stream| {
            stream.limit(self.end_before(after, stream.kind()));
            Ok(())
        })?;
        if let Some(group) = stretch.seek {
            decoder.streams(&mut |stream| stream.seek(self.position(group, stream.kind()).unwrap_or_default()))?;
        }
        decoder.select(stretch.steps.as_slice())?;
        self.row = stretch.end;
        Ok(())
    }

    /// Rows per row group; without entry points the whole stripe is one.
    fn stride(&self) -> u64 {
        match (
            &self.positions,
            self.source.tail.row_group_stride(&self.source.stripe.info),
        ) {
            (Some(_), Some(stride)) => u64::from(stride).max(1),
            _ => u64::MAX,
        }
    }

    fn group_of(&self, row: u64) -> u64 {
        row / self.stride()
    }

    /// Start of a row group in a stream; `None` for the first group and beyond the last.
    fn position(&self, group: u64, kind: Kind) -> Option<StreamPosition> {
        self.positions.as_ref()?.at(usize::try_from(group).ok()?, kind)
    }

    /// End of everything before a row group in a stream; `None` beyond the last group.
    fn end_before(&self, group: u64, kind: Kind) -> Option<GroupEnd> {
        self.positions
            .as_ref()?
            .end_before_group(usize::try_from(group).ok()?, kind)
    }
}

/// Whether the stripe stores the column with a dictionary.
fn has_dictionary(source: &StreamSource, column: ColumnId) -> bool {
    let encoding = source.stripe.encodings.get(column as usize);
    encoding.is_some_and(|encoding| matches!(encoding.kind, Encoding::Dictionary | Encoding::DictionaryV2))
}

fn empty_groups(positions: &ColumnPositions, index: &ColumnIndex) -> Vec<bool> {
    let groups = 0..positions.row_groups();
    let empty: Vec<bool> = groups
        .map(|group| positions.is_empty_group(&index.statistics, group))
        .collect();
    if empty.contains(&true) { empty } else { Vec::new() }
}
