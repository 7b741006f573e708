//! The storages of a stack: their key spaces, what the controller and kernels are told of them, and where in them a column's values lie.

use std::sync::Arc;

use grampus_driver::controller::Namespace;
use grampus_driver::storage::{BLOCK_BYTES, Storage};

use crate::cache::LINE_BYTES;
use crate::cuda::DeviceBuffer;
use crate::layout::{ColumnDesc, Extent, SourceDesc};
use crate::stack::{StackError, StackOptions};

/// A storage and the cache keys that are its own: never used for another file, or another version of this one.
#[derive(Debug)]
pub(crate) struct Source {
    /// `None`: no longer used; its keys are not used again.
    pub(crate) storage: Option<Arc<dyn Storage>>,
    pub(crate) first_line: u64,
    pub(crate) lines: u64,
}

impl Source {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.storage.as_ref().map_or(0, |s| s.size_bytes())
    }
}

/// Takes key spaces for storages, behind those that are taken.
pub(crate) fn sources_of(storages: Vec<Arc<dyn Storage>>, next_line: &mut u64) -> Vec<Source> {
    let take = |storage: Arc<dyn Storage>| {
        let lines = storage.size_bytes() / LINE_BYTES;
        let first_line = *next_line;
        *next_line += (lines + 1).next_multiple_of(1 << 12);
        Source {
            storage: Some(storage),
            first_line,
            lines,
        }
    };
    storages.into_iter().map(take).collect()
}

/// The namespaces of the sources that are used.
pub(crate) fn namespaces_of(sources: &[Source]) -> Vec<Namespace> {
    let namespace = |(i, s): (usize, &Source)| {
        Some(Namespace {
            nsid: i as u32 + 1,
            storage: s.storage.clone()?,
        })
    };
    sources.iter().enumerate().filter_map(namespace).collect()
}

/// The sources as kernels see them.
pub(crate) fn describe_sources(sources: &[Source], queues: u32, options: &StackOptions) -> Vec<SourceDesc> {
    let describe = |(i, s): (usize, &Source)| SourceDesc {
        blocks: s.size_bytes() / BLOCK_BYTES,
        nsid: i as u32 + 1,
        lba_log2: BLOCK_BYTES.ilog2(),
        first_queue: 0,
        queue_count: queues,
        max_lines: options.max_lines.clamp(1, 1 << options.cache.group_log2),
        pad0: 0,
    };
    sources.iter().enumerate().map(describe).collect()
}

/// A run of values in a storage.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Index of the storage, in the order given to [`Stack::new`](crate::stack::Stack::new).
    pub source: u32,
    /// Where the first value begins, in bytes; any alignment.
    pub byte: u64,
    /// Values.
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
    /// For kernels.
    pub fn desc(&self) -> ColumnDesc {
        self.desc
    }
}

/// The runs, one after the other, as kernels see them.
pub(crate) fn extents_of(sources: &[Source], value_bytes: u32, runs: &[Run]) -> Result<Vec<Extent>, StackError> {
    let mut extents = Vec::with_capacity(runs.len());
    let mut first_row = 0;
    for run in runs {
        let known = sources.get(run.source as usize);
        let Some((source, storage)) = known.and_then(|s| Some((s, s.storage.as_ref()?))) else {
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
                storage: storage.describe(),
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
            storage_byte: line * LINE_BYTES,
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
