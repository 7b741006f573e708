//! Decoders of STRUCT, LIST, MAP and UNION: a selection of rows becomes a selection of each child's values, and the
//! children's arrays become one.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray, MapArray, StructArray, UnionArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{FieldRef, Fields, UnionFields};
use arrow::error::ArrowError;

use super::bits::spread;
use super::budget::fixed_bytes;
use super::byte_rle::ByteRle;
use super::cursor::StreamSource;
use super::presence::Presence;
use super::steps::{Step, Steps, read_count};
use super::string::Lengths;
use super::{Decoder, EntryPoint};
use crate::error::Result;
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::schema::ColumnId;

type Visit<'a> = dyn FnMut(&mut dyn EntryPoint) -> Result<()> + 'a;

/// STRUCT.
pub(super) struct StructDecoder {
    presence: Presence,
    children: Vec<Box<dyn Decoder>>,
    fields: Fields,
    /// Values since the last array, and with the parent's nulls the rows.
    values: u64,
    source: StreamSource,
    column: ColumnId,
}

impl StructDecoder {
    pub(super) fn open(
        source: &StreamSource,
        column: ColumnId,
        fields: Fields,
        children: Vec<Box<dyn Decoder>>,
    ) -> Self {
        Self {
            presence: Presence::open(source, column),
            children,
            fields,
            values: 0,
            source: source.clone(),
            column,
        }
    }
}

impl Decoder for StructDecoder {
    fn streams(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        self.children.iter_mut().try_for_each(|child| child.streams(visit))
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        let values = self.presence.select(rows)?;
        self.values = self.values.saturating_add(read_count(values));
        self.children.iter_mut().try_for_each(|child| child.select(values))
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = self.presence.finish(parent);
        let values = std::mem::take(&mut self.values);
        let rows = nulls.as_ref().map_or(values as usize, |nulls| nulls.len());
        let children = self.children.iter_mut().map(|child| child.finish(nulls.as_ref()));
        let children = children.collect::<Result<Vec<_>>>()?;
        let array = StructArray::try_new_with_length(self.fields.clone(), children, nulls, rows);
        Ok(Arc::new(
            array.map_err(|error| mismatch(&self.source, self.column, &error))?,
        ))
    }
}

/// The error for children that make no array together: a null map key, for example.
fn mismatch(source: &StreamSource, column: ColumnId, error: &ArrowError) -> crate::LayoutError {
    source.corrupt(column, error.to_string())
}

/// Shared state of LIST and MAP: the number of parts of each row.
struct NestedParts {
    presence: Presence,
    lengths: Lengths,
    steps: Steps,
    /// Fixed bytes of each part.
    part_bytes: u64,
    source: StreamSource,
    column: ColumnId,
}

impl NestedParts {
    fn open(source: &StreamSource, column: ColumnId, encoding: Encoding, part: &FieldRef) -> Self {
        Self {
            presence: Presence::open(source, column),
            lengths: Lengths::open(source, column, encoding),
            steps: Steps::default(),
            part_bytes: fixed_bytes(part.data_type()),
            source: source.clone(),
            column,
        }
    }

    fn streams(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        visit(self.lengths.stream())
    }

    fn select(&mut self, rows: &[Step]) -> Result<&[Step]> {
        self.steps.clear();
        let values = self.presence.select(rows)?;
        if self.lengths.select(values, &mut self.steps)?.is_none() {
            let reason = "the rows selected at once have more than 2^31 - 1 elements; read fewer rows at a time";
            return Err(self.source.out_of_range(self.column, reason));
        }
        let bytes = read_count(self.steps.as_slice()).saturating_mul(self.part_bytes);
        self.source.spend(self.column, bytes)?;
        Ok(self.steps.as_slice())
    }
}

/// LIST.
pub(super) struct ListDecoder {
    parts: NestedParts,
    item: Box<dyn Decoder>,
    field: FieldRef,
}

impl ListDecoder {
    pub(super) fn open(
        source: &StreamSource,
        column: ColumnId,
        encoding: Encoding,
        field: FieldRef,
        item: Box<dyn Decoder>,
    ) -> Self {
        let parts = NestedParts::open(source, column, encoding, &field);
        Self { parts, item, field }
    }
}

impl Decoder for ListDecoder {
    fn streams(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        self.parts.streams(visit)?;
        self.item.streams(visit)
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        self.item.select(self.parts.select(rows)?)
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = self.parts.presence.finish(parent);
        let offsets = self.parts.lengths.finish(nulls.as_ref());
        let items = self.item.finish(None)?;
        let array = ListArray::try_new(self.field.clone(), offsets, items, nulls);
        let NestedParts { source, column, .. } = &self.parts;
        Ok(Arc::new(array.map_err(|error| mismatch(source, *column, &error))?))
    }
}

/// MAP.
pub(super) struct MapDecoder {
    parts: NestedParts,
    children: [Box<dyn Decoder>; 2],
    entries: FieldRef,
    fields: Fields,
}

impl MapDecoder {
    pub(super) fn open(
        source: &StreamSource,
        column: ColumnId,
        encoding: Encoding,
        (entries, fields): (FieldRef, Fields),
        children: [Box<dyn Decoder>; 2],
    ) -> Self {
        Self {
            parts: NestedParts::open(source, column, encoding, &entries),
            children,
            entries,
            fields,
        }
    }
}

impl Decoder for MapDecoder {
    fn streams(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        self.parts.streams(visit)?;
        self.children.iter_mut().try_for_each(|child| child.streams(visit))
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        let entries = self.parts.select(rows)?;
        self.children.iter_mut().try_for_each(|child| child.select(entries))
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = self.parts.presence.finish(parent);
        let offsets = self.parts.lengths.finish(nulls.as_ref());
        let [keys, values] = &mut self.children;
        let children = vec![keys.finish(None)?, values.finish(None)?];
        let array = StructArray::try_new(self.fields.clone(), children, None)
            .and_then(|entries| MapArray::try_new(self.entries.clone(), offsets, entries, nulls, false));
        let NestedParts { source, column, .. } = &self.parts;
        Ok(Arc::new(array.map_err(|error| mismatch(source, *column, &error))?))
    }
}

/// UNION, as Arrow's sparse unions. Arrow unions have no nulls of their own: a null row is a null of the first variant.
pub(super) struct UnionDecoder {
    presence: Presence,
    tags: ByteRle,
    children: Vec<Box<dyn Decoder>>,
    fields: UnionFields,
    /// Tags of the values since the last array.
    read_tags: Vec<i8>,
    scratch: Vec<i8>,
    source: StreamSource,
    column: ColumnId,
}

impl UnionDecoder {
    pub(super) fn open(
        source: &StreamSource,
        column: ColumnId,
        fields: UnionFields,
        children: Vec<Box<dyn Decoder>>,
    ) -> Self {
        Self {
            presence: Presence::open(source, column),
            tags: ByteRle::new(source.open(column, Kind::Data)),
            children,
            fields,
            read_tags: Vec::new(),
            scratch: Vec::new(),
            source: source.clone(),
            column,
        }
    }
}

/// Tags examined at a time in a skip.
const TAGS: u64 = 4096;

impl Decoder for UnionDecoder {
    fn streams(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        visit(&mut self.tags)?;
        self.children.iter_mut().try_for_each(|child| child.streams(visit))
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        let mut steps: Vec<Steps> = self.children.iter().map(|_| Steps::default()).collect();
        let unknown = |tags: &ByteRle| tags.cursor().corrupt("a tag names no variant of the union");
        for step in self.presence.select(rows)? {
            let mut left = step.skip;
            while left > 0 {
                let part = left.min(TAGS);
                self.scratch.clear();
                self.tags.read(part as usize, &mut self.scratch)?;
                for &tag in &self.scratch {
                    steps.get_mut(tag as usize).ok_or_else(|| unknown(&self.tags))?.skip(1);
                }
                left -= part;
            }
            let first = self.read_tags.len();
            self.tags.read(step.read as usize, &mut self.read_tags)?;
            for &tag in &self.read_tags[first..] {
                steps.get_mut(tag as usize).ok_or_else(|| unknown(&self.tags))?.read(1);
            }
        }
        let mut children = self.children.iter_mut().zip(&steps);
        children.try_for_each(|(child, steps)| child.select(steps.as_slice()))
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = self.presence.finish(parent);
        let dense = std::mem::take(&mut self.read_tags);
        let tags = match &nulls {
            Some(nulls) => spread(dense, nulls.inner()),
            None => dense,
        };
        let mut children = Vec::with_capacity(self.children.len());
        for (index, child) in self.children.iter_mut().enumerate() {
            let valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            let has_value: NullBuffer = tags
                .iter()
                .enumerate()
                .map(|(row, &tag)| tag as usize == index && valid(row))
                .collect();
            children.push(child.finish(Some(&has_value))?);
        }
        let tags = arrow::buffer::ScalarBuffer::from(tags);
        let array = UnionArray::try_new(self.fields.clone(), tags, None, children);
        Ok(Arc::new(
            array.map_err(|error| mismatch(&self.source, self.column, &error))?,
        ))
    }
}
