//! `Column`: a column's extents in device memory, made from runs of values in storages.

use grampus_cuda::DeviceBuffer;

use crate::abi::{ColumnDesc, Extent, LINE_BYTES};
use crate::error::StackError;
use crate::source::Source;

/// A run of values in a storage.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Index of the storage, in the order given to [`Stack::new`](crate::stack::Stack::new).
    pub source: u32,
    /// Where the first value begins, in bytes; any alignment.
    pub byte: u64,
    /// Number of values.
    pub rows: u64,
    /// The GPU's address of the storage's byte 0 in a registered mapping; 0: not mapped.
    pub mapped: u64,
}

/// A column's extents in device memory.
#[derive(Debug)]
pub struct Column {
    pub(crate) _extents: DeviceBuffer,
    pub(crate) desc: ColumnDesc,
}

impl Column {
    /// The description that kernels read.
    pub fn desc(&self) -> ColumnDesc {
        self.desc
    }
}

/// The runs, one after the other, in the form that kernels read.
pub(crate) fn extents_of(sources: &[Source], value_bytes: u32, runs: &[Run]) -> Result<Vec<Extent>, StackError> {
    let mut extents = Vec::with_capacity(runs.len());
    let mut first_row = 0;
    for run in runs {
        let known = sources.get(run.source as usize);
        let Some((source, there)) = known.and_then(|s| Some((s, s.bytes.as_ref()?))) else {
            return Err(StackError::Outside {
                storage: format!("storage {}", run.source),
                offset: run.byte,
                bytes: 0,
                size: 0,
            });
        };
        let (bytes, size) = (run.rows.saturating_mul(u64::from(value_bytes)), source.size_bytes());
        if run.byte.checked_add(bytes).is_none_or(|end| end > size) {
            return Err(StackError::Outside {
                storage: there.describe(),
                offset: run.byte,
                bytes,
                size,
            });
        }
        let line = run.byte / LINE_BYTES;
        extents.push(Extent {
            first_row,
            rows: run.rows,
            first_line: source.first_line + line,
            storage_byte: source.position() + line * LINE_BYTES,
            mapped: if run.mapped == 0 {
                0
            } else {
                run.mapped + line * LINE_BYTES
            },
            first_byte: (run.byte % LINE_BYTES) as u32,
            source: run.source,
        });
        first_row += run.rows;
    }
    Ok(extents)
}
