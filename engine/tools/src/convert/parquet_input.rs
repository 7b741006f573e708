//! Parquet files as an [`Input`].

use std::fs::File;
use std::path::Path;

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::input::{BATCH_ROWS, Fault, Input, positions};

/// Opens a Parquet file.
pub(super) fn open(path: &Path, columns: Option<&[String]>) -> Result<Input, Fault> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?;
    let positions = positions(builder.schema(), columns)?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), positions.iter().copied());
    let schema = builder.schema().project(&positions)?;
    let reader = builder.with_projection(mask).with_batch_size(BATCH_ROWS).build()?;
    Ok(Input::reordered(schema, ranks(&positions), reader))
}

/// The rank of each position among all. Parquet's reader yields the chosen columns in file order.
fn ranks(positions: &[usize]) -> Vec<usize> {
    let mut sorted = positions.to_vec();
    sorted.sort_unstable();
    let rank = |p: &usize| sorted.partition_point(|s| s < p);
    positions.iter().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_restore_the_wanted_order() {
        assert_eq!(ranks(&[4, 0, 2]), [2, 0, 1]);
        assert_eq!(ranks(&[0, 1]), [0, 1]);
    }
}
