//! [`Column`], one column of the stripe being written: nulls, statistics and row-index positions, common to all types.
//! [`values`](super::values) encodes the values.

use arrow::array::{Array, ArrayRef};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::bloom::BloomFilters;
use super::byte_rle::{Bits, ByteEncoder};
use super::statistics::Statistics;
use super::stream::{OutStream, Storage, capacity_bytes};
use super::types::Node;
use super::values::Values;
use super::writer_properties::WriterProperties;
use crate::error::Result;
use crate::proto::r#type::Kind as TypeKind;
use crate::proto::{self, stream::Kind};

/// A column (with its children) that collects one stripe after the other.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) id: u32,
    name: String,
    values: Values,
    pub(super) children: Vec<Column>,
    /// One bit per row: true if there is a value.
    present: Bits,
    present_stream: ByteEncoder,
    /// First row of each row group, in rows of this column (elements, below lists).
    group_starts: Vec<usize>,
    /// Positions of the streams other than PRESENT, by row group.
    positions: Vec<Vec<u64>>,
    /// Statistics of the current row group.
    group: Statistics,
    groups: Vec<Statistics>,
    bloom: Option<BloomFilters>,
}

/// Whether the values of a kind lie one behind the other in streams of their own.
fn is_number(kind: TypeKind) -> bool {
    match kind {
        TypeKind::Boolean
        | TypeKind::Byte
        | TypeKind::Short
        | TypeKind::Int
        | TypeKind::Long
        | TypeKind::Float
        | TypeKind::Double
        | TypeKind::Date
        | TypeKind::Timestamp
        | TypeKind::TimestampInstant
        | TypeKind::Decimal => true,
        TypeKind::String
        | TypeKind::Varchar
        | TypeKind::Char
        | TypeKind::Binary
        | TypeKind::List
        | TypeKind::Map
        | TypeKind::Struct
        | TypeKind::Union => false,
    }
}

/// A stream of a finished stripe.
#[derive(Debug)]
pub(super) struct FinishedStream<'a> {
    pub(super) column: u32,
    pub(super) kind: Kind,
    pub(super) stream: &'a OutStream,
    /// Raw or original fixed-width values, one per row of the stripe: worth aligning.
    pub(super) direct: bool,
}

impl Column {
    pub(super) fn new(node: &Node, options: &WriterProperties, storage: Storage) -> Self {
        let top_level = |names: &[String]| !node.name.is_empty() && names.contains(&node.name);
        let stated = options
            .columns
            .get(&node.name)
            .and_then(|column| column.chunk_size_bytes);
        let values_storage = match (stated, options.number_chunk_size_bytes) {
            (Some(bytes), _) => storage.with_chunks_of(bytes),
            (None, Some(bytes)) if is_number(node.kind) => storage.with_chunks_of(bytes),
            _ => storage,
        };
        let mut data_storage = values_storage;
        if let Storage::Chunks { size_bytes, .. } = storage.with_chunks_of(stated.unwrap_or(options.chunk_size_bytes))
            && top_level(&options.direct_columns)
        {
            // Chunks hold whole values: a header must not cut one in two.
            data_storage = Storage::Chunks {
                codec: None,
                size_bytes: size_bytes & !7,
            };
        }
        let values = Values::new(node, options, values_storage, data_storage);
        let group = Statistics {
            typed: values.statistics(),
            ..Default::default()
        };
        Self {
            id: node.id,
            name: node.name.clone(),
            children: node
                .children
                .iter()
                .map(|child| Self::new(child, options, storage))
                .collect(),
            values,
            present: Bits::default(),
            present_stream: ByteEncoder::new(OutStream::new(storage)),
            group_starts: Vec::new(),
            positions: Vec::new(),
            group,
            groups: Vec::new(),
            bloom: top_level(&options.bloom_filter_columns)
                .then(|| BloomFilters::new(options.row_index_stride, options.bloom_filter_fpp_of(&node.name))),
        }
    }

    /// True if a bloom filter is requested for a type whose filters other readers do not use.
    pub(super) fn bloom_filter_refused(&self) -> bool {
        self.bloom.is_some() && !self.values.bloom_filter_supported()
    }

    /// Begins a row group: ends every run and records the position of the next value.
    pub(super) fn start_group(&mut self) -> Result<()> {
        self.start_own_group()?;
        self.children.iter_mut().try_for_each(Self::start_group)
    }

    fn start_own_group(&mut self) -> Result<()> {
        self.end_group();
        self.group_starts.push(self.present.len());
        let mut positions = Vec::new();
        self.values.position(&mut positions)?;
        self.positions.push(positions);
        Ok(())
    }

    fn end_group(&mut self) {
        if self.group_starts.is_empty() {
            return;
        }
        let empty = self.group.empty();
        self.groups.push(std::mem::replace(&mut self.group, empty));
        if let Some(bloom) = &mut self.bloom {
            bloom.end_group();
        }
    }

    /// Appends rows of the current row group.
    pub(super) fn write(&mut self, array: &ArrayRef) -> Result<()> {
        // A union is never null itself: a null stays with its variant.
        let nulls = match array.data_type() {
            DataType::Union(..) => None,
            _ => array.logical_nulls().filter(|nulls| nulls.null_count() > 0),
        };
        self.write_present(array.len(), nulls.as_ref());
        self.values.write(
            &self.name,
            array,
            nulls.as_ref(),
            &mut self.group,
            self.bloom.as_mut().map(BloomFilters::current),
            &mut self.children,
        )
    }

    /// Appends rows of the root struct, which has no nulls; the children are written for themselves.
    pub(super) fn write_root(&mut self, rows: usize, starts_group: bool) -> Result<()> {
        if starts_group {
            self.start_own_group()?;
        }
        self.write_present(rows, None);
        Ok(())
    }

    fn write_present(&mut self, rows: usize, nulls: Option<&NullBuffer>) {
        match nulls {
            None => self.present.push_true(rows),
            Some(nulls) => self.present.push(nulls.inner()),
        }
        let null_count = nulls.map_or(0, NullBuffer::null_count);
        self.group.count(rows - null_count, null_count);
    }

    /// Encodes everything that waited for the end of the stripe; afterwards [`streams`](Self::streams) are complete.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.finish_root()?;
        self.children.iter_mut().try_for_each(Self::finish)
    }

    /// As [`finish`](Self::finish), without the children.
    pub(super) fn finish_root(&mut self) -> Result<()> {
        self.end_group();
        let has_nulls = !self.present.all_true();
        let mut present = vec![Vec::new(); self.group_starts.len()];
        if has_nulls {
            present = self.present.encode(&self.group_starts, &mut self.present_stream)?;
            self.present_stream.stream.flush()?;
        }
        // Readers take positions in this order: PRESENT, if the stripe has it, and then the type's own.
        for (present, own) in present.iter_mut().zip(self.values.finish(&mut self.positions)?) {
            present.extend(own);
        }
        self.positions = present;
        Ok(())
    }

    /// The stripe's streams of this column and its children, without the index.
    pub(super) fn streams<'a>(&'a self, stripe_rows: usize, out: &mut Vec<FinishedStream<'a>>) {
        let has_nulls = !self.present.all_true();
        let mut push = |kind, stream, direct| {
            out.push(FinishedStream {
                column: self.id,
                kind,
                stream,
                direct,
            });
        };
        if has_nulls {
            push(Kind::Present, &self.present_stream.stream, false);
        }
        let direct = !has_nulls && self.present.len() == stripe_rows;
        self.values
            .streams(&mut |kind, stream, fixed_width| push(kind, stream, fixed_width && direct));
        for child in &self.children {
            child.streams(stripe_rows, out);
        }
    }

    /// Visits the columns of this tree in the order of their ids.
    pub(super) fn for_each<'a>(&'a self, visit: &mut impl FnMut(&'a Self)) {
        visit(self);
        for child in &self.children {
            child.for_each(visit);
        }
    }

    /// Visits the columns in the order of their ids, to change them.
    pub(super) fn for_each_mut(&mut self, visit: &mut impl FnMut(&mut Self)) {
        visit(self);
        for child in &mut self.children {
            child.for_each_mut(visit);
        }
    }

    /// The stripe footer's entry.
    pub(super) fn encoding(&self) -> proto::ColumnEncoding {
        let (kind, dictionary_size) = self.values.encoding();
        proto::ColumnEncoding {
            kind: Some(kind.into()),
            dictionary_size,
            // Timestamps in UTC and strings in UTF-8.
            bloom_encoding: self.bloom.as_ref().map(|_| 1),
        }
    }

    /// The stripe's row index of this column.
    pub(super) fn row_index(&self) -> proto::RowIndex {
        let entry = self
            .positions
            .iter()
            .zip(&self.groups)
            .map(|(positions, statistics)| proto::RowIndexEntry {
                positions: positions.clone(),
                statistics: Some(statistics.to_proto()),
            });
        proto::RowIndex { entry: entry.collect() }
    }

    /// The stripe's bloom filters of this column.
    pub(super) fn bloom_filters(&mut self) -> Option<proto::BloomFilterIndex> {
        self.bloom.as_mut().map(BloomFilters::take)
    }

    /// Statistics of no rows.
    pub(super) fn no_statistics(&self) -> Statistics {
        self.group.empty()
    }

    /// Ends the stripe. Returns its statistics.
    pub(super) fn end_stripe(&mut self) -> Statistics {
        let mut stripe = self.group.empty();
        self.groups.iter().for_each(|group| stripe.merge(group));
        self.present.clear();
        self.present_stream.stream.clear();
        self.values.clear();
        self.group_starts.clear();
        self.positions.clear();
        self.groups.clear();
        stripe
    }

    /// Bytes of the stripe, about.
    pub(super) fn buffered_bytes(&self) -> usize {
        let children: usize = self.children.iter().map(Self::buffered_bytes).sum();
        self.present.buffered_bytes() + self.values.buffered_bytes() + children
    }

    /// Bytes held in memory, with those that wait to be used again.
    pub(super) fn memory_size(&self) -> usize {
        let positions: usize = self.positions.iter().map(capacity_bytes).sum();
        let bounds: usize = self.groups.iter().map(Statistics::heap_bytes).sum();
        let children: usize = self.children.iter().map(Self::memory_size).sum();
        size_of::<Self>()
            + self.present.buffered_bytes()
            + self.present_stream.memory_size()
            + self.values.memory_size()
            + self.bloom.as_ref().map_or(0, BloomFilters::memory_size)
            + capacity_bytes(&self.group_starts)
            + capacity_bytes(&self.positions)
            + positions
            + capacity_bytes(&self.groups)
            + bounds
            + children
    }
}
