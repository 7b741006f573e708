//! Structs, lists, maps and unions: a null parent has no row in its children, elements are rows of the child column,
//! and a union's value is a row of its variant.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, OffsetSizeTrait};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::{filter, take};
use arrow::datatypes::DataType;

use super::arrow_input::unexpected;
use super::byte_rle::ByteEncoder;
use super::column::Column;
use super::rle_v2::IntEncoder;
use super::statistics::Statistics;
use crate::error::{LayoutError, Result};

/// Writes the fields of the structs that are not null.
pub(super) fn write_struct(array: &ArrayRef, nulls: Option<&NullBuffer>, children: &mut [Column]) -> Result<()> {
    let keep = nulls.map(|nulls| BooleanArray::new(nulls.inner().clone(), None));
    for (child, field) in children.iter_mut().zip(array.as_struct().columns()) {
        child.write(&kept(field, keep.as_ref())?)?;
    }
    Ok(())
}

/// Writes a list's or a map's lengths, and the elements of the rows that are not null.
pub(super) fn write_list(
    array: &ArrayRef,
    nulls: Option<&NullBuffer>,
    lengths: &mut IntEncoder,
    statistics: &mut Statistics,
    children: &mut [Column],
) -> Result<()> {
    match array.data_type() {
        DataType::Map(..) => {
            let map = array.as_map();
            let elements = [map.keys().clone(), map.values().clone()];
            write_elements(map.offsets(), &elements, nulls, lengths, statistics, children)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            write_elements(
                list.offsets(),
                &[list.values().clone()],
                nulls,
                lengths,
                statistics,
                children,
            )
        }
        _ => {
            let list = array.as_list::<i32>();
            write_elements(
                list.offsets(),
                &[list.values().clone()],
                nulls,
                lengths,
                statistics,
                children,
            )
        }
    }
}

fn write_elements<O: OffsetSizeTrait>(
    offsets: &OffsetBuffer<O>,
    elements: &[ArrayRef],
    nulls: Option<&NullBuffer>,
    lengths: &mut IntEncoder,
    statistics: &mut Statistics,
    children: &mut [Column],
) -> Result<()> {
    let first = offsets[0].as_usize();
    let span = offsets[offsets.len() - 1].as_usize() - first;
    let present = |row: usize| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let mut row_lengths = Vec::with_capacity(offsets.len());
    let mut total = 0;
    for (row, pair) in offsets.windows(2).enumerate() {
        if present(row) {
            let length = pair[1].as_usize() - pair[0].as_usize();
            row_lengths.push(length as i64);
            total += length;
        }
    }
    statistics.collections(&row_lengths);
    lengths.write(&row_lengths)?;
    // A null row may have elements; they are not written.
    let keep = (total != span).then(|| {
        let mut keep = vec![false; span];
        for (row, pair) in offsets.windows(2).enumerate() {
            keep[pair[0].as_usize() - first..pair[1].as_usize() - first].fill(present(row));
        }
        BooleanArray::new(BooleanBuffer::from(keep), None)
    });
    for (child, values) in children.iter_mut().zip(elements) {
        child.write(&kept(&values.slice(first, span), keep.as_ref())?)?;
    }
    Ok(())
}

/// Writes the variant of each value, and each value to its variant.
pub(super) fn write_union(name: &str, array: &ArrayRef, tags: &mut ByteEncoder, children: &mut [Column]) -> Result<()> {
    let DataType::Union(fields, _) = array.data_type() else {
        return Err(unexpected(name, array.data_type()));
    };
    let union = array.as_union();
    let ids = union.type_ids();
    for ((id, _), child) in fields.iter().zip(children) {
        let is_of_variant = ids.iter().map(|&of_row| of_row == id);
        let values = match union.offsets() {
            None => {
                let mask = BooleanArray::new(is_of_variant.collect(), None);
                kept(union.child(id), Some(&mask))?
            }
            Some(offsets) => {
                let of_variant = is_of_variant
                    .zip(offsets.iter())
                    .filter(|(is_of_variant, _)| *is_of_variant);
                let rows = Int32Array::from_iter_values(of_variant.map(|(_, &offset)| offset));
                take(union.child(id), &rows, None).map_err(|error| LayoutError::Write(error.to_string()))?
            }
        };
        child.write(&values)?;
    }
    let tag_of = |of_row: i8| fields.iter().position(|(id, _)| id == of_row).unwrap_or(0) as u8;
    let mut known = [0; 128];
    (0..128u8).for_each(|id| known[usize::from(id)] = tag_of(id as i8));
    tags.write(ids.iter().map(|&id| known[usize::from(id as u8 & 0x7f)]))
}

fn kept(array: &ArrayRef, keep: Option<&BooleanArray>) -> Result<ArrayRef> {
    match keep {
        None => Ok(array.clone()),
        Some(keep) => filter(array, keep).map_err(|error| LayoutError::Write(error.to_string())),
    }
}
