//! [`import`]: an array into Rust. Its buffers stay the producer's until the last user drops them; buffers at unaligned
//! addresses are copied.

use std::ptr::NonNull;
use std::sync::Arc;

use arrow::array::{ArrayData, BufferSpec, layout};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::ffi::FFI_ArrowArray;

use super::schema::child_types;

/// The array of a struct, whose type is `data_type`. Offsets, text and dictionary keys are validated.
///
/// # Errors
/// If the struct contradicts the type.
///
/// # Safety
/// The struct follows the C data interface: its pointers are null, or valid for the lengths that the interface defines.
pub(super) unsafe fn import(array: FFI_ArrowArray, data_type: &DataType) -> Result<ArrayData, ArrowError> {
    let owner = Arc::new(array);
    // SAFETY: as required of the caller; the owner outlives the buffers, which hold it.
    unsafe { Import { owner: &owner }.array(&owner, data_type) }
}

/// One import.
struct Import<'a> {
    owner: &'a Arc<FFI_ArrowArray>,
}

fn refuse<T>(reason: String) -> Result<T, ArrowError> {
    Err(ArrowError::CDataInterface(reason))
}

impl Import<'_> {
    /// # Safety
    /// As [`import`].
    unsafe fn array(&self, array: &FFI_ArrowArray, data_type: &DataType) -> Result<ArrayData, ArrowError> {
        let (Ok(length), Ok(offset)) = (usize::try_from(array.length), usize::try_from(array.offset)) else {
            return refuse(format!("an Arrow array of {data_type} has a negative length or offset"));
        };
        let Some(rows) = length.checked_add(offset) else {
            return refuse(format!("an Arrow array of {data_type} has more rows than memory"));
        };
        let layout = layout(data_type);
        let nulls_first = usize::from(layout.can_contain_null_mask);
        let expected = nulls_first + layout.buffers.len() + usize::from(layout.variadic);
        let found = usize::try_from(array.n_buffers).unwrap_or(0);
        if found < expected || (found > expected && !layout.variadic) {
            return refuse(format!(
                "an Arrow array of {data_type} has {expected} buffers, not {found}"
            ));
        }
        if array.buffers.is_null() && found > 0 {
            return refuse(format!("an Arrow array of {data_type} lacks its buffers"));
        }
        let mut nulls = None;
        // SAFETY: buffer 0 exists, see above.
        if nulls_first == 1 && array.null_count != 0 && !unsafe { self.is_null(array, 0) } {
            // SAFETY: buffer 0 has a bit for each row.
            nulls = Some(unsafe { self.buffer(array, 0, rows.div_ceil(8))? });
        }
        let mut buffers = Vec::with_capacity(found);
        for (place, spec) in layout.buffers.iter().enumerate() {
            let bytes = match spec {
                BufferSpec::FixedWidth { byte_width, .. } if place == 0 && has_end_offset(data_type) => {
                    (rows + 1).checked_mul(*byte_width)
                }
                BufferSpec::FixedWidth { byte_width, .. } => rows.checked_mul(*byte_width),
                BufferSpec::BitMap => Some(rows.div_ceil(8)),
                BufferSpec::VariableWidth => last_offset(&buffers[place - 1], rows, data_type),
                BufferSpec::AlwaysNull => Some(0),
            };
            let Some(bytes) = bytes else {
                return refuse(format!("an Arrow array of {data_type} has more bytes than memory"));
            };
            let at = nulls_first + place;
            // SAFETY: buffer `at` exists, see above.
            let is_null = unsafe { self.is_null(array, at) };
            // An array without rows may have no offsets.
            buffers.push(match is_null && rows == 0 && place == 0 {
                true => Buffer::from(vec![0_u8; bytes]),
                // SAFETY: the interface gives the buffer this length.
                false => unsafe { self.buffer(array, at, bytes)? },
            });
        }
        if layout.variadic {
            // SAFETY: the last buffer has the lengths of the buffers between.
            unsafe { self.variadic(array, nulls_first + layout.buffers.len(), found, &mut buffers)? };
        }
        let types = child_types(data_type);
        if types.len() != usize::try_from(array.n_children).unwrap_or(0) {
            return refuse(format!(
                "an Arrow array of {data_type} has {} children, not {}",
                types.len(),
                array.n_children
            ));
        }
        if array.children.is_null() && !types.is_empty() {
            return refuse(format!("an Arrow array of {data_type} lacks its children"));
        }
        let mut parts = Vec::with_capacity(types.len());
        for (at, child) in types.into_iter().enumerate() {
            // SAFETY: `children` has `n_children` pointers.
            parts.push((unsafe { *array.children.add(at) }, child));
        }
        if let DataType::Dictionary(_, values) = data_type {
            parts.push((array.dictionary, values));
        }
        let mut children = Vec::with_capacity(parts.len());
        for (part, child) in parts {
            // SAFETY: a pointer that is not null is a valid struct, which the root owns.
            children.push(match unsafe { part.as_ref() } {
                // SAFETY: as required of the caller.
                Some(part) => unsafe { self.array(part, child)? },
                None => return refuse(format!("an Arrow array of {data_type} lacks its {child}")),
            });
        }
        ArrayData::builder(data_type.clone())
            .len(length)
            .offset(offset)
            .null_bit_buffer(nulls)
            .buffers(buffers)
            .child_data(children)
            .align_buffers(true)
            .build()
    }

    /// # Safety
    /// The struct has more than `at` buffers.
    unsafe fn is_null(&self, array: &FFI_ArrowArray, at: usize) -> bool {
        // SAFETY: as required of the caller.
        unsafe { (*array.buffers.add(at)).is_null() }
    }

    /// # Safety
    /// The struct has more than `at` buffers, and that one has at least `bytes` bytes if it is not null.
    unsafe fn buffer(&self, array: &FFI_ArrowArray, at: usize, bytes: usize) -> Result<Buffer, ArrowError> {
        // SAFETY: as required of the caller.
        let pointer = unsafe { *array.buffers.add(at) };
        match NonNull::new(pointer.cast_mut().cast::<u8>()) {
            Some(start) if bytes > 0 => {
                let owner: Arc<FFI_ArrowArray> = Arc::clone(self.owner);
                // SAFETY: the owner keeps the bytes, which never change, until the buffer is dropped.
                Ok(unsafe { Buffer::from_custom_allocation(start, bytes, owner) })
            }
            _ if bytes == 0 => Ok(Buffer::from(Vec::<u8>::new())),
            _ => refuse(format!(
                "buffer {at} of an Arrow array is missing: it has {bytes} bytes"
            )),
        }
    }

    /// Adds the buffers from `first` up to the last, which has their lengths.
    ///
    /// # Safety
    /// As [`buffer`](Self::buffer), for a struct with `found` buffers.
    unsafe fn variadic(
        &self,
        array: &FFI_ArrowArray,
        first: usize,
        found: usize,
        buffers: &mut Vec<Buffer>,
    ) -> Result<(), ArrowError> {
        let count = found - 1 - first;
        // SAFETY: the last buffer has one 64-bit length for each variadic buffer.
        let lengths = unsafe { self.buffer(array, found - 1, count.saturating_mul(8))? };
        for (place, bytes) in lengths.as_slice().chunks_exact(8).enumerate() {
            let length = i64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            let Ok(length) = usize::try_from(length) else {
                return refuse("an Arrow array has a buffer of negative length".to_owned());
            };
            // SAFETY: the buffer has this length.
            buffers.push(unsafe { self.buffer(array, first + place, length)? });
        }
        Ok(())
    }
}

/// Whether the first buffer has one offset more than there are rows.
fn has_end_offset(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::List(_)
            | DataType::LargeList(_)
            | DataType::Map(..)
    )
}

/// The number of bytes that the offset behind the last row gives.
fn last_offset(offsets: &Buffer, rows: usize, data_type: &DataType) -> Option<usize> {
    let is_large = matches!(data_type, DataType::LargeUtf8 | DataType::LargeBinary);
    let width = if is_large { 8 } else { 4 };
    let bytes = offsets.as_slice().get(rows * width..(rows + 1) * width)?;
    let offset = match is_large {
        true => i64::from_ne_bytes(bytes.try_into().ok()?),
        false => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
    };
    usize::try_from(offset).ok()
}
