//! [`Fingerprints`]: a hash per column and block of rows. Equal rows have equal fingerprints, however they are divided
//! into batches.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};

/// Rows per fingerprint. A difference is located to one block of this size.
const BLOCK_ROWS: u64 = 65_536;

/// Fingerprints of a stream of batches.
pub(super) struct Fingerprints {
    schema: SchemaRef,
    converters: Vec<RowConverter>,
    /// Hashes by column, then by block.
    hashes: Vec<Vec<u64>>,
    rows: u64,
}

impl Fingerprints {
    /// Empty fingerprints for batches of this schema.
    ///
    /// # Errors
    /// Names the first column whose type cannot be compared.
    pub(super) fn new(schema: &SchemaRef) -> Result<Self, String> {
        let converter = |f: &arrow::datatypes::FieldRef| {
            let converter = RowConverter::new(vec![SortField::new(f.data_type().clone())]);
            converter.map_err(|e| format!("column '{}' cannot be verified: {e}", f.name()))
        };
        Ok(Self {
            schema: schema.clone(),
            converters: schema.fields().iter().map(converter).collect::<Result<_, _>>()?,
            hashes: vec![Vec::new(); schema.fields().len()],
            rows: 0,
        })
    }

    /// The schema of the batches.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Adds the rows of `batch`.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<(), String> {
        for (column, array) in batch.columns().iter().enumerate() {
            self.add_column(column, array)?;
        }
        self.rows += batch.num_rows() as u64;
        Ok(())
    }

    fn add_column(&mut self, column: usize, array: &ArrayRef) -> Result<(), String> {
        let rows = self.converters[column].convert_columns(std::slice::from_ref(array));
        let rows = rows.map_err(|e| format!("column '{}': {e}", self.schema.field(column).name()))?;
        let hashes = &mut self.hashes[column];
        for (row, bytes) in (self.rows..).zip(&rows) {
            let block = (row / BLOCK_ROWS) as usize;
            if hashes.len() <= block {
                hashes.resize(block + 1, 0);
            }
            hashes[block] = hash(hashes[block], bytes.as_ref());
        }
        Ok(())
    }

    /// The first difference, in words.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        if self.rows != other.rows {
            return Some(format!("{} rows instead of {}", other.rows, self.rows));
        }
        for (column, (ours, theirs)) in self.hashes.iter().zip(&other.hashes).enumerate() {
            if let Some(block) = ours.iter().zip(theirs).position(|(a, b)| a != b) {
                let first = block as u64 * BLOCK_ROWS;
                let last = (first + BLOCK_ROWS).min(self.rows) - 1;
                let name = self.schema.field(column).name();
                return Some(format!("column '{name}' differs in rows {first} to {last}"));
            }
        }
        None
    }
}

/// Mixes one value into a running hash: multiplication and rotation, eight bytes at a time.
fn hash(state: u64, value: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let step = |state: u64, word: u64| (state ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let mut state = step(state, value.len() as u64);
    let mut words = value.chunks_exact(8);
    for word in &mut words {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        state = step(state, u64::from_le_bytes(bytes));
    }
    let mut last = [0; 8];
    let rest = words.remainder();
    last[..rest.len()].copy_from_slice(rest);
    step(state, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, StringArray};

    use super::*;

    fn batch(values: Vec<Option<f64>>) -> RecordBatch {
        let text: StringArray = values.iter().map(|v| v.map(|v| v.to_string())).collect();
        let columns: [(&str, ArrayRef); 2] = [("v", Arc::new(Float64Array::from(values))), ("s", Arc::new(text))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn fingerprints(batches: &[RecordBatch]) -> Fingerprints {
        let mut prints = Fingerprints::new(&batches[0].schema()).unwrap();
        batches.iter().for_each(|b| prints.add(b).unwrap());
        prints
    }

    #[test]
    fn fingerprints_ignore_batch_limits_and_find_one_bit() {
        let values: Vec<_> = (0..100_000).map(|i| (i % 7 != 0).then_some(f64::from(i))).collect();
        let whole = batch(values.clone());
        let once = fingerprints(std::slice::from_ref(&whole));
        let parts = fingerprints(&[whole.slice(0, 10), whole.slice(10, 70_000), whole.slice(70_010, 29_990)]);
        assert_eq!(once.difference(&parts), None);
        let mut other = values.clone();
        other[99_995] = Some(-0.0);
        let difference = once.difference(&fingerprints(&[batch(other)])).unwrap();
        assert_eq!(difference, "column 'v' differs in rows 65536 to 99999");
        let shorter = fingerprints(&[whole.slice(0, 5)]);
        assert_eq!(once.difference(&shorter).unwrap(), "5 rows instead of 100000");
    }
}
