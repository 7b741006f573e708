//! `Residency`: what is known of files and of cached data, published for planning.
//!
//! The pool, the mappings and the executor publish each change here. Planning reads, and changes nothing.
//!
//! **Invariant:** the lock is held for look-ups and for single changes alone: never while a file is read, the driver is
//! called, or a query is waited for. Planning therefore never waits for a running query.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::input::FileVersion;
use crate::input::file_registry::{FileId, FileRegistry};
use crate::program::{Stored, Type};
use crate::runtime::memory::column_key::{ColumnKey, FastMap};

/// After this time a shortage may be over: plans count on the whole bound again, and files are registered again.
const SHORTAGE: Duration = Duration::from_secs(2);

/// How much of a stripe's column is in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// All of it.
    Whole,
    /// So many of its pages.
    Pages(u32),
}

/// Bounds that a plan keeps to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Device memory for columns, in bytes, if the driver has it.
    pub(crate) capacity: u64,
    /// Bytes of registered files.
    pub(crate) pin_bytes: u64,
    /// Shared memory of a block, in bytes.
    pub(crate) block_shared_bytes: u64,
}

/// What is known of a file's registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapping {
    Registered,
    /// The driver, or the file system, does not register it.
    Refused,
    /// No more memory could be pinned then.
    Short(Instant),
}

impl Mapping {
    /// Whether a query may try to register the file.
    pub(crate) fn may_be_tried(self) -> bool {
        matches!(self, Self::Short(since) if since.elapsed() >= SHORTAGE)
    }
}

/// The published state.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) limits: Limits,
    /// The driver had memory for so many bytes of columns alone, and when.
    short: Option<(u64, Instant)>,
    files: FileRegistry,
    columns: FastMap<ColumnKey, Presence>,
    /// Columns that have ceased to be wholly resident.
    losses: u64,
    /// By file, column and dictionary: the layout that holds everything that was loaded. Floats in their type's layout
    /// do not count: another query may load them as integers.
    layouts: FastMap<(FileId, u32, u64), Stored>,
    /// By file: whether it is registered, or cannot be.
    mappings: HashMap<FileId, Mapping>,
    /// Columns that the device failed to decode although their layout allows it.
    cpu_decoded: HashSet<(FileId, u32)>,
}

impl Known {
    pub(crate) fn column(&self, key: &ColumnKey) -> Option<Presence> {
        self.columns.get(key).copied()
    }

    /// Whether a column is wholly resident.
    pub(crate) fn has(&self, key: &ColumnKey) -> bool {
        self.column(key) == Some(Presence::Whole)
    }

    /// The layout in which columns of a file were loaded: by file, column and dictionary.
    pub(crate) fn layout(&self, of: (FileId, u32, u64)) -> Option<Stored> {
        self.layouts.get(&of).copied()
    }

    /// Device memory for columns, in bytes.
    pub(crate) fn capacity(&self) -> u64 {
        match self.short {
            Some((bytes, since)) if since.elapsed() < SHORTAGE => bytes.min(self.limits.capacity),
            _ => self.limits.capacity,
        }
    }

    pub(crate) fn is_registered(&self, file: FileId) -> bool {
        self.mappings.get(&file) == Some(&Mapping::Registered)
    }

    /// Whether registration of the file has failed before, and is not to be tried again.
    pub(crate) fn cannot_be_registered(&self, file: FileId) -> bool {
        let known = self.mappings.get(&file);
        known.is_some_and(|known| *known != Mapping::Registered && !known.may_be_tried())
    }

    pub(crate) fn is_decoded_by_cpu(&self, file: FileId, column: u32) -> bool {
        self.cpu_decoded.contains(&(file, column))
    }
}

/// The state of one open device.
#[derive(Debug)]
pub(crate) struct Residency(Mutex<Known>);

impl Residency {
    /// Nothing is cached.
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Mutex::new(Known {
            limits,
            short: None,
            files: FileRegistry::default(),
            columns: FastMap::default(),
            losses: 0,
            layouts: FastMap::default(),
            mappings: HashMap::new(),
            cpu_decoded: HashSet::new(),
        }))
    }

    /// The state, for look-ups.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is one insertion or removal.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The id of a file version; and, if another version of the file was known, that version's id: its cached data is
    /// stale.
    pub(crate) fn number(&self, version: &FileVersion) -> (FileId, Option<FileId>) {
        self.known().files.number(version)
    }

    /// The id of a file version, if it has one.
    pub(crate) fn file_id(&self, version: &FileVersion) -> Option<FileId> {
        self.known().files.find(version)
    }

    pub(crate) fn all_files(&self) -> Vec<FileId> {
        self.known().files.all()
    }

    /// Removes a file's id. Its cached data is stale.
    pub(crate) fn forget_path(&self, path: &Path) -> Option<FileId> {
        self.known().files.forget(path)
    }

    /// Forgets what the device could not decode of a file, and the layouts of its columns.
    pub(crate) fn forget_decoding(&self, file: FileId) {
        let mut known = self.known();
        known.cpu_decoded.retain(|(of, _)| *of != file);
        known.layouts.retain(|(of, ..), _| *of != file);
    }

    /// `there`: the driver has memory for so many bytes alone now.
    pub(crate) fn set_capacity(&self, bytes: u64, there: Option<u64>) {
        let mut known = self.known();
        known.limits.capacity = bytes;
        known.short = there.map(|there| (there, Instant::now()));
    }

    /// A column of a file has floats that are no integers: it keeps the layout of floats.
    pub(crate) fn keep_floats(&self, file: FileId, column: u32, ty: Type) {
        self.known().layouts.insert((file, column, 0), Stored::of(ty));
    }

    /// `None`: nothing of the column is resident.
    pub(crate) fn set_column(&self, key: ColumnKey, presence: Option<Presence>) {
        let mut known = self.known();
        let is_float = matches!(key.ty, Type::Float32 | Type::Float64);
        if presence.is_some() && (!is_float || key.stored.float_bytes().is_some()) {
            let layout = known.layouts.entry((key.file, key.column, key.dictionary));
            layout
                .and_modify(|layout| *layout = layout.join(key.stored, key.ty))
                .or_insert(key.stored);
        }
        let before = match presence {
            Some(presence) => known.columns.insert(key, presence),
            None => known.columns.remove(&key),
        };
        if before == Some(Presence::Whole) && presence != Some(Presence::Whole) {
            known.losses += 1;
        }
    }

    /// Columns that have ceased to be wholly resident since the device was opened.
    pub(crate) fn losses(&self) -> u64 {
        self.known().losses
    }

    /// `None`: the file is not registered.
    pub(crate) fn set_mapping(&self, file: FileId, mapping: Option<Mapping>) {
        let mut known = self.known();
        match mapping {
            Some(mapping) => known.mappings.insert(file, mapping),
            None => known.mappings.remove(&file),
        };
    }

    /// The device could not decode a column of a file: from now on the CPU decodes it.
    pub(crate) fn leave_to_cpu(&self, file: FileId, column: u32) {
        self.known().cpu_decoded.insert((file, column));
    }
}
