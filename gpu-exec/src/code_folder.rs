//! `CodeFolder`: machine code in files, kept for later processes.
//!
//! - A file of the folder is named by the hash of all that its machine code depends on, and contains a hash of itself.
//! - A file is written under a temporary name and renamed, so that it is complete or absent.
//! - A file whose hash is wrong counts as absent.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use grampus_cuda::{self as cuda, CudaError, Device};
use sha2::{Digest, Sha256};

/// First bytes of a file. The digit changes with the layout.
const MAGIC: &[u8; 8] = b"GRAMPUS1";
const HASH_BYTES: usize = 32;

/// Machine code for one device, in files by what it is compiled from.
#[derive(Debug, Clone)]
pub struct CodeFolder {
    /// Compiler, driver and version: all that machine code depends on beside the source.
    environment: String,
    folder: Option<PathBuf>,
}

impl CodeFolder {
    /// Machine code for a device in `folder`. `None`: no machine code is kept.
    ///
    /// # Errors
    /// The device's compiler is missing.
    pub fn new(device: &Device, folder: Option<PathBuf>) -> Result<Self, CudaError> {
        let compiler = if device.is_host() {
            cuda::host_environment()? + device.host_lanes().environment()
        } else {
            format!("NVRTC {:?}, sm {:?}", cuda::compiler_version()?, device.compute())
        };
        let (driver, version) = (device.version(), env!("CARGO_PKG_VERSION"));
        Ok(Self {
            environment: format!("{compiler}, driver {driver:?}, grampus {version}"),
            folder,
        })
    }

    /// Machine code of these parts, which are texts and how they are compiled: from the folder, or compiled and kept.
    ///
    /// # Errors
    /// The compiler's.
    pub fn get_or_compile(
        &self,
        parts: &[&str],
        compile: impl FnOnce() -> Result<Vec<u8>, CudaError>,
    ) -> Result<Vec<u8>, CudaError> {
        let key = self.key(parts);
        if let Some(code) = self.read(&key) {
            return Ok(code);
        }
        let code = compile()?;
        self.write(&key, &code);
        Ok(code)
    }

    /// Key of the machine code of these parts.
    pub(crate) fn key(&self, parts: &[&str]) -> String {
        let parts: Vec<&[u8]> = std::iter::once(self.environment.as_str())
            .chain(parts.iter().copied())
            .map(str::as_bytes)
            .collect();
        hex(&hash(&parts))
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.path(key).is_some_and(|path| path.exists())
    }

    pub(crate) fn read(&self, key: &str) -> Option<Vec<u8>> {
        self.path(key).as_deref().and_then(read)
    }

    /// Keeps machine code. A folder that cannot be written is only logged.
    pub(crate) fn write(&self, key: &str, code: &[u8]) {
        if let Some(path) = self.path(key)
            && let Err(e) = write(&path, code)
        {
            log::warn!("{}: a kernel is not kept: {e}", path.display());
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|f| f.join(format!("{key}.kernel")))
    }
}

fn hash(parts: &[&[u8]]) -> [u8; HASH_BYTES] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A file's machine code. `None`: the file is missing or damaged.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) => {
            if e.kind() != std::io::ErrorKind::NotFound {
                log::warn!("{}: {e}", path.display());
            }
            return None;
        }
    };
    let head = MAGIC.len() + HASH_BYTES;
    let whole =
        bytes.len() > head && bytes.starts_with(MAGIC) && bytes[MAGIC.len()..head] == hash(&[&bytes[head..]])[..];
    if !whole {
        log::warn!(
            "{}: not a kernel as it was written; it is compiled again",
            path.display()
        );
        return None;
    }
    Some(bytes.split_off(head))
}

/// Writes a file atomically.
fn write(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(MAGIC)?;
    file.write_all(&hash(&[code]))?;
    file.write_all(code)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_file_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/a.kernel");
        assert_eq!(read(&path), None);
        write(&path, b"machine code").unwrap();
        assert_eq!(read(&path).as_deref(), Some(&b"machine code"[..]));
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path), None, "byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(read(&path), None, "cut at {at}");
        }
    }
}
