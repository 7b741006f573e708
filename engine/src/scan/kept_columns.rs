//! `KeptColumns`: values of projected filter columns, for rows that passed and are not yet emitted.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, MutableArrayData, make_array};
use arrow::compute::concat;
use datafusion::error::Result;

/// Arrays by table column, each a queue in the order of the rows.
#[derive(Debug)]
pub(super) struct KeptColumns {
    columns: Vec<(usize, VecDeque<Part>)>,
}

/// An array, or its last rows.
#[derive(Debug)]
struct Part {
    array: ArrayRef,
    /// Whether the array shares the buffers of a longer one.
    is_sliced: bool,
}

/// Those of `columns` that `loaded` lacks.
pub(super) fn lacking(loaded: &[(usize, ArrayRef)], columns: impl Iterator<Item = usize>) -> Vec<usize> {
    let is_lacking = |column: &usize| loaded.iter().all(|(known, _)| known != column);
    columns.filter(is_lacking).collect()
}

impl KeptColumns {
    /// Queues for these table columns.
    pub(super) fn new(columns: Vec<usize>) -> Self {
        Self {
            columns: columns.into_iter().map(|column| (column, VecDeque::new())).collect(),
        }
    }

    /// The kept columns that `loaded` lacks.
    pub(super) fn missing(&self, loaded: &[(usize, ArrayRef)]) -> Vec<usize> {
        lacking(loaded, self.columns.iter().map(|(column, _)| *column))
    }

    /// Appends the values of the next rows, from arrays by table column.
    pub(super) fn push(&mut self, loaded: &[(usize, ArrayRef)]) {
        for (column, parts) in &mut self.columns {
            if let Some((_, array)) = loaded.iter().find(|(known, _)| known == column) {
                parts.push_back(Part {
                    array: Arc::clone(array),
                    is_sliced: false,
                });
            }
        }
    }

    /// Bytes of the arrays. A part of an array counts as the whole, which it keeps in memory.
    pub(super) fn bytes(&self) -> usize {
        let parts = self.columns.iter().flat_map(|(_, parts)| parts);
        parts.map(|part| part.array.get_array_memory_size()).sum()
    }

    /// Removes the values of the first `rows` rows of a column, as an array with buffers of its own size. `None`: the
    /// column is not kept.
    pub(super) fn take(&mut self, column: usize, rows: usize) -> Option<Result<ArrayRef>> {
        let (_, parts) = self.columns.iter_mut().find(|(known, _)| *known == column)?;
        let mut taken: Vec<ArrayRef> = Vec::new();
        let mut wanted = rows;
        let mut is_sliced = false;
        while let Some(Part {
            array,
            is_sliced: is_rest,
        }) = parts.pop_front()
        {
            is_sliced |= is_rest;
            if array.len() > wanted {
                parts.push_front(Part {
                    array: array.slice(wanted, array.len() - wanted),
                    is_sliced: true,
                });
                taken.push(array.slice(0, wanted));
                is_sliced = true;
                break;
            }
            wanted -= array.len();
            taken.push(array);
            if wanted == 0 {
                break;
            }
        }
        match taken.as_slice() {
            [whole] if !is_sliced => Some(Ok(Arc::clone(whole))),
            _ => Some(compact(&taken)),
        }
    }
}

/// The arrays one after the other, in new buffers. An operator that measures a batch counts whole buffers.
fn compact(parts: &[ArrayRef]) -> Result<ArrayRef> {
    if let [part] = parts {
        let data = part.to_data();
        let mut copy = MutableArrayData::new(vec![&data], false, data.len());
        copy.try_extend(0, 0, data.len())?;
        return Ok(make_array(copy.freeze()));
    }
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(concat(&parts)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn numbers(range: std::ops::Range<i64>) -> ArrayRef {
        Arc::new(range.collect::<Int64Array>())
    }

    #[test]
    fn rows_are_taken_in_order_in_buffers_of_their_own() {
        let mut kept = KeptColumns::new(vec![3]);
        kept.push(&[(2, numbers(50..60)), (3, numbers(0..1000))]);
        kept.push(&[(3, numbers(1000..1010))]);
        assert!(kept.take(2, 1).is_none());
        let mut next = 0;
        for rows in [1, 400, 599, 10] {
            let array = kept.take(3, rows).unwrap().unwrap();
            let values = array.as_primitive::<Int64Type>().values().to_vec();
            assert_eq!(values, (next..next + rows as i64).collect::<Vec<_>>());
            assert!(array.get_array_memory_size() < 8 * rows + 256, "{rows}");
            next += rows as i64;
        }
        assert_eq!(kept.bytes(), 0);
    }
}
