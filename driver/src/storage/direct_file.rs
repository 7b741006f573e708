//! `DirectFile`: a file read past the page cache, with O_DIRECT through io_uring, many reads in flight on one thread.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BLOCK_BYTES, Channel, ReadDone, ReadRequest, Storage, namespace_bytes};
use crate::error::StorageError;
use crate::raw::{HostMemory, Uring};
use crate::spec::StatusCode;

/// A file as a namespace, read from the device itself. Needs memory aligned to 512 bytes; bounce slots and staging
/// buffers are page-aligned.
#[derive(Debug)]
pub struct DirectFile {
    path: PathBuf,
    file: Arc<File>,
    length: u64,
}

impl DirectFile {
    /// Opens a file with O_DIRECT. Its length is taken now and must not shrink.
    ///
    /// # Errors
    /// The operating system's; file systems without direct I/O (tmpfs on older kernels) answer `InvalidInput`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            length,
        })
    }
}

impl Storage for DirectFile {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn size_bytes(&self) -> u64 {
        namespace_bytes(self.length)
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        let ring = Uring::new(depth).map_err(|e| StorageError {
            storage: self.describe(),
            offset: 0,
            length: 0,
            reason: format!("cannot set up io_uring: {e}"),
            code: StatusCode::InternalError,
        })?;
        Ok(Box::new(DirectChannel {
            ring,
            file: self.file.clone(),
            length: self.length,
            name: self.describe(),
            offsets: Default::default(),
            failed: Vec::new(),
        }))
    }
}

struct DirectChannel {
    ring: Uring,
    file: Arc<File>,
    length: u64,
    name: String,
    /// Offset of each read in flight, by token.
    offsets: std::collections::HashMap<u64, u64>,
    failed: Vec<ReadDone>,
}

impl DirectChannel {
    fn error(&self, offset: u64, length: usize, reason: String, code: StatusCode) -> StorageError {
        StorageError {
            storage: self.name.clone(),
            offset,
            length: length as u64,
            reason,
            code,
        }
    }

    /// A read that ends at the end of the file comes back short: the rest of the last 4 KiB is zeros.
    fn finish(&self, offset: u64, memory: &mut HostMemory, result: Result<usize, i32>) -> Result<(), StorageError> {
        let wanted = memory.len();
        let there = self.length.saturating_sub(offset).min(wanted as u64) as usize;
        match result {
            Ok(read) if read >= there => {
                memory.bytes_mut()[there..].fill(0);
                Ok(())
            }
            Ok(read) => Err(self.error(
                offset,
                wanted,
                format!("got {read} of {there} bytes: is the file shorter now?"),
                StatusCode::DataTransferError,
            )),
            Err(errno) => Err(self.error(
                offset,
                wanted,
                io::Error::from_raw_os_error(errno).to_string(),
                StatusCode::UnrecoveredReadError,
            )),
        }
    }
}

impl Channel for DirectChannel {
    fn start(&mut self, request: ReadRequest) -> Result<(), ReadRequest> {
        let ReadRequest {
            token,
            offset_bytes,
            memory,
        } = request;
        let aligned = [memory.as_ptr() as u64, memory.len() as u64, offset_bytes];
        if !aligned.iter().all(|n| n.is_multiple_of(BLOCK_BYTES)) {
            let reason = "direct reads need offset, length and memory aligned to 512 bytes".into();
            let result = Err(self.error(offset_bytes, memory.len(), reason, StatusCode::InvalidField));
            self.failed.push(ReadDone { token, memory, result });
            return Ok(());
        }
        match self.ring.start(self.file.as_raw_fd(), offset_bytes, memory, token) {
            Ok(()) => {
                self.offsets.insert(token, offset_bytes);
                Ok(())
            }
            Err(memory) => Err(ReadRequest {
                token,
                offset_bytes,
                memory,
            }),
        }
    }

    fn poll(&mut self, done: &mut Vec<ReadDone>) {
        done.append(&mut self.failed);
        let mut finished = Vec::new();
        if let Err(e) = self
            .ring
            .poll(|token, memory, result| finished.push((token, memory, result)))
        {
            // The reads stay in flight; their commands time out on the host side, which reports them.
            log::error!("{}: io_uring: {e}", self.name);
        }
        for (token, mut memory, result) in finished {
            let offset = self.offsets.remove(&token).unwrap_or_default();
            let result = self.finish(offset, &mut memory, result);
            done.push(ReadDone { token, memory, result });
        }
    }

    fn in_flight(&self) -> usize {
        self.ring.in_flight() + self.failed.len()
    }
}
