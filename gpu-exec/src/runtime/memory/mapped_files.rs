//! `MappedFiles`: registered mappings of files, kept from query to query within the bound on pinned memory. The least
//! recently used ones are dropped. A file that cannot be registered is remembered and not tried again. If no more
//! memory could be pinned, the file is tried again after a while.
//!
//! A query holds the mappings that it reads. One query registers files at a time; others meanwhile find what is
//! registered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use grampus_cuda::{CudaError, Device, MappedFile};

use crate::error::RunError;
use crate::input::FileVersion;
use crate::input::file_registry::FileId;
use crate::runtime::memory::residency::{Mapping, Residency};

/// Interval of looks at the caller's flag while another query registers a file.
const STOP_POLL: Duration = Duration::from_millis(1);

#[derive(Debug)]
struct Registration {
    /// `None`: the file could not be registered.
    mapping: Option<Arc<MappedFile>>,
    known: Mapping,
    bytes: u64,
    /// The last look-up of the mapping.
    used: u64,
}

impl Registration {
    /// Whether a query holds the mapping.
    fn is_in_use(&self) -> bool {
        self.mapping
            .as_ref()
            .is_some_and(|mapping| Arc::strong_count(mapping) > 1)
    }
}

#[derive(Debug, Default)]
struct Registrations {
    kept: HashMap<FileId, Registration>,
    lookups: u64,
}

/// The mappings.
#[derive(Debug)]
pub(crate) struct MappedFiles {
    device: Device,
    bound: u64,
    residency: Arc<Residency>,
    registrations: Mutex<Registrations>,
    /// Held while a file is registered, which takes a second for 10 GB.
    registering: Mutex<()>,
}

impl MappedFiles {
    pub(crate) fn new(device: &Device, residency: &Arc<Residency>, bound: u64) -> Self {
        Self {
            device: device.clone(),
            bound,
            residency: residency.clone(),
            registrations: Mutex::default(),
            registering: Mutex::new(()),
        }
    }

    fn registrations(&self) -> MutexGuard<'_, Registrations> {
        self.registrations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file's mapping, for as long as the caller holds it; `None` if the file cannot be registered now, or if
    /// `stop` says so.
    ///
    /// # Errors
    /// A file that cannot be opened or is another version, or a device that is lost.
    pub(crate) fn get(
        &self,
        file: FileId,
        version: &FileVersion,
        stop: impl Fn() -> bool,
    ) -> Result<Option<Arc<MappedFile>>, RunError> {
        let bytes = version.bytes;
        if version.namespace.is_some() {
            return Ok(None);
        }
        if let Some(known) = self.look_up(file) {
            return Ok(known);
        }
        let _registering = loop {
            match self.registering.try_lock() {
                Ok(guard) => break guard,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if stop() => return Ok(None),
                Err(TryLockError::WouldBlock) => std::thread::sleep(STOP_POLL),
            }
        };
        if let Some(known) = self.look_up(file) {
            return Ok(known);
        }
        if !self.make_room(bytes) {
            return Ok(None);
        }
        let mapping = MappedFile::open(&self.device, &version.path).map_err(|e| match e {
            CudaError::File { path, reason } => RunError::File { path, reason },
            other => other.into(),
        })?;
        version.check_open(mapping.file())?;
        if mapping.len() as u64 != bytes {
            // Kernels would load past the mapping's end.
            return Err(version.changed(format!("it had {bytes} bytes, and has {} now", mapping.len())));
        }
        if let Some(e) = mapping.failure().filter(|e| e.is_sticky()) {
            return Err(e.clone().into());
        }
        let known = match mapping.failure() {
            None => Mapping::Registered,
            Some(e) if e.is_out_of_memory() => Mapping::Short(Instant::now()),
            Some(_) => Mapping::Refused,
        };
        let mapping = mapping.device_address().map(|_| Arc::new(mapping));
        let mut registrations = self.registrations();
        let kept = Registration {
            bytes: if mapping.is_some() { bytes } else { 0 },
            mapping: mapping.clone(),
            known,
            used: registrations.lookups,
        };
        registrations.kept.insert(file, kept);
        self.residency.set_mapping(file, Some(known));
        Ok(mapping)
    }

    /// What is known of a file.
    fn look_up(&self, file: FileId) -> Option<Option<Arc<MappedFile>>> {
        let mut registrations = self.registrations();
        registrations.lookups += 1;
        let now = registrations.lookups;
        let kept = registrations.kept.get_mut(&file)?;
        kept.used = now;
        if kept.known.may_be_tried() {
            return None;
        }
        Some(kept.mapping.clone())
    }

    /// Drops a file's mapping. It is unregistered when no query holds it.
    pub(crate) fn forget(&self, file: FileId) {
        let gone = self.registrations().kept.remove(&file);
        self.residency.set_mapping(file, None);
        drop(gone); // without the lock
    }

    /// Drops mappings that no query holds until `bytes` more are within the bound.
    fn make_room(&self, bytes: u64) -> bool {
        loop {
            let mut registrations = self.registrations();
            let registered: u64 = registrations.kept.values().map(|k| k.bytes).sum();
            if registered.saturating_add(bytes) <= self.bound {
                return true;
            }
            let kept = registrations.kept.iter();
            let unused = kept.filter(|(_, k)| k.mapping.is_some() && !k.is_in_use());
            let Some(oldest) = unused.min_by_key(|(_, k)| k.used).map(|(id, _)| *id) else {
                return false;
            };
            let gone = registrations.kept.remove(&oldest);
            self.residency.set_mapping(oldest, None);
            drop(registrations);
            drop(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::input::file_registry::FileRegistry;
    use crate::runtime::memory::residency::Limits;

    #[test]
    fn the_least_recently_used_mappings_make_room() {
        let device = Device::host(1, 1 << 20);
        let limits = Limits {
            capacity: 0,
            pin_bytes: 10_000,
            block_shared_bytes: 0,
        };
        let residency = Arc::new(Residency::new(limits));
        let mappings = MappedFiles::new(&device, &residency, 10_000);
        let mut files = FileRegistry::default();
        let all: Vec<_> = (0..3)
            .map(|_| {
                let mut file = tempfile::NamedTempFile::new().unwrap();
                file.write_all(&[7; 4000]).unwrap();
                let version = FileVersion::of(file.path()).unwrap();
                (files.number(&version).0, version, file)
            })
            .collect();
        let never = || false;
        let get = |at: usize| mappings.get(all[at].0, &all[at].1, never).unwrap();
        let has = |at: usize| residency.known().is_registered(all[at].0);
        let (first, second) = (get(0).unwrap(), get(1).unwrap());
        assert!(get(2).is_none(), "the others are in use");
        drop((first, second));
        let (second, third) = (get(1).unwrap(), get(2).unwrap());
        assert!(!has(0) && has(1) && has(2));
        drop((second, third));
        let mut elsewhere = all[0].1.clone();
        elsewhere.path = "/nowhere".into();
        assert!(mappings.get(all[0].0, &elsewhere, never).is_err());
        all[0].2.as_file().set_len(3999).unwrap();
        let changed = mappings.get(all[0].0, &all[0].1, never).unwrap_err();
        assert!(changed.to_string().contains("has 3999 now"), "{changed}");
        // Another file has taken the place.
        std::fs::copy(all[0].2.path(), all[1].2.path().with_extension("new")).unwrap();
        std::fs::rename(all[1].2.path().with_extension("new"), all[1].2.path()).unwrap();
        mappings.forget(all[1].0);
        assert!(mappings.get(all[1].0, &all[1].1, never).is_err());
    }

    #[test]
    fn a_mapping_that_is_forgotten_stays_registered_for_the_query_that_holds_it() {
        let device = Device::host(1, 1 << 20);
        let limits = Limits {
            capacity: 0,
            pin_bytes: 10_000,
            block_shared_bytes: 0,
        };
        let residency = Arc::new(Residency::new(limits));
        let mappings = MappedFiles::new(&device, &residency, 10_000);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[7; 4000]).unwrap();
        let version = FileVersion::of(file.path()).unwrap();
        let (id, _) = residency.number(&version);
        let held = mappings.get(id, &version, || false).unwrap().unwrap();
        mappings.forget(id);
        assert!(!residency.known().is_registered(id));
        assert!(held.device_address().is_some());
        // Another query registers files: this one is cancelled meanwhile.
        let _registering = mappings.registering.lock().unwrap();
        assert!(mappings.get(id, &version, || true).unwrap().is_none());
    }
}
