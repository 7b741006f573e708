//! What one controller thread answers for: a channel to each storage. They come and go while the thread runs; who tells it is mod.rs.

use super::namespace::Namespace;
use crate::storage::Channel;

/// A namespace as one thread reads it.
pub(super) struct Target {
    pub(super) nsid: u32,
    pub(super) size_bytes: u64,
    /// `None`: no longer answered for.
    pub(super) channel: Option<Box<dyn Channel>>,
}

impl Target {
    pub(super) fn open(namespace: &Namespace, depth: u32) -> Result<Self, String> {
        Ok(Self {
            nsid: namespace.nsid,
            size_bytes: namespace.storage.size_bytes(),
            channel: Some(namespace.storage.channel(depth).map_err(|e| e.to_string())?),
        })
    }

    pub(super) fn in_flight(&self) -> usize {
        self.channel.as_ref().map_or(0, |c| c.in_flight())
    }
}

/// Opens what is new and closes what is gone, unless reads are out. Positions stay: pieces of commands know theirs. Returns why a
/// storage could not be opened.
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
