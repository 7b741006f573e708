//! What a session keeps for the GPU from query to query: the device once it was opened, the numbers of strings and columns, what
//! filters let pass. Contexts that are clones of one another share one.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grampus_gpu_exec::input::Input;
use grampus_gpu_exec::program::{Program, Value};

use super::calibration::Rates;
use super::input_builder::ColumnNumbers;
use super::lower::Reason;
use super::runner::{self, Absent, Runner};
use super::string_dictionary::Dictionary;
use crate::config::{GpuSettings, GrampusOptions, cache_folder};
use crate::scan::column_locations::LocationCache;

/// Filters whose selectivity is remembered at most; then all are forgotten.
const REMEMBERED_FILTERS: usize = 10_000;

/// The GPU's side of a session. The device is opened by the first query that is to run on it.
#[derive(Debug, Default)]
pub struct GpuSession {
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) numbers: ColumnNumbers,
    pub(crate) locations: LocationCache,
    opened: Mutex<Option<Opened>>,
    rates: Mutex<Option<(PathBuf, Rates)>>,
    selectivity: Mutex<HashMap<u64, f64>>,
    /// Time that queries would have saved had the device been open: when it exceeds what opening takes, that is worth while.
    missed: Mutex<Duration>,
    /// The same for columns that were not there, by columns and files.
    missed_columns: Mutex<HashMap<u64, Duration>>,
}

/// A device, or why there is none, for these settings.
#[derive(Debug)]
struct Opened {
    settings: GpuSettings,
    device: Result<Arc<dyn Runner>, Reason>,
}

/// A lock over values that are put in whole: a panic elsewhere leaves nothing half done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GpuSession {
    /// The device for these settings, opened now if need be.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn device(&self, options: &GrampusOptions) -> Result<Arc<dyn Runner>, Reason> {
        let settings = GpuSettings::of(options);
        let mut opened = lock(&self.opened);
        if let Some(opened) = opened.as_ref().filter(|opened| opened.settings == settings) {
            return opened.device.clone();
        }
        // The old one first: two would share the device's memory.
        *opened = None;
        match runner::open(&settings, &self.rates(options)) {
            Ok(device) => {
                let device = Ok(device);
                *opened = Some(Opened {
                    settings,
                    device: device.clone(),
                });
                device
            }
            Err(Absent { reason, is_final }) => {
                // A device that was busy may be free for the next query.
                if is_final {
                    *opened = Some(Opened {
                        settings,
                        device: Err(reason.clone()),
                    });
                }
                Err(reason)
            }
        }
    }

    /// The device, if it is open or known to be absent.
    pub(crate) fn known_device(&self, options: &GrampusOptions) -> Option<Result<Arc<dyn Runner>, Reason>> {
        let settings = GpuSettings::of(options);
        let opened = lock(&self.opened);
        let opened = opened.as_ref().filter(|opened| opened.settings == settings);
        opened.map(|opened| opened.device.clone())
    }

    /// Takes `device` for what these settings open.
    #[cfg(test)]
    pub(crate) fn preset(&self, options: &GrampusOptions, device: Arc<dyn Runner>) {
        *lock(&self.opened) = Some(Opened {
            settings: GpuSettings::of(options),
            device: Ok(device),
        });
    }

    /// The machine's rates, from the calibration if there is one.
    pub(crate) fn rates(&self, options: &GrampusOptions) -> Rates {
        let folder = cache_folder(options).unwrap_or_default();
        let mut rates = lock(&self.rates);
        match rates.as_ref().filter(|(from, _)| *from == folder) {
            Some((_, rates)) => rates.clone(),
            None => {
                let found = Rates::load(&folder);
                *rates = Some((folder, found.clone()));
                found
            }
        }
    }

    /// What the filter `key` let pass when it was last asked, 0 to 1.
    pub(crate) fn selectivity(&self, key: FilterKey) -> Option<f64> {
        lock(&self.selectivity).get(&key.0).copied()
    }

    /// Remembers what a filter let pass.
    pub(crate) fn remember_selectivity(&self, key: FilterKey, selectivity: f64) {
        let mut known = lock(&self.selectivity);
        if known.len() >= REMEMBERED_FILTERS {
            known.clear();
        }
        known.insert(key.0, selectivity);
    }

    /// Adds what a query would save if its columns were on the device; the sum of all such.
    pub(crate) fn miss_columns(&self, input: &Input, saved: Duration) -> Duration {
        let mut hasher = DefaultHasher::new();
        input.column_ids.hash(&mut hasher);
        input.files.hash(&mut hasher);
        let mut known = lock(&self.missed_columns);
        if known.len() >= REMEMBERED_FILTERS {
            known.clear();
        }
        let missed = known.entry(hasher.finish()).or_default();
        *missed += saved;
        *missed
    }

    /// Adds what a query would save if the device were open; the sum of all such.
    pub(crate) fn miss(&self, saved: Duration) -> Duration {
        let mut missed = lock(&self.missed);
        *missed += saved;
        *missed
    }
}

/// A filter with its literals over certain files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterKey(u64);

impl FilterKey {
    pub(crate) fn of(program: &Program, arguments: &[Value], input: &Input) -> Self {
        let mut hasher = DefaultHasher::new();
        program.conjuncts.hash(&mut hasher);
        input.column_ids.hash(&mut hasher);
        for argument in arguments {
            match argument {
                Value::Bool(value) => value.hash(&mut hasher),
                Value::Int(value) => value.hash(&mut hasher),
                Value::Float(value) => value.to_bits().hash(&mut hasher),
            }
        }
        for file in &input.files {
            file.hash(&mut hasher);
        }
        Self(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there is no GPU that is said, again and again, without looking for it each time.
    #[test]
    fn absence_is_an_answer() {
        let session = GpuSession::default();
        let options = GrampusOptions::default();
        if let Err(reason) = session.device(&options) {
            assert!(!reason.is_empty());
            if let Some(known) = session.known_device(&options) {
                assert_eq!(known.unwrap_err(), reason);
            }
        }
    }

    #[test]
    fn what_is_missed_adds_up() {
        let session = GpuSession::default();
        session.miss(Duration::from_millis(20));
        assert_eq!(session.miss(Duration::from_millis(30)), Duration::from_millis(50));
    }
}
