//! `TextCodes`: codes of strings and of binary values.

use arrow::array::{Array, GenericByteArray, GenericByteViewArray};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ByteViewType};
use hashbrown::HashMap;

use super::value_codes::{NULL_CODE, NextCode, TooManyValues, ValueCodes};

/// Bytes of a value that lie in its view (Arrow columnar format, "Variable-size Binary View Layout").
const MAX_INLINE_BYTES: u32 = 12;

/// Codes of strings.
#[derive(Debug, Default)]
pub(super) struct TextCodes {
    /// By view, of the values that lie in their view whole, or would.
    short: ValueCodes<u128>,
    /// By value, of the others.
    long: HashMap<Box<[u8]>, u32>,
    /// By view, of the long values of one batch: strings that come of a dictionary share their views.
    views: HashMap<u128, u32>,
}

impl TextCodes {
    /// Appends the code of each row of an array with views.
    pub(super) fn of_views<T: ByteViewType>(
        &mut self,
        array: &GenericByteViewArray<T>,
        next: &mut NextCode,
        out: &mut Vec<u32>,
    ) -> Result<(), TooManyValues> {
        // Views of another batch point into other buffers.
        self.views.clear();
        let nulls = array.nulls();
        for (row, view) in array.views().iter().enumerate() {
            let code = match nulls {
                Some(nulls) if nulls.is_null(row) => NULL_CODE,
                _ if *view as u32 <= MAX_INLINE_BYTES => self.short.code(*view, next)?,
                _ => match self.views.get(view) {
                    Some(code) => *code,
                    None => {
                        let code = self.of_bytes(array.value(row).as_ref(), next)?;
                        self.views.insert(*view, code);
                        code
                    }
                },
            };
            out.push(code);
        }
        Ok(())
    }

    /// Appends the code of each row of an array with offsets.
    pub(super) fn of_offsets<T: ByteArrayType>(
        &mut self,
        array: &GenericByteArray<T>,
        next: &mut NextCode,
        out: &mut Vec<u32>,
    ) -> Result<(), TooManyValues> {
        let (nulls, values) = (array.nulls(), array.value_data());
        for (row, bounds) in array.value_offsets().windows(2).enumerate() {
            let (start, end) = (bounds[0].as_usize(), bounds[1].as_usize());
            out.push(match nulls {
                Some(nulls) if nulls.is_null(row) => NULL_CODE,
                _ if end - start <= MAX_INLINE_BYTES as usize => self.short.code(view_of(values, start, end), next)?,
                _ => self.of_bytes(&values[start..end], next)?,
            });
        }
        Ok(())
    }

    /// The code of a value.
    pub(super) fn of_value(&mut self, bytes: &[u8], next: &mut NextCode) -> Result<u32, TooManyValues> {
        match bytes.len() <= MAX_INLINE_BYTES as usize {
            true => self.short.code(view_of(bytes, 0, bytes.len()), next),
            false => self.of_bytes(bytes, next),
        }
    }

    fn of_bytes(&mut self, bytes: &[u8], next: &mut NextCode) -> Result<u32, TooManyValues> {
        if let Some(code) = self.long.get(bytes) {
            return Ok(*code);
        }
        let code = next.take()?;
        self.long.insert(bytes.into(), code);
        Ok(code)
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        let long: usize = self.long.keys().map(|value| value.len()).sum();
        self.short.size() + self.long.allocation_size() + long + self.views.allocation_size()
    }
}

/// The view of a value of at most [`MAX_INLINE_BYTES`].
#[inline]
fn view_of(values: &[u8], start: usize, end: usize) -> u128 {
    let length = end - start;
    let bytes = match values.get(start..start + 16).map(<[u8; 16]>::try_from) {
        // Sixteen bytes at once, of which the value's are kept.
        Some(Ok(bytes)) => u128::from_le_bytes(bytes) & ((1 << (8 * length)) - 1),
        _ => {
            let mut bytes = [0; 16];
            bytes[..length].copy_from_slice(&values[start..end]);
            u128::from_le_bytes(bytes)
        }
    };
    bytes << 32 | length as u128
}
