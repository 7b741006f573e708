//! `ConstantColumns`: device memory full of one value. It stands for rows that all have the value, and for validity
//! without NULLs.
//!
//! Values share buffers. The more values a column has, the shorter are their runs: a table with ten thousand Hive
//! partitions takes some hundred MiB, and not ten thousand times the longest run.

use std::collections::HashMap;
use std::sync::Arc;

use grampus_cuda::{CudaError, Device, DeviceBuffer};

/// Rows of a run. A stripe of more rows repeats the run. Whole tiles, so that few tiles end in the middle of one.
const MAX_RUN_ROWS: u64 = 1 << 18;
const MIN_RUN_ROWS: u64 = 1 << 9;
/// Bytes of the runs of one column, unless even the shortest ones take more.
const MAX_COLUMN_BYTES: u64 = 256 << 20;
/// Bytes of cached runs. A query may use more of them: its extents hold what they point into.
const MAX_CACHED_BYTES: u64 = 512 << 20;
/// Bytes of a buffer that runs share.
const BUFFER_BYTES: usize = 16 << 20;
/// Kernels load whole words of 8 bytes: a buffer has one more at its end.
const MARGIN_BYTES: usize = 8;

/// Consecutive rows of one value.
#[derive(Debug, Clone)]
pub(crate) struct ConstantRun {
    pub(crate) buffer: Arc<DeviceBuffer>,
    offset: usize,
    pub(crate) rows: u64,
}

impl ConstantRun {
    /// Address on the device.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address() + self.offset as u64
    }
}

/// One run per width, value and length.
#[derive(Debug, Default)]
pub(crate) struct ConstantColumns {
    runs: HashMap<(u32, u64, u64), ConstantRun>,
    bytes: u64,
}

/// Rows of the runs of a column with so many values of `width` bytes, whose longest stripe has `most_rows` rows.
fn run_rows(values: usize, width: u32, most_rows: u64) -> u64 {
    let fit = MAX_COLUMN_BYTES / (values.max(1) as u64 * u64::from(width));
    let fit = 1 << fit.max(1).ilog2();
    most_rows
        .min(MAX_RUN_ROWS)
        .next_power_of_two()
        .min(fit)
        .clamp(MIN_RUN_ROWS, MAX_RUN_ROWS)
}

impl ConstantColumns {
    /// A run of each value of `width` bytes, given by the low bytes of its bits. `most_rows`: rows of the longest
    /// stripe that has one of them.
    pub(crate) fn runs(
        &mut self,
        device: &Device,
        width: u32,
        values: &[u64],
        most_rows: u64,
    ) -> Result<HashMap<u64, ConstantRun>, CudaError> {
        let rows = run_rows(values.len(), width, most_rows);
        if self.bytes > MAX_CACHED_BYTES {
            (self.runs, self.bytes) = (HashMap::new(), 0);
        }
        let is_new = |bits: &&u64| !self.runs.contains_key(&(width, **bits, rows));
        let new: Vec<u64> = values.iter().filter(is_new).copied().collect();
        let run_bytes = rows as usize * width as usize;
        for new in new.chunks((BUFFER_BYTES / run_bytes).max(1)) {
            self.add(device, width, new, rows)?;
        }
        let run = |bits: &u64| Some((*bits, self.runs.get(&(width, *bits, rows))?.clone()));
        Ok(values.iter().filter_map(run).collect())
    }

    /// Adds runs that share a buffer.
    fn add(&mut self, device: &Device, width: u32, values: &[u64], rows: u64) -> Result<(), CudaError> {
        let run_bytes = rows as usize * width as usize;
        let mut bytes = Vec::with_capacity(values.len() * run_bytes + MARGIN_BYTES);
        for bits in values {
            let value = &bits.to_le_bytes()[..width as usize];
            bytes.extend(value.repeat(rows as usize));
        }
        bytes.extend([0; MARGIN_BYTES]);
        let buffer = Arc::new(DeviceBuffer::from_values(device, &bytes)?);
        self.bytes += bytes.len() as u64;
        for (at, bits) in values.iter().enumerate() {
            let run = ConstantRun {
                buffer: buffer.clone(),
                offset: at * run_bytes,
                rows,
            };
            self.runs.insert((width, *bits, rows), run);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_shorter_the_more_values_there_are() {
        assert_eq!(run_rows(1, 8, 1 << 30), MAX_RUN_ROWS);
        assert_eq!(run_rows(2, 1, 1 << 30), MAX_RUN_ROWS);
        assert_eq!(run_rows(1, 8, 1000), 1024);
        assert_eq!(run_rows(10_000, 8, 1 << 20), 2048);
        assert_eq!(run_rows(10_000_000, 8, 1 << 20), MIN_RUN_ROWS);
    }

    #[test]
    fn values_share_buffers_and_are_kept() {
        let device = Device::host(1, 1 << 24);
        let mut constants = ConstantColumns::default();
        let runs = constants.runs(&device, 4, &[7, 8, 9], 600).unwrap();
        for (bits, run) in &runs {
            let read: Vec<u32> = run.buffer.read(run.offset, run.rows as usize).unwrap();
            assert!(run.rows == 1024 && read.iter().all(|value| u64::from(*value) == *bits));
        }
        assert!(Arc::ptr_eq(&runs[&7].buffer, &runs[&9].buffer));
        let again = constants.runs(&device, 4, &[6, 8], 600).unwrap();
        assert!(Arc::ptr_eq(&again[&8].buffer, &runs[&8].buffer));
        assert!(!Arc::ptr_eq(&again[&6].buffer, &runs[&8].buffer));
    }
}
