//! `NamespaceSource`: a file of an NVMe namespace. Each read waits for its commands.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use grampus_driver::files::NamespaceFile;
use grampus_orc_layout::Result;
use grampus_orc_layout::source::ByteSource;

use super::{IoCounters, io_error};

/// Reads of a file on a namespace, on the thread that asks.
#[derive(Debug)]
pub struct NamespaceSource {
    name: Arc<str>,
    file: NamespaceFile,
    io: IoCounters,
}

impl NamespaceSource {
    /// Access to a file, whose name is for messages.
    pub fn new(name: &Arc<str>, file: &NamespaceFile, io: IoCounters) -> Self {
        Self {
            name: Arc::clone(name),
            file: file.clone(),
            io,
        }
    }
}

impl ByteSource for NamespaceSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let length = self.file.entry().length_bytes;
        if range.end > length {
            return Err(io_error(&self.name, &range, format!("the file has {length} bytes")));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let read = self.file.read_at(range.start, &mut bytes);
        read.map_err(|error| io_error(&self.name, &range, error))?;
        self.io.add(bytes.len() as u64, 1);
        Ok(bytes.into())
    }
}
