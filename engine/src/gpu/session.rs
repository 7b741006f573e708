//! [`GpuSession`]: the state that a session keeps for the GPU from query to query.
//!
//! The session keeps the device, the dictionary of strings, ids and locations of columns, the last inputs, and the
//! selectivity of filters. Clones of a context share one session.
//!
//! **Invariant:** planning reads this state. The executions of queries change what later decisions depend on: the
//! device, the dictionary and measured selectivities.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grampus_gpu_exec::MachineProfile;

use super::calibration::Calibration;
use super::column_ids::ColumnIds;
use super::filter_key::FilterKey;
use super::input_cache::InputCache;
use super::load_demand::LoadDemand;
use super::runner::{self, Absence, Runner};
use super::string_dictionary::{DictionaryLimits, StringDictionary};
use crate::config::{GrampusOptions, cache_folder};
use crate::device_settings::DeviceSettings;
use crate::scan::column_locations::LocationCache;

/// Maximum number of filters that a session remembers. A session at the maximum forgets all.
const MAX_REMEMBERED_ENTRIES: usize = 10_000;

/// The GPU's side of a session. The device is opened by the first query that runs on it.
#[derive(Debug)]
pub struct GpuSession {
    pub(crate) column_ids: ColumnIds,
    pub(crate) locations: LocationCache,
    pub(crate) inputs: InputCache,
    /// Of queries that ran on the device, and of those whose columns may be loaded.
    pub(crate) demand: LoadDemand,
    dictionary: Mutex<Arc<StringDictionary>>,
    device: Mutex<Option<SessionDevice>>,
    /// The machine's rates, and the folder that they were loaded from.
    profile: Mutex<Option<(PathBuf, MachineProfile)>>,
    /// Selectivities of filters in their last runs, and by samples.
    measured: Mutex<HashMap<FilterKey, f64>>,
    sampled: Mutex<HashMap<FilterKey, f64>>,
}

impl Default for GpuSession {
    fn default() -> Self {
        Self::with_dictionary(DictionaryLimits::default())
    }
}

/// The device of the queries that ran last.
#[derive(Debug)]
struct SessionDevice {
    settings: DeviceSettings,
    device: Arc<dyn Runner>,
    /// Why the device stays absent while this process runs.
    absence: Option<Absence>,
}

/// Locks a value that is only replaced as a whole, so that a panic under the lock leaves the value usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuSession {
    /// A session whose dictionaries have these bounds.
    pub(crate) fn with_dictionary(limits: DictionaryLimits) -> Self {
        Self {
            column_ids: ColumnIds::default(),
            locations: LocationCache::default(),
            inputs: InputCache::default(),
            demand: LoadDemand::default(),
            dictionary: Mutex::new(Arc::new(StringDictionary::new(1, limits))),
            device: Mutex::default(),
            profile: Mutex::default(),
            measured: Mutex::default(),
            sampled: Mutex::default(),
        }
    }

    /// The dictionary of queries that begin now.
    pub(crate) fn dictionary(&self) -> Arc<StringDictionary> {
        Arc::clone(&lock(&self.dictionary))
    }

    /// Begins a new dictionary in place of `full`, unless another query has begun one.
    pub(crate) fn renew_dictionary(&self, full: &Arc<StringDictionary>) {
        let mut dictionary = lock(&self.dictionary);
        if Arc::ptr_eq(&dictionary, full) {
            *dictionary = Arc::new(StringDictionary::new(full.number() + 1, full.limits()));
            self.inputs.clear(); // bound inputs hold the full one
        }
    }

    /// The device for planning. It may be closed, and planning does not open it.
    ///
    /// # Errors
    /// If the device is known to be absent, or its libraries are.
    pub(crate) fn planned_device(
        &self,
        settings: &DeviceSettings,
        profile: &MachineProfile,
    ) -> Result<Arc<dyn Runner>, Absence> {
        let device = lock(&self.device);
        match device.as_ref().filter(|known| known.settings == *settings) {
            Some(known) => known.absence.clone().map_or(Ok(Arc::clone(&known.device)), Err),
            None => runner::check_libraries(settings).map(|()| runner::closed(settings, profile)),
        }
    }

    /// The device of a query that runs now. The query opens it if it is closed.
    pub(crate) fn device(&self, settings: &DeviceSettings, profile: &MachineProfile) -> Arc<dyn Runner> {
        let mut device = lock(&self.device);
        if let Some(known) = device.as_ref().filter(|known| known.settings == *settings) {
            return Arc::clone(&known.device);
        }
        // Two open devices would share the device's memory: the old one is closed by its last query.
        let opened = runner::closed(settings, profile);
        let old = device.replace(SessionDevice {
            settings: settings.clone(),
            device: Arc::clone(&opened),
            absence: None,
        });
        drop(device);
        drop(old);
        opened
    }

    /// Remembers that a device cannot be opened while this process runs.
    pub(crate) fn remember_absence(&self, settings: &DeviceSettings, absence: Absence) {
        let mut device = lock(&self.device);
        if let Some(known) = device.as_mut().filter(|known| known.settings == *settings) {
            known.absence = Some(absence);
        }
    }

    /// Sets the device that these settings open.
    #[cfg(test)]
    pub(crate) fn preset(&self, options: &GrampusOptions, device: Arc<dyn Runner>) {
        *lock(&self.device) = Some(SessionDevice {
            settings: options.device_settings(),
            device,
            absence: None,
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

    /// The selectivity of the filter in its last run, else in a sample; from 0 to 1.
    pub(crate) fn selectivity(&self, key: FilterKey) -> Option<f64> {
        let measured = lock(&self.measured).get(&key).copied();
        measured.or_else(|| lock(&self.sampled).get(&key).copied())
    }

    /// Remembers the selectivity of a filter in a run.
    pub(crate) fn remember_selectivity(&self, key: FilterKey, selectivity: f64) {
        remember(&self.measured, key, selectivity);
    }

    /// Remembers the selectivity of a filter in a sample: another sample would have the same.
    pub(crate) fn remember_sample(&self, key: FilterKey, selectivity: f64) {
        remember(&self.sampled, key, selectivity);
    }
}

fn remember<K: Hash + Eq, V>(known: &Mutex<HashMap<K, V>>, key: K, value: V) {
    let mut known = lock(known);
    if known.len() >= MAX_REMEMBERED_ENTRIES && !known.contains_key(&key) {
        known.clear();
    }
    known.insert(key, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planning_installs_no_device_and_a_run_does() {
        let session = GpuSession::default();
        let options = GrampusOptions {
            gpu_target: crate::config::GpuTarget::Host,
            ..GrampusOptions::default()
        };
        let (settings, profile) = (options.device_settings(), MachineProfile::default());
        let planned = session.planned_device(&settings, &profile).unwrap();
        assert!(!planned.is_open() && lock(&session.device).is_none());
        let device = session.device(&settings, &profile);
        assert!(Arc::ptr_eq(
            &device,
            &session.planned_device(&settings, &profile).unwrap()
        ));
        // Planning with other settings leaves the device alone.
        let other = DeviceSettings {
            cache_bytes: 7,
            ..settings.clone()
        };
        assert!(!Arc::ptr_eq(
            &device,
            &session.planned_device(&other, &profile).unwrap()
        ));
        assert!(Arc::ptr_eq(&device, &session.device(&settings, &profile)));
        let absence = Absence::final_for_tests("no driver");
        session.remember_absence(&settings, absence.clone());
        assert_eq!(session.planned_device(&settings, &profile).unwrap_err(), absence);
        assert!(session.planned_device(&other, &profile).is_ok());
    }

    #[test]
    fn a_full_dictionary_is_renewed_once() {
        let session = GpuSession::default();
        let (first, again) = (session.dictionary(), session.dictionary());
        session.renew_dictionary(&first);
        let second = session.dictionary();
        session.renew_dictionary(&again);
        assert!(Arc::ptr_eq(&second, &session.dictionary()) && second.number() != first.number());
    }
}
