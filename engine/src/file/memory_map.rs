//! `MemoryMap`: the memory map of a local file. This module has the only `unsafe` code of the crate.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use grampus_driver::raw::Mapping;
use grampus_orc_layout::Result;

use super::io_error;

/// A whole file, mapped read-only. The operating system loads a page at its first use.
///
/// **Invariant:** no byte at or beyond the length of the planned version is read.
///
/// If another process truncates the file, or the disk fails, loads return zeros and [`has_failed`](Self::has_failed) is
/// true from then on ([`Mapping`]).
#[derive(Debug)]
pub struct MemoryMap {
    bytes: Bytes,
    /// `None`: the file is empty.
    mapping: Option<Arc<Mapping>>,
}

/// The owner of the bytes, which stay mapped as long as a slice of them exists.
struct MappedBytes(Arc<Mapping>);

impl AsRef<[u8]> for MappedBytes {
    #[allow(unsafe_code)]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: another process may change the bytes. `MapSource` copies them for decoders, which may load a byte
        // twice. Only numbers of direct columns are used in place, and any bytes are valid numbers.
        unsafe { self.0.bytes() }
    }
}

impl MemoryMap {
    /// Maps the first `length` bytes of `file`.
    ///
    /// # Errors
    /// `Io` if the system refuses.
    pub fn new(name: &Arc<str>, file: &File, length: u64) -> Result<Self> {
        let failed = |error: std::io::Error| io_error(name, &(0..length), error);
        let map_length = usize::try_from(length).map_err(|error| failed(std::io::Error::other(error)))?;
        if map_length == 0 {
            return Ok(Self {
                bytes: Bytes::new(),
                mapping: None,
            });
        }
        let mapping = Arc::new(Mapping::new(file, map_length).map_err(failed)?);
        Ok(Self {
            bytes: Bytes::from_owner(MappedBytes(Arc::clone(&mapping))),
            mapping: Some(mapping),
        })
    }

    /// Has loads bring the pages that they touch, and nothing ahead of them.
    pub fn expect_random_loads(&self) {
        if let Some(Err(error)) = self.mapping.as_ref().map(|mapping| mapping.expect_random_loads()) {
            log::info!("the system reads ahead of loads from a map: {error}");
        }
    }

    /// Whether the page of a byte is missing from memory, of a file that the process owns.
    #[cfg(target_os = "linux")]
    pub fn is_missing(&self, offset: u64) -> bool {
        let page = self.mapping.as_ref().zip(usize::try_from(offset).ok());
        page.is_some_and(|(mapping, offset)| matches!(mapping.is_resident(offset), Ok(false)))
    }

    /// Other systems do not say.
    #[cfg(not(target_os = "linux"))]
    pub fn is_missing(&self, _: u64) -> bool {
        false
    }

    /// The mapped bytes. A slice of them may change at any time; a check of the file tells afterwards.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether bytes were lost.
    pub fn has_failed(&self) -> bool {
        self.mapping.as_ref().is_some_and(|mapping| mapping.has_failed())
    }
}
