//! `Target`: one controller thread's channel to a storage, opened and closed while the thread runs.

use super::namespace::Namespace;
use super::transfer::Extent;
use std::sync::Arc;

use crate::storage::{BlockWriter, Channel};

/// A namespace as one thread reads it.
pub(super) struct Target {
    pub(super) nsid: u32,
    pub(super) size_bytes: u64,
    pub(super) lba_log2: u8,
    pub(super) writer: Option<Arc<dyn BlockWriter>>,
    /// `None`: closed.
    pub(super) channel: Option<Box<dyn Channel>>,
}

impl Target {
    pub(super) fn open(namespace: &Namespace, depth: u32) -> Result<Self, String> {
        Ok(Self {
            nsid: namespace.nsid,
            size_bytes: namespace.storage.size_bytes(),
            lba_log2: namespace.lba_log2,
            writer: namespace.storage.writer(),
            channel: Some(namespace.storage.channel(depth).map_err(|e| e.to_string())?),
        })
    }

    /// The namespace as commands are checked against it.
    pub(super) fn extent(&self, max_bytes: u64) -> Extent {
        Extent {
            size_bytes: self.size_bytes,
            lba_log2: self.lba_log2,
            max_bytes,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.channel.as_ref().map_or(0, |c| c.in_flight())
    }
}

/// Opens channels for new namespaces. Closes those of namespaces that are gone and have no reads in flight. Positions
/// stay: pieces of commands refer to them. Returns why a storage could not be opened.
pub(super) fn change(targets: &mut Vec<Target>, namespaces: &[Namespace], depth: u32) -> Option<String> {
    for target in targets.iter_mut() {
        if target.in_flight() == 0 && !namespaces.iter().any(|n| n.nsid == target.nsid) {
            target.channel = None;
        }
    }
    let mut refused = None;
    for namespace in namespaces {
        if targets.iter().all(|t| t.nsid != namespace.nsid) {
            match Target::open(namespace, depth) {
                Ok(target) => targets.push(target),
                Err(e) => refused = Some(e),
            }
        }
    }
    refused
}
