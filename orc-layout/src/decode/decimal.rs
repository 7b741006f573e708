//! Decoders of DECIMAL: unbounded zigzag varints, and each value's own scale.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array};
use arrow::buffer::NullBuffer;

use super::cursor::{StreamCursor, StreamSource};
use super::int::IntReader;
use super::presence::{Presence, with_nulls};
use super::rle_v1::skip_varints;
use super::steps::Step;
use super::{Decoder, EntryPoint};
use crate::error::{LayoutError, Result};
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::schema::ColumnId;

/// DECIMAL of up to 18 digits in files of the unstable version before ORC 2.0: integers at the column's scale.
pub(super) struct Decimal64Decoder {
    presence: Presence,
    data: IntReader,
    values: Vec<i128>,
    precision: u8,
    scale: i8,
    source: StreamSource,
    column: ColumnId,
}

impl Decimal64Decoder {
    pub(super) fn open(source: &StreamSource, column: ColumnId, precision: u8, scale: i8) -> Self {
        Self {
            presence: Presence::open(source, column),
            data: IntReader::new(source.open(column, Kind::Data), Encoding::DirectV2, true),
            values: Vec::new(),
            precision,
            scale,
            source: source.clone(),
            column,
        }
    }
}

impl Decoder for Decimal64Decoder {
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        visit(&mut self.data)
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        let values = &mut self.values;
        self.data.select_blocks(self.presence.select(rows)?, |_, block| {
            values.extend(block.iter().map(|&value| i128::from(value)));
            Ok(())
        })
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = self.presence.finish(parent);
        let values = std::mem::take(&mut self.values);
        array(&self.source, self.column, (self.precision, self.scale), values, nulls)
    }
}

/// The array of the dense values.
fn array(
    source: &StreamSource,
    column: ColumnId,
    (precision, scale): (u8, i8),
    values: Vec<i128>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let array = Decimal128Array::new(with_nulls(values, nulls.as_ref()).into(), nulls)
        .with_precision_and_scale(precision, scale)
        .map_err(|error| source.corrupt(column, error.to_string()))?;
    Ok(Arc::new(array))
}

/// Bytes of the longest varint that 128 bits need.
const MAX_VARINT_BYTES: usize = 19;

/// DECIMAL.
pub(super) struct DecimalDecoder {
    presence: Presence,
    data: StreamCursor,
    scales: IntReader,
    values: Vec<i128>,
    precision: u8,
    scale: i8,
    source: StreamSource,
    column: ColumnId,
}

impl DecimalDecoder {
    pub(super) fn open(source: &StreamSource, column: ColumnId, encoding: Encoding, precision: u8, scale: i8) -> Self {
        Self {
            presence: Presence::open(source, column),
            data: source.open(column, Kind::Data),
            scales: IntReader::new(source.open(column, Kind::Secondary), encoding, true),
            values: Vec::new(),
            precision,
            scale,
            source: source.clone(),
            column,
        }
    }
}

impl Decoder for DecimalDecoder {
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        visit(&mut self.data)?;
        visit(&mut self.scales)
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        let steps = self.presence.select(rows)?;
        let first = self.values.len();
        for step in steps {
            skip_varints(&mut self.data, step.skip)?;
            read_varints(&mut self.data, step.read, &mut self.values)?;
        }
        let mut rest = &mut self.values[first..];
        let scale = i64::from(self.scale);
        let (source, column) = (&self.source, self.column);
        self.scales.select_blocks(steps, |_, scales| {
            let (values, after) = std::mem::take(&mut rest).split_at_mut(scales.len());
            rest = after;
            // Nearly always all scales are the column's own.
            if scales.iter().fold(0, |differ, &written| differ | (written ^ scale)) != 0 {
                for (value, &written) in values.iter_mut().zip(scales) {
                    *value = rescale(*value, written, scale).ok_or_else(|| out_of_range(source, column))?;
                }
            }
            Ok(())
        })
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = self.presence.finish(parent);
        let values = std::mem::take(&mut self.values);
        array(&self.source, self.column, (self.precision, self.scale), values, nulls)
    }
}

fn out_of_range(source: &StreamSource, column: ColumnId) -> LayoutError {
    source.out_of_range(column, "a decimal needs more than 38 digits at the column's scale")
}

/// A value at another scale, rounded half up (away from zero) as `HiveDecimal.enforcePrecisionScale` rounds.
fn rescale(value: i128, from: i64, to: i64) -> Option<i128> {
    let factor = |digits: i64| u32::try_from(digits).ok().and_then(|digits| 10i128.checked_pow(digits));
    match to.checked_sub(from)? {
        0 => Some(value),
        up @ 1.. => match value {
            0 => Some(0),
            _ => value.checked_mul(factor(up)?),
        },
        down => Some(down.checked_neg().and_then(factor).map_or(0, |divisor| {
            let (whole, rest) = (value / divisor, value % divisor);
            // Twice the rest may need more than 128 bits.
            let is_half = rest.unsigned_abs() >= divisor.unsigned_abs() - rest.unsigned_abs();
            if is_half { whole + value.signum() } else { whole }
        })),
    }
}

/// Appends the next `count` values.
fn read_varints(data: &mut StreamCursor, count: u64, out: &mut Vec<i128>) -> Result<()> {
    let mut left = count;
    while left > 0 {
        if !data.fill(usize::try_from(left).unwrap_or(usize::MAX))? {
            return Err(data.ends_early());
        }
        let rest = data.rest();
        let mut at = 0;
        // While the longest varint ends within the block, only its length is checked.
        while left > 0
            && let Some(bytes) = rest.get(at..at + MAX_VARINT_BYTES)
        {
            let Some((value, length)) = varint(bytes) else {
                return Err(too_wide(data));
            };
            out.push(value);
            at += length;
            left -= 1;
        }
        data.consume(at);
        if left > 0 {
            out.push(read_varint_bytewise(data)?);
            left -= 1;
        }
    }
    Ok(())
}

fn too_wide(data: &StreamCursor) -> LayoutError {
    data.corrupt("a decimal has more than 128 bits")
}

fn read_varint_bytewise(data: &mut StreamCursor) -> Result<i128> {
    let mut bytes = [0; MAX_VARINT_BYTES];
    for byte in &mut bytes {
        *byte = data.read_u8()?;
        if *byte < 0x80 {
            break;
        }
    }
    varint(&bytes).map(|(value, _)| value).ok_or_else(|| too_wide(data))
}

/// The zigzag varint at the start of `bytes` (at least 19) and its length; `None` if it has more than 128 bits.
#[inline]
fn varint(bytes: &[u8]) -> Option<(i128, usize)> {
    let word = u64::from_le_bytes(*bytes.first_chunk()?);
    let ends = !word & 0x8080_8080_8080_8080;
    if ends != 0 {
        let length = ends.trailing_zeros() / 8 + 1;
        let value = squeeze(word & (u64::MAX >> (64 - 8 * length)));
        return Some((i128::from((value >> 1) as i64 ^ -((value & 1) as i64)), length as usize));
    }
    let mut value = u128::from(squeeze(word));
    for (i, &byte) in bytes.iter().enumerate().take(MAX_VARINT_BYTES).skip(8) {
        if i == MAX_VARINT_BYTES - 1 && byte > 3 {
            return None;
        }
        value |= u128::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some(((value >> 1) as i128 ^ -((value & 1) as i128), i + 1));
        }
    }
    None
}

/// Drops the highest bit of each byte and closes the gaps.
#[inline]
fn squeeze(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let word = (word & 0x0000_3fff_0000_3fff) | ((word & 0x3fff_0000_3fff_0000) >> 2);
    (word & 0x0000_0000_0fff_ffff) | ((word & 0x0fff_ffff_0000_0000) >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(value: i128) -> Vec<u8> {
        let mut raw = (value << 1 ^ value >> 127) as u128;
        let mut out = vec![];
        while raw >= 0x80 {
            out.push(raw as u8 | 0x80);
            raw >>= 7;
        }
        out.push(raw as u8);
        out
    }

    proptest! {
        #[test]
        fn varints_of_any_length_are_read(value: i128, shift in 0u32..128) {
            let value = value >> shift;
            let mut bytes = encode(value);
            let length = bytes.len();
            bytes.resize(40, 0xff);
            prop_assert_eq!(varint(&bytes), Some((value, length)));
        }
    }

    #[test]
    fn varint_and_rescale_respect_their_limits() {
        assert_eq!(varint(&encode(i128::MIN)), Some((i128::MIN, 19)));
        assert_eq!(varint(&[0xff; 30]), None);
        assert_eq!(rescale(-123, 2, 4), Some(-12300));
        assert_eq!([rescale(-129, 2, 1), rescale(124, 2, 1)], [Some(-13), Some(12)]);
        assert_eq!([rescale(125, 2, 1), rescale(-125, 2, 1)], [Some(13), Some(-13)]);
        assert_eq!(
            [rescale(5, 1, 0), rescale(-4, 1, 0), rescale(49, 2, 0)],
            [Some(1), Some(0), Some(0)]
        );
        assert_eq!(
            [rescale(i128::MAX, 38, 0), rescale(i128::MIN, 38, 0)],
            [Some(2), Some(-2)]
        );
        assert_eq!(rescale(1, 0, 60), None);
        assert_eq!(rescale(0, 0, 60), Some(0));
        assert_eq!(rescale(5, i64::MAX, 0), Some(0));
        assert_eq!(rescale(5, i64::MIN, 0), None);
    }
}
