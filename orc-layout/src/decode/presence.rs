//! [`Presence`], PRESENT streams: the rows that have a value, and the number of values that a range of rows has.

use arrow::buffer::NullBuffer;

use super::EntryPoint;
use super::bits::{BitBuilder, nulls, spread, spread_bits};
use super::boolean::BitReader;
use super::cursor::StreamSource;
use super::steps::{Step, Steps};
use crate::error::Result;
use crate::proto::stream::Kind;
use crate::schema::ColumnId;

/// A column's PRESENT stream, if any, and its bits since the last array.
pub(super) struct Presence {
    reader: Option<BitReader>,
    valid: BitBuilder,
    values: Steps,
}

impl Presence {
    pub(super) fn open(source: &StreamSource, column: ColumnId) -> Self {
        let reader = source
            .has(column, Kind::Present)
            .then(|| BitReader::new(source.open(column, Kind::Present)));
        Self {
            reader,
            valid: BitBuilder::default(),
            values: Steps::default(),
        }
    }

    /// The stream, for visitors of entry points.
    pub(super) fn stream(&mut self) -> Option<&mut dyn EntryPoint> {
        self.reader.as_mut().map(|reader| reader as &mut dyn EntryPoint)
    }

    /// Turns steps over rows into steps over values.
    pub(super) fn select<'a>(&'a mut self, rows: &'a [Step]) -> Result<&'a [Step]> {
        let Some(reader) = &mut self.reader else {
            return Ok(rows);
        };
        self.values.clear();
        for step in rows {
            self.values.skip(reader.skip(step.skip)?);
            self.values.read(reader.read(step.read, &mut self.valid)?);
        }
        Ok(self.values.as_slice())
    }

    /// Of the rows read since the last call, those that have a value; `parent` holds the rows whose parent has one.
    /// `None`: all.
    pub(super) fn finish(&mut self, parent: Option<&NullBuffer>) -> Option<NullBuffer> {
        if self.reader.is_none() {
            return parent.filter(|parent| parent.null_count() > 0).cloned();
        }
        let own = self.valid.finish();
        match parent {
            Some(parent) if parent.null_count() > 0 => nulls(spread_bits(&own, parent.inner())),
            _ => nulls(own),
        }
    }
}

/// One value for every row: the dense `values`, with gaps where rows are null.
pub(super) fn with_nulls<T: Copy + Default>(values: Vec<T>, nulls: Option<&NullBuffer>) -> Vec<T> {
    match nulls {
        Some(nulls) => spread(values, nulls.inner()),
        None => values,
    }
}
