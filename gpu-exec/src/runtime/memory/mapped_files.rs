//! `MappedFiles`: registered mappings of files, kept from query to query within the bound on pinned memory. The least
//! recently used ones are dropped. A file that cannot be registered is remembered and not tried again.

use std::collections::HashMap;
use std::path::Path;

use grampus_io_stack::cuda::{CudaError, Device, MappedFile};

use crate::input::file_registry::FileId;

#[derive(Debug)]
struct Registration {
    /// `None`: the file cannot be registered.
    mapping: Option<MappedFile>,
    bytes: u64,
    /// The query that used the mapping last. The running query's mappings stay.
    used: u64,
}

/// The mappings.
#[derive(Debug)]
pub(crate) struct MappedFiles {
    device: Device,
    bound: u64,
    kept: HashMap<FileId, Registration>,
    query: u64,
}

impl MappedFiles {
    pub(crate) fn new(device: &Device, bound: u64) -> Self {
        Self {
            device: device.clone(),
            bound,
            kept: HashMap::new(),
            query: 0,
        }
    }

    /// A new query begins: the mappings that it uses stay until the next one.
    pub(crate) fn begin(&mut self) {
        self.query += 1;
    }

    /// Whether the file is registered.
    pub(crate) fn has(&self, file: FileId) -> bool {
        self.kept.get(&file).is_some_and(|k| k.mapping.is_some())
    }

    /// Whether registration of the file has failed before.
    pub(crate) fn cannot(&self, file: FileId) -> bool {
        self.kept.get(&file).is_some_and(|k| k.mapping.is_none())
    }

    /// Whether so many bytes could be registered if the running query used nothing.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        bytes <= self.bound
    }

    /// Device address of byte 0 of the file; `None` if the file cannot be registered.
    ///
    /// # Errors
    /// A file that cannot be opened, or a device that is lost.
    pub(crate) fn get(&mut self, file: FileId, path: &Path, bytes: u64) -> Result<Option<u64>, CudaError> {
        let query = self.query;
        if let Some(kept) = self.kept.get_mut(&file) {
            kept.used = query;
            return Ok(kept.mapping.as_ref().and_then(MappedFile::device_address));
        }
        if !self.make_room(bytes) {
            return Ok(None);
        }
        let mapping = MappedFile::open(&self.device, path)?;
        if mapping.len() as u64 != bytes {
            // Kernels would load past the mapping's end.
            return Err(CudaError::File {
                path: path.display().to_string(),
                reason: format!("the file had {bytes} bytes and has {} now", mapping.len()),
            });
        }
        if let Some(e) = mapping.failure().filter(|e| e.is_sticky()) {
            return Err(e.clone());
        }
        let address = mapping.device_address();
        let kept = Registration {
            bytes: if address.is_some() { bytes } else { 0 },
            mapping: address.map(|_| mapping),
            used: query,
        };
        self.kept.insert(file, kept);
        Ok(address)
    }

    /// Unregisters a file. No kernel uses it.
    pub(crate) fn forget(&mut self, file: FileId) {
        self.kept.remove(&file);
    }

    fn make_room(&mut self, bytes: u64) -> bool {
        loop {
            let registered: u64 = self.kept.values().map(|k| k.bytes).sum();
            if registered.saturating_add(bytes) <= self.bound {
                return true;
            }
            let unused = self
                .kept
                .iter()
                .filter(|(_, k)| k.used != self.query && k.mapping.is_some());
            let Some(oldest) = unused.min_by_key(|(_, k)| k.used).map(|(id, _)| *id) else {
                return false;
            };
            self.kept.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::input::FileVersion;
    use crate::input::file_registry::FileRegistry;

    #[test]
    fn the_least_recently_used_mappings_make_room() {
        let device = Device::host(1, 1 << 20);
        let mut mappings = MappedFiles::new(&device, 10_000);
        let mut files = FileRegistry::default();
        let all: Vec<_> = (0..3)
            .map(|_| {
                let mut file = tempfile::NamedTempFile::new().unwrap();
                file.write_all(&[7; 4000]).unwrap();
                let version = FileVersion::of(file.path()).unwrap();
                (files.number(&version).0, file)
            })
            .collect();
        let get = |mappings: &mut MappedFiles, at: usize| mappings.get(all[at].0, all[at].1.path(), 4000).unwrap();
        mappings.begin();
        assert!(get(&mut mappings, 0).is_some() && get(&mut mappings, 1).is_some());
        assert_eq!(get(&mut mappings, 2), None, "the others are in use");
        mappings.begin();
        assert!(get(&mut mappings, 1).is_some() && get(&mut mappings, 2).is_some());
        assert!(!mappings.has(all[0].0) && mappings.has(all[1].0) && mappings.has(all[2].0));
        assert!(mappings.get(all[0].0, Path::new("/nowhere"), 1).is_err());
        mappings.begin();
        let changed = mappings.get(all[0].0, all[0].1.path(), 3999).unwrap_err();
        assert!(changed.to_string().contains("has 4000 now"), "{changed}");
    }
}
