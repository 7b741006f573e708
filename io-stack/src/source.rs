//! `Source`: a storage of a stack, its cache keys, and its description for the controller and for kernels.

use std::ops::Range;
use std::sync::Arc;

use grampus_driver::controller::Namespace;
use grampus_driver::storage::{BLOCK_BYTES, Storage};

use crate::abi::{LINE_BYTES, SOURCE_WRITABLE, SourceDesc};

/// A storage and its own cache keys, which no other file and no other version of this file ever gets.
#[derive(Debug)]
pub(crate) struct Source {
    /// `None`: retired; its keys are never used again.
    pub(crate) storage: Option<Arc<dyn Storage>>,
    pub(crate) first_line: u64,
    pub(crate) lines: u64,
}

impl Source {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.storage.as_ref().map_or(0, |s| s.size_bytes())
    }

    fn is_writable(&self) -> bool {
        self.storage.as_ref().is_some_and(|s| s.writer().is_some())
    }

    fn suits_short_reads(&self) -> bool {
        self.storage.as_ref().is_some_and(|s| s.suits_short_reads())
    }

    /// The keys of its lines.
    pub(crate) fn keys(&self) -> Range<u64> {
        self.first_line..self.first_line + self.lines
    }
}

/// Assigns key spaces to storages, behind those already assigned.
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

/// The namespaces of the sources in use.
pub(crate) fn namespaces_of(sources: &[Source]) -> Vec<Namespace> {
    let namespace = |(i, s): (usize, &Source)| Some(Namespace::new(i as u32 + 1, s.storage.clone()?));
    sources.iter().enumerate().filter_map(namespace).collect()
}

/// Longest transfers of one command, in lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxLines {
    /// Of any storage.
    pub(crate) long: u32,
    /// Of a storage that short reads suit. They fit in bounce slots, from which kernels copy them. The copy engine,
    /// which fetches longer reads, is not worth starting below some megabytes (docs/experiments/0046).
    pub(crate) short: u32,
}

/// The sources in the form that kernels read.
pub(crate) fn describe_sources(sources: &[Source], queues: u32, max_lines: MaxLines) -> Vec<SourceDesc> {
    let describe = |(i, s): (usize, &Source)| SourceDesc {
        blocks: s.size_bytes() / BLOCK_BYTES,
        nsid: i as u32 + 1,
        lba_log2: BLOCK_BYTES.ilog2(),
        first_queue: 0,
        queue_count: queues,
        max_lines: if s.suits_short_reads() {
            max_lines.short
        } else {
            max_lines.long
        },
        flags: if s.is_writable() { SOURCE_WRITABLE } else { 0 },
    };
    sources.iter().enumerate().map(describe).collect()
}
