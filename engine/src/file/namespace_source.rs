//! `NamespaceSource`: a file of an NVMe namespace. Each read waits for its commands.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use grampus_orc_layout::Result;
use grampus_orc_layout::source::ByteSource;

use super::IoCounters;
use super::remote::RemoteFile;

/// Reads of a file that [is on a namespace](RemoteFile::is_on_namespace).
#[derive(Debug)]
pub struct NamespaceSource {
    file: Arc<RemoteFile>,
    io: IoCounters,
}

impl NamespaceSource {
    /// Access to a file.
    pub fn new(file: Arc<RemoteFile>, io: IoCounters) -> Self {
        Self { file, io }
    }
}

impl ByteSource for NamespaceSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.file.read_at_once(&range, &self.io)
    }
}
