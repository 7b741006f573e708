//! `Source`: a storage of a stack, or bytes of an NVMe namespace, with its cache keys and its description for the
//! controller and for kernels.

use std::ops::Range;
use std::sync::Arc;

use grampus_driver::controller::Namespace;
use grampus_driver::files::NamespaceRange;
use grampus_driver::storage::{BLOCK_BYTES, Storage};

use crate::abi::{LINE_BYTES, SOURCE_WRITABLE, SourceDesc};

/// Where a source's bytes lie.
#[derive(Debug, Clone)]
pub(crate) enum SourceBytes {
    /// The software controller reads them.
    Storage(Arc<dyn Storage>),
    /// An NVMe controller reads them.
    Namespace(NamespaceRange),
}

impl SourceBytes {
    fn size_bytes(&self) -> u64 {
        match self {
            Self::Storage(storage) => storage.size_bytes(),
            Self::Namespace(range) => range.length_bytes().next_multiple_of(LINE_BYTES),
        }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Storage(storage) => storage.describe(),
            Self::Namespace(range) => range.describe(),
        }
    }
}

/// A storage and its own cache keys, which no other file and no other version of this file ever gets.
#[derive(Debug)]
pub(crate) struct Source {
    /// `None`: retired; its keys are never used again.
    pub(crate) bytes: Option<SourceBytes>,
    pub(crate) first_line: u64,
    pub(crate) lines: u64,
}

impl Source {
    pub(crate) fn size_bytes(&self) -> u64 {
        self.bytes.as_ref().map_or(0, SourceBytes::size_bytes)
    }

    /// Position of its first byte in the namespace that commands name, a multiple of a line.
    pub(crate) fn position(&self) -> u64 {
        match &self.bytes {
            Some(SourceBytes::Namespace(range)) => range.position(),
            _ => 0,
        }
    }

    /// The number of its namespace, if that is an NVMe controller's.
    pub(crate) fn nsid(&self) -> Option<u32> {
        match &self.bytes {
            Some(SourceBytes::Namespace(range)) => Some(range.nsid()),
            _ => None,
        }
    }

    /// log2 of the bytes of a block.
    pub(crate) fn lba_log2(&self) -> u32 {
        match &self.bytes {
            Some(SourceBytes::Namespace(range)) => range.lba_log2(),
            Some(SourceBytes::Storage(storage)) => storage.block_bytes().ilog2(),
            None => BLOCK_BYTES.ilog2(),
        }
    }

    fn is_writable(&self) -> bool {
        match &self.bytes {
            Some(SourceBytes::Storage(storage)) => storage.writer().is_some(),
            Some(SourceBytes::Namespace(_)) => true,
            None => false,
        }
    }

    /// Whether its commands are to fit in bounce slots.
    fn wants_short_commands(&self) -> bool {
        match &self.bytes {
            Some(SourceBytes::Storage(storage)) => storage.suits_short_reads(),
            Some(SourceBytes::Namespace(_)) => true,
            None => false,
        }
    }

    /// The keys of its lines.
    pub(crate) fn keys(&self) -> Range<u64> {
        self.first_line..self.first_line + self.lines
    }
}

/// Assigns key spaces to storages, behind those already assigned.
pub(crate) fn sources_of(all: Vec<SourceBytes>, next_line: &mut u64) -> Vec<Source> {
    let take = |bytes: SourceBytes| {
        let lines = bytes.size_bytes() / LINE_BYTES;
        let first_line = *next_line;
        *next_line += (lines + 1).next_multiple_of(1 << 12);
        Source {
            bytes: Some(bytes),
            first_line,
            lines,
        }
    };
    all.into_iter().map(take).collect()
}

/// The namespaces of the storages in use.
pub(crate) fn namespaces_of(sources: &[Source]) -> Vec<Namespace> {
    let namespace = |(i, source): (usize, &Source)| match &source.bytes {
        Some(SourceBytes::Storage(storage)) => Some(Namespace::new(i as u32 + 1, storage.clone())),
        _ => None,
    };
    sources.iter().enumerate().filter_map(namespace).collect()
}

/// Longest transfers of one command, in lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxLines {
    /// Of any storage.
    pub(crate) long: u32,
    /// Of commands that fit in bounce slots, from which kernels copy them. The copy engine, which fetches longer reads,
    /// is not worth starting below some megabytes (docs/experiments/0046), and an NVMe controller has none.
    pub(crate) short: u32,
}

/// The sources in the form that kernels read.
pub(crate) fn describe_sources(sources: &[Source], queues: u32, max_lines: MaxLines) -> Vec<SourceDesc> {
    let describe = |(i, s): (usize, &Source)| SourceDesc {
        blocks: (s.position() + s.size_bytes()) >> s.lba_log2(),
        nsid: s.nsid().unwrap_or(i as u32 + 1),
        lba_log2: s.lba_log2(),
        first_queue: 0,
        queue_count: queues,
        max_lines: if s.wants_short_commands() {
            max_lines.short
        } else {
            max_lines.long
        },
        flags: if s.is_writable() { SOURCE_WRITABLE } else { 0 },
    };
    sources.iter().enumerate().map(describe).collect()
}
