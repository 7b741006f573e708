//! `DirectFile`: a file read past the page cache, with O_DIRECT through io_uring, many reads in flight on one thread.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BLOCK_BYTES, Channel, NAMESPACE_GRAIN_BYTES, ReadDone, ReadRequest, Storage, namespace_bytes};
use crate::error::StorageError;
use crate::raw::{HostMemory, Uring};
use crate::spec::StatusCode;

/// A file as a namespace, read from the device itself, in blocks as long as its file system and its drive ask for: 512
/// bytes, or up to 4,096. Needs memory aligned to a block; bounce slots and staging buffers are page-aligned.
#[derive(Debug)]
pub struct DirectFile {
    path: PathBuf,
    file: Arc<File>,
    length: u64,
    block_bytes: u64,
}

impl DirectFile {
    /// Opens a file with O_DIRECT. Its length is taken now and must not shrink.
    ///
    /// # Errors
    /// The operating system's; file systems without direct I/O (tmpfs on older kernels) answer `InvalidInput`, as do
    /// those that read more than 4 KiB at once alone.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let length = file.metadata()?.len();
        let block_bytes = direct_block_bytes(&file)?;
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            length,
            block_bytes,
        })
    }
}

/// The block of direct reads: what the system says, else the shortest read that succeeds.
fn direct_block_bytes(file: &File) -> io::Result<u64> {
    use rustix::fs::{AtFlags, StatxFlags, statx};
    let said = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    match said
        .ok()
        .filter(|said| said.stx_mask & StatxFlags::DIOALIGN.bits() != 0)
    {
        // Memory lies at multiples of its length.
        Some(said) => checked_block(said.stx_dio_offset_align.into(), said.stx_dio_mem_align.into()),
        // Before Linux 6.1, and on file systems that do not say.
        None => shortest_block(|memory| Ok(rustix::io::pread(file, memory, 0)?)),
    }
}

/// The shortest block that can be read.
fn shortest_block(mut read: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<u64> {
    let grain = NAMESPACE_GRAIN_BYTES as usize;
    let mut memory = vec![0; 2 * grain];
    let start = memory.as_ptr().align_offset(grain).min(grain);
    let mut bytes = BLOCK_BYTES as usize;
    loop {
        match read(&mut memory[start..start + bytes]) {
            Err(e) if e.kind() == io::ErrorKind::InvalidInput && bytes < grain => bytes *= 2,
            other => return other.map(|_| bytes as u64),
        }
    }
}

/// The block for these alignments of offsets and of memory. Reads of lines of 4 KiB keep to it.
fn checked_block(offset_align: u64, memory_align: u64) -> io::Result<u64> {
    let block = offset_align.max(memory_align).max(BLOCK_BYTES);
    match offset_align > 0 && block.is_power_of_two() && block <= NAMESPACE_GRAIN_BYTES {
        true => Ok(block),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("direct reads at multiples of {offset_align} bytes"),
        )),
    }
}

impl Storage for DirectFile {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn size_bytes(&self) -> u64 {
        namespace_bytes(self.length)
    }

    fn block_bytes(&self) -> u64 {
        self.block_bytes
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
            block_bytes: self.block_bytes,
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
    block_bytes: u64,
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
        if !aligned.iter().all(|n| n.is_multiple_of(self.block_bytes)) {
            let reason = format!(
                "direct reads need offset, length and memory aligned to {} bytes",
                self.block_bytes
            );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_those_of_the_file_system_and_not_longer_than_a_line() {
        assert_eq!(checked_block(512, 4).unwrap(), 512);
        assert_eq!(checked_block(1, 1).unwrap(), 512);
        assert_eq!(checked_block(4096, 512).unwrap(), 4096);
        assert_eq!(checked_block(512, 4096).unwrap(), 4096);
        for (offset, memory) in [(8192, 512), (0, 0), (512, 65_536), (1536, 4)] {
            let refused = checked_block(offset, memory).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{offset}, {memory}");
        }
    }

    #[test]
    fn where_the_system_does_not_say_the_shortest_read_that_succeeds_is_the_block() {
        let drive = |block: usize| {
            move |memory: &mut [u8]| {
                let at = memory.as_ptr() as usize;
                let is_aligned = at.is_multiple_of(block) && memory.len().is_multiple_of(block);
                is_aligned.then_some(100).ok_or(io::ErrorKind::InvalidInput.into())
            }
        };
        for block in [512, 1024, 4096] {
            assert_eq!(shortest_block(drive(block)).unwrap(), block as u64);
        }
        assert!(shortest_block(drive(8192)).is_err());
        let broken = |_: &mut [u8]| Err(io::ErrorKind::PermissionDenied.into());
        assert_eq!(
            shortest_block(broken).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
    }
}
