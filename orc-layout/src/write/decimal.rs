//! [`DecimalValues`]: unscaled values as varints, and a scale per value (ORC v1, "Decimal Columns").

use arrow::array::{ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type};

use super::arrow_input::gather;
use super::rle_v2::IntEncoder;
use super::statistics::{Statistics, Typed, bounds_of, widen};
use super::stream::{OutStream, Storage, capacity_bytes};
use super::types::Node;
use crate::bloom::BloomFilter;
use crate::error::{LayoutError, Result};
use crate::proto::stream::Kind;

/// Encoders of a decimal column.
#[derive(Debug)]
pub(super) struct DecimalValues {
    data: OutStream,
    scales: IntEncoder,
    scale: u8,
    precision: u8,
    raw: Vec<i128>,
    scratch: Vec<u8>,
    scale_scratch: Vec<i64>,
}

impl DecimalValues {
    pub(super) fn new(node: &Node, storage: Storage) -> Self {
        let (precision, scale) = match node.data_type {
            DataType::Decimal128(precision, scale) => (precision, scale.unsigned_abs()),
            _ => (38, 0),
        };
        Self {
            data: OutStream::new(storage),
            scales: IntEncoder::new(OutStream::new(storage), true),
            scale,
            precision,
            raw: Vec::new(),
            scratch: Vec::new(),
            scale_scratch: Vec::new(),
        }
    }

    pub(super) fn scale(&self) -> usize {
        usize::from(self.scale)
    }

    pub(super) fn write(
        &mut self,
        name: &str,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        statistics: &mut Statistics,
        bloom: Option<&mut BloomFilter>,
    ) -> Result<()> {
        self.raw.clear();
        gather(
            array.as_primitive::<Decimal128Type>().values(),
            nulls,
            &mut self.raw,
            |value| value,
        );
        let Some((min, max)) = bounds_of(&self.raw) else {
            return Ok(());
        };
        // Arrow does not hold values to the stated precision; readers do.
        let limit = 10u128.checked_pow(u32::from(self.precision)).unwrap_or(u128::MAX);
        if min.unsigned_abs().max(max.unsigned_abs()) >= limit {
            return Err(LayoutError::Write(format!(
                "column {name}: a decimal has more than {} digits",
                self.precision
            )));
        }
        if let Typed::Decimal { bounds, sum, .. } = &mut statistics.typed {
            widen(bounds, min, max);
            *sum = self
                .raw
                .iter()
                .try_fold((*sum).unwrap_or(0), |sum, value| sum.checked_add(*value))
                .filter(|_| sum.is_some());
        }
        if let Some(bloom) = bloom {
            self.raw
                .iter()
                .for_each(|&value| bloom.insert_decimal(value, self.scale));
        }
        self.scratch.clear();
        for &value in &self.raw {
            push_varint(&mut self.scratch, ((value << 1) ^ (value >> 127)) as u128);
        }
        self.data.write(&self.scratch)?;
        self.scale_scratch.resize(self.raw.len(), i64::from(self.scale));
        self.scales.write(&self.scale_scratch)
    }

    pub(super) fn position(&mut self, positions: &mut Vec<u64>) -> Result<()> {
        self.data.position(positions);
        self.scales.position(positions)
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        self.scales.flush()?;
        self.data.flush()?;
        self.scales.stream.flush()
    }

    pub(super) fn streams<'a>(&'a self, push: &mut impl FnMut(Kind, &'a OutStream, bool)) {
        push(Kind::Data, &self.data, false);
        push(Kind::Secondary, &self.scales.stream, false);
    }

    pub(super) fn clear(&mut self) {
        self.data.clear();
        self.scales.stream.clear();
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.data.buffered_bytes() + self.scales.buffered_bytes()
    }

    pub(super) fn memory_size(&self) -> usize {
        let scratch = capacity_bytes(&self.raw) + self.scratch.capacity() + capacity_bytes(&self.scale_scratch);
        self.data.memory_size() + self.scales.memory_size() + scratch
    }
}

fn push_varint(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
