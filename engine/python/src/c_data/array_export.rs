//! [`export`]: an array out of Rust. The struct keeps the array's buffers alive; only unaligned bits of NULLs are
//! copied.

use std::ffi::c_void;
use std::ptr;

use arrow::array::{ArrayData, BooleanBufferBuilder, layout};
use arrow::buffer::Buffer;
use arrow::datatypes::DataType;

use super::array::CArray;

/// The offsets of an array without rows: one zero, of 32 or 64 bits.
static NO_OFFSETS: [i64; 1] = [0];

/// What an exported struct points at.
struct Owned {
    _data: ArrayData,
    _null_bits: Option<Buffer>,
    _variadic_lengths: Box<[i64]>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut CArray>,
    dictionary: *mut CArray,
}

/// The struct of an array.
pub(crate) fn export(data: &ArrayData) -> CArray {
    let layout = layout(data.data_type());
    let null_bits = null_bits(data);
    let mut buffers: Vec<*const c_void> = Vec::with_capacity(data.buffers().len() + 2);
    if layout.can_contain_null_mask {
        buffers.push(null_bits.as_ref().map_or(ptr::null(), |bits| bits.as_ptr().cast()));
    }
    for (place, buffer) in data.buffers().iter().enumerate() {
        let needs_offsets = place == 0 && buffer.is_empty() && has_offsets(data.data_type());
        buffers.push(match needs_offsets {
            true => NO_OFFSETS.as_ptr().cast(),
            false => buffer.as_ptr().cast(),
        });
    }
    let mut variadic_lengths = Vec::new().into_boxed_slice();
    if layout.variadic {
        variadic_lengths = data.buffers()[1..].iter().map(|buffer| buffer.len() as i64).collect();
        buffers.push(variadic_lengths.as_ptr().cast());
    }
    let boxed = |data: &ArrayData| Box::into_raw(Box::new(export(data)));
    let (children, dictionary) = match data.data_type() {
        DataType::Dictionary(..) => (Vec::new(), boxed(&data.child_data()[0])),
        _ => (data.child_data().iter().map(boxed).collect(), ptr::null_mut()),
    };
    let null_count = match data.data_type() {
        DataType::Null => data.len(),
        _ => data.null_count(),
    };
    let mut owned = Box::new(Owned {
        _data: data.clone(),
        _null_bits: null_bits,
        _variadic_lengths: variadic_lengths,
        buffers,
        children,
        dictionary,
    });
    CArray {
        length: data.len() as i64,
        null_count: null_count as i64,
        offset: data.offset() as i64,
        n_buffers: owned.buffers.len() as i64,
        n_children: owned.children.len() as i64,
        buffers: owned.buffers.as_mut_ptr(),
        children: owned.children.as_mut_ptr(),
        dictionary: owned.dictionary,
        release: Some(release),
        private_data: Box::into_raw(owned).cast(),
    }
}

/// The bits of NULLs, with the offset of the array.
fn null_bits(data: &ArrayData) -> Option<Buffer> {
    let nulls = data.nulls()?;
    if nulls.offset() == data.offset() {
        return Some(nulls.buffer().clone());
    }
    let mut bits = BooleanBufferBuilder::new(data.offset() + nulls.len());
    bits.append_n(data.offset(), false);
    bits.append_buffer(nulls.inner());
    Some(bits.finish().into_inner())
}

fn has_offsets(data_type: &DataType) -> bool {
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

/// # Safety
/// `array` was made by [`export`] and has not been released.
unsafe extern "C" fn release(array: *mut CArray) {
    // SAFETY: `private_data` is the box of `export`, whose children are boxes of it.
    unsafe {
        let owned = Box::from_raw((*array).private_data.cast::<Owned>());
        for &child in owned.children.iter().chain([&owned.dictionary]) {
            if !child.is_null() {
                drop(Box::from_raw(child));
            }
        }
        (*array).release = None;
        (*array).private_data = ptr::null_mut();
    }
}
