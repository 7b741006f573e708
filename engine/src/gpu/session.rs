//! [`GpuSession`]: the state that a session keeps for the GPU from query to query.
//!
//! The session keeps the open device, dictionary codes of strings, ids and locations of columns, and the selectivity of
//! filters. Clones of a context share one session.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grampus_gpu_exec::MachineProfile;
use grampus_gpu_exec::input::Input;

use super::calibration::Calibration;
use super::column_ids::ColumnIds;
use super::filter_key::FilterKey;
use super::runner::{self, Absence, Runner};
use super::string_dictionary::StringDictionary;
use crate::config::{GpuSettings, GrampusOptions, cache_folder};
use crate::scan::column_locations::LocationCache;

/// Maximum number of filters, and of sets of columns, that a session remembers. A session at the maximum forgets all.
const MAX_REMEMBERED_ENTRIES: usize = 10_000;

/// The GPU's side of a session. The device is opened by the first query that is to run on it.
#[derive(Debug, Default)]
pub struct GpuSession {
    pub(crate) dictionary: Arc<StringDictionary>,
    pub(crate) column_ids: ColumnIds,
    pub(crate) locations: LocationCache,
    opened: Mutex<Option<OpenedDevice>>,
    /// The machine's rates, and the folder that they were loaded from.
    profile: Mutex<Option<(PathBuf, MachineProfile)>>,
    selectivity: Mutex<HashMap<FilterKey, f64>>,
    /// The time that queries would have saved with an open device. If it exceeds the time of opening, the device is
    /// opened.
    missed: Mutex<Duration>,
    /// By hash of columns and files: the time that queries would have saved with resident columns.
    missed_columns: Mutex<HashMap<u64, Duration>>,
}

/// A device for these settings, or its absence.
#[derive(Debug)]
struct OpenedDevice {
    settings: GpuSettings,
    device: Result<Arc<dyn Runner>, Absence>,
}

/// Locks a value that is only replaced as a whole, so that a panic under the lock leaves the value usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuSession {
    /// The device for these settings. Opens the device if it is not open.
    ///
    /// # Errors
    /// If there is no device.
    pub(crate) fn device(&self, options: &GrampusOptions) -> Result<Arc<dyn Runner>, Absence> {
        let settings = GpuSettings::of(options);
        let mut opened = lock(&self.opened);
        if let Some(opened) = opened.as_ref().filter(|opened| opened.settings == settings) {
            return opened.device.clone();
        }
        // The old device is closed first: two open ones would share the device's memory.
        *opened = None;
        match runner::open(&settings, &self.profile(options)) {
            Ok(device) => {
                let device = Ok(device);
                *opened = Some(OpenedDevice {
                    settings,
                    device: device.clone(),
                });
                device
            }
            Err(absence) => {
                // A device that was busy may be free for the next query.
                if absence.is_final {
                    *opened = Some(OpenedDevice {
                        settings,
                        device: Err(absence.clone()),
                    });
                }
                Err(absence)
            }
        }
    }

    /// The device, if it is open or known to be absent.
    pub(crate) fn known_device(&self, options: &GrampusOptions) -> Option<Result<Arc<dyn Runner>, Absence>> {
        let settings = GpuSettings::of(options);
        let opened = lock(&self.opened);
        let opened = opened.as_ref().filter(|opened| opened.settings == settings);
        opened.map(|opened| opened.device.clone())
    }

    /// Sets the device that these settings open.
    #[cfg(test)]
    pub(crate) fn preset(&self, options: &GrampusOptions, device: Arc<dyn Runner>) {
        *lock(&self.opened) = Some(OpenedDevice {
            settings: GpuSettings::of(options),
            device: Ok(device),
        });
    }

    /// The machine's rates: calibrated ones, or the defaults.
    pub(crate) fn profile(&self, options: &GrampusOptions) -> MachineProfile {
        let folder = cache_folder(options).unwrap_or_default();
        let mut profile = lock(&self.profile);
        match profile.as_ref().filter(|(from, _)| *from == folder) {
            Some((_, profile)) => profile.clone(),
            None => {
                let found = Calibration::load(&folder).profile;
                *profile = Some((folder, found.clone()));
                found
            }
        }
    }

    /// The selectivity of the filter in its last run, from 0 to 1.
    pub(crate) fn selectivity(&self, key: FilterKey) -> Option<f64> {
        lock(&self.selectivity).get(&key).copied()
    }

    /// Remembers the selectivity of a filter.
    pub(crate) fn remember_selectivity(&self, key: FilterKey, selectivity: f64) {
        let mut known = lock(&self.selectivity);
        if known.len() >= MAX_REMEMBERED_ENTRIES {
            known.clear();
        }
        known.insert(key, selectivity);
    }

    /// Adds the time that a query would save with resident columns. Returns the sum for these columns.
    pub(crate) fn miss_columns(&self, input: &Input, saved: Duration) -> Duration {
        let mut hasher = DefaultHasher::new();
        input.column_ids.hash(&mut hasher);
        input.files.hash(&mut hasher);
        let mut known = lock(&self.missed_columns);
        if known.len() >= MAX_REMEMBERED_ENTRIES {
            known.clear();
        }
        let missed = known.entry(hasher.finish()).or_default();
        *missed += saved;
        *missed
    }

    /// Adds the time that a query would save with an open device. Returns the sum.
    pub(crate) fn miss(&self, saved: Duration) -> Duration {
        let mut missed = lock(&self.missed);
        *missed += saved;
        *missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A session without a GPU gives the same absence for each query.
    #[test]
    fn session_remembers_the_absence_of_a_device() {
        let session = GpuSession::default();
        let options = GrampusOptions::default();
        if let Err(absence) = session.device(&options) {
            assert!(!absence.to_string().is_empty());
            if let Some(known) = session.known_device(&options) {
                assert_eq!(known.unwrap_err(), absence);
            }
        }
    }

    #[test]
    fn missed_time_adds_up() {
        let session = GpuSession::default();
        session.miss(Duration::from_millis(20));
        assert_eq!(session.miss(Duration::from_millis(30)), Duration::from_millis(50));
    }
}
