//! [`ValueDecoder`] of columns whose values are the numbers of one stream: integers and dates (RLE), bytes and booleans
//! (byte RLE), floats (raw).

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{ArrowPrimitiveType, Int8Type};

use super::bits::{BitBuilder, spread_bits};
use super::boolean::BitReader;
use super::byte_rle::ByteRle;
use super::cursor::{StreamCursor, StreamSource};
use super::int::IntReader;
use super::presence::{Presence, with_nulls};
use super::steps::{Step, is_sparse, read_count, reserve};
use super::{Decoder, EntryPoint};
use crate::error::Result;
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::schema::ColumnId;

/// An integer type to which a stream's 64-bit values are narrowed.
pub(super) trait Narrow: Copy + Default + Send {
    /// Appends `block` to `out`; false if a value does not fit (the appended values are then meaningless).
    fn narrow(block: &[i64], out: &mut Vec<Self>) -> bool;
}

macro_rules! narrow {
    ($($native:ty)*) => {$(
        impl Narrow for $native {
            fn narrow(block: &[i64], out: &mut Vec<Self>) -> bool {
                out.extend(block.iter().map(|&value| value as $native));
                block.iter().fold(0, |lost, &value| lost | (value ^ i64::from(value as $native))) == 0
            }
        }
    )*};
}
narrow!(i16 i32);

/// The values of a DATA stream that makes up a column alone; PRESENT tells which rows have a value.
pub(super) trait Values: Send {
    /// The stream.
    fn stream(&mut self) -> &mut dyn EntryPoint;

    /// Goes through `steps`, over values.
    fn select(&mut self, steps: &[Step]) -> Result<()>;

    /// The array of all values read since the last call, spread over the rows that are not null.
    fn finish(&mut self, nulls: Option<NullBuffer>) -> ArrayRef;
}

/// A column of two streams: PRESENT and DATA.
pub(super) struct ValueDecoder<V> {
    presence: Presence,
    values: V,
}

impl<V: Values> ValueDecoder<V> {
    /// A decoder of `column`; `values` decodes its DATA stream.
    pub(super) fn open(source: &StreamSource, column: ColumnId, values: impl FnOnce(StreamCursor) -> V) -> Self {
        Self {
            presence: Presence::open(source, column),
            values: values(source.open(column, Kind::Data)),
        }
    }
}

impl<V: Values> Decoder for ValueDecoder<V> {
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        visit(self.values.stream())
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        self.values.select(self.presence.select(rows)?)
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        Ok(self.values.finish(self.presence.finish(parent)))
    }
}

fn primitive<T: ArrowPrimitiveType<Native: Default>>(
    values: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let values = with_nulls(std::mem::take(values), nulls.as_ref());
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}

/// LONG.
pub(super) struct Longs<T> {
    data: IntReader,
    values: Vec<i64>,
    arrow: PhantomData<fn() -> T>,
}

impl<T: ArrowPrimitiveType<Native = i64>> Longs<T> {
    pub(super) fn new(cursor: StreamCursor, encoding: Encoding) -> Self {
        Self {
            data: IntReader::new(cursor, encoding, true),
            values: Vec::new(),
            arrow: PhantomData,
        }
    }
}

impl<T: ArrowPrimitiveType<Native = i64>> Values for Longs<T> {
    fn stream(&mut self) -> &mut dyn EntryPoint {
        &mut self.data
    }

    fn select(&mut self, steps: &[Step]) -> Result<()> {
        self.data.select(steps, &mut self.values)
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> ArrayRef {
        primitive::<T>(&mut self.values, nulls)
    }
}

/// SHORT, INT, DATE.
///
/// Days are returned as stored, whatever the footer's `calendar` says. Days before 1582-10-15 in a file that claims the
/// hybrid Julian calendar therefore have the label of the proleptic Gregorian one. The C++ reader and orc-rust do the
/// same, and statistics can be compared with such days.
pub(super) struct Ints<T: ArrowPrimitiveType> {
    data: IntReader,
    values: Vec<T::Native>,
}

impl<T: ArrowPrimitiveType<Native: Narrow>> Ints<T> {
    pub(super) fn new(cursor: StreamCursor, encoding: Encoding) -> Self {
        Self {
            data: IntReader::new(cursor, encoding, true),
            values: Vec::new(),
        }
    }
}

impl<T: ArrowPrimitiveType<Native: Narrow>> Values for Ints<T> {
    fn stream(&mut self) -> &mut dyn EntryPoint {
        &mut self.data
    }

    fn select(&mut self, steps: &[Step]) -> Result<()> {
        let values = &mut self.values;
        reserve(values, steps);
        self.data.select_blocks(steps, |data, block| {
            if T::Native::narrow(block, values) {
                Ok(())
            } else {
                Err(data.cursor().corrupt("a value does not fit the column's type"))
            }
        })
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> ArrayRef {
        primitive::<T>(&mut self.values, nulls)
    }
}

/// BYTE.
pub(super) struct SignedBytes {
    data: ByteRle,
    values: Vec<i8>,
}

impl SignedBytes {
    pub(super) fn new(cursor: StreamCursor) -> Self {
        Self {
            data: ByteRle::new(cursor),
            values: Vec::new(),
        }
    }
}

impl Values for SignedBytes {
    fn stream(&mut self) -> &mut dyn EntryPoint {
        &mut self.data
    }

    fn select(&mut self, steps: &[Step]) -> Result<()> {
        for step in steps {
            self.data.skip(step.skip)?;
            self.data.read(step.read as usize, &mut self.values)?;
        }
        Ok(())
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> ArrayRef {
        primitive::<Int8Type>(&mut self.values, nulls)
    }
}

/// BOOLEAN.
pub(super) struct Booleans {
    data: BitReader,
    values: BitBuilder,
}

impl Booleans {
    pub(super) fn new(cursor: StreamCursor) -> Self {
        Self {
            data: BitReader::new(cursor),
            values: BitBuilder::default(),
        }
    }
}

impl Values for Booleans {
    fn stream(&mut self) -> &mut dyn EntryPoint {
        &mut self.data
    }

    fn select(&mut self, steps: &[Step]) -> Result<()> {
        for step in steps {
            self.data.skip(step.skip)?;
            self.data.read(step.read, &mut self.values)?;
        }
        Ok(())
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> ArrayRef {
        let dense = self.values.finish();
        let values = match &nulls {
            Some(nulls) => spread_bits(&dense, nulls.inner()),
            None => dense,
        };
        Arc::new(BooleanArray::new(values, nulls))
    }
}

/// A value of a fixed number of bytes, least significant first.
pub(super) trait LittleEndian: Copy + Default + Send {
    /// Appends the values in `bytes`, whose length is a multiple of the width.
    fn extend(out: &mut Vec<Self>, bytes: &[u8]);
}

macro_rules! little_endian {
    ($($native:ty)*) => {$(
        impl LittleEndian for $native {
            fn extend(out: &mut Vec<Self>, bytes: &[u8]) {
                let (values, _) = bytes.as_chunks();
                out.extend(values.iter().map(|&value| <$native>::from_le_bytes(value)));
            }
        }
    )*};
}
little_endian!(f32 f64);

/// FLOAT, DOUBLE.
pub(super) struct Floats<T: ArrowPrimitiveType> {
    data: StreamCursor,
    values: Vec<T::Native>,
    scratch: Vec<u8>,
}

impl<T: ArrowPrimitiveType<Native: LittleEndian>> Floats<T> {
    const WIDTH: usize = size_of::<T::Native>();

    pub(super) fn new(cursor: StreamCursor) -> Self {
        Self {
            data: cursor,
            values: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Reads consecutive values, straight from the cursor's blocks.
    fn read(data: &mut StreamCursor, scratch: &mut Vec<u8>, count: u64, values: &mut Vec<T::Native>) -> Result<()> {
        let mut left = count as usize;
        while left > 0 {
            if !data.fill(left.saturating_mul(Self::WIDTH))? {
                return Err(data.ends_early());
            }
            let whole = (data.rest().len() / Self::WIDTH).min(left);
            if whole == 0 {
                scratch.clear();
                data.read_into(Self::WIDTH, scratch)?;
                T::Native::extend(values, scratch);
                left -= 1;
            } else {
                let bytes = whole * Self::WIDTH;
                T::Native::extend(values, &data.rest()[..bytes]);
                data.consume(bytes);
                left -= whole;
            }
        }
        Ok(())
    }

    /// Fetches single values of an uncompressed stream in place.
    fn gather(
        data: &mut StreamCursor,
        scratch: &mut Vec<u8>,
        steps: &[Step],
        values: &mut Vec<T::Native>,
    ) -> Result<()> {
        let width = Self::WIDTH as u64;
        let total = steps
            .iter()
            .try_fold(0u64, |sum, step| sum.checked_add(step.skip)?.checked_add(step.read));
        let total = total.and_then(|values| values.checked_mul(width));
        let Some(total) = total.filter(|&bytes| bytes <= data.bytes_left()) else {
            return Err(data.ends_early());
        };
        let mut offset = data.position();
        let mut offsets = Vec::with_capacity(read_count(steps) as usize);
        for step in steps {
            offset += step.skip * width;
            offsets.extend((0..step.read).map(|k| offset + k * width));
            offset += step.read * width;
        }
        scratch.clear();
        data.source().gather(&offsets, Self::WIDTH, scratch)?;
        T::Native::extend(values, scratch);
        data.skip(total)
    }
}

/// A selection with runs of at least this many values is read in order; shorter runs are fetched one by one.
const GATHER_RUN: u64 = 8;

impl<T: ArrowPrimitiveType<Native: LittleEndian>> Values for Floats<T> {
    fn stream(&mut self) -> &mut dyn EntryPoint {
        &mut self.data
    }

    fn select(&mut self, steps: &[Step]) -> Result<()> {
        let short_runs = read_count(steps) < GATHER_RUN * steps.len() as u64;
        if self.data.is_raw() && (short_runs || is_sparse(steps)) {
            return Self::gather(&mut self.data, &mut self.scratch, steps, &mut self.values);
        }
        reserve(&mut self.values, steps);
        for step in steps {
            self.data.skip(step.skip.saturating_mul(Self::WIDTH as u64))?;
            Self::read(&mut self.data, &mut self.scratch, step.read, &mut self.values)?;
        }
        Ok(())
    }

    fn finish(&mut self, nulls: Option<NullBuffer>) -> ArrayRef {
        primitive::<T>(&mut self.values, nulls)
    }
}
