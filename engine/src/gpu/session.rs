//! What a session keeps for the GPU from query to query: the device once it was opened, the numbers of strings and columns, what
//! filters let pass. Contexts that are clones of one another share one.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grampus_gpu_exec::MachineProfile;
use grampus_gpu_exec::input::Input;
use grampus_gpu_exec::program::{Program, Value};

use super::calibration::Calibration;
use super::device::{self, Absent, Runner};
use super::dictionary::Dictionary;
use super::lower::Reason;
use super::place::ColumnNumbers;
use crate::config::{GpuTarget, GrampusOptions};
use crate::scan::survey::SurveyCache;

/// Filters whose selectivity is remembered at most; then all are forgotten.
const REMEMBERED_FILTERS: usize = 10_000;

/// The GPU's side of a session. The device is opened by the first query that is to run on it.
#[derive(Debug, Default)]
pub struct GpuSession {
    pub(crate) dictionary: Arc<Dictionary>,
    pub(crate) numbers: ColumnNumbers,
    pub(crate) survey: SurveyCache,
    opened: Mutex<Option<Opened>>,
    profile: Mutex<Option<(PathBuf, MachineProfile)>>,
    selectivity: Mutex<HashMap<u64, f64>>,
    /// Time that queries would have saved had the device been open: when it exceeds what opening takes, that is worth while.
    missed: Mutex<Duration>,
    /// The same for columns that were not there, by columns and files.
    missed_columns: Mutex<HashMap<u64, Duration>>,
}

/// A device, or why there is none, for these settings.
#[derive(Debug)]
struct Opened {
    settings: Settings,
    device: Result<Arc<dyn Runner>, Reason>,
}

/// What a device is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) target: GpuTarget,
    pub(crate) cache_bytes: Option<u64>,
    /// Compiled kernels; `None`: nowhere to keep them.
    pub(crate) kernels: Option<PathBuf>,
}

impl Settings {
    pub(crate) fn of(options: &GrampusOptions) -> Self {
        Self {
            target: options.gpu_target,
            cache_bytes: (options.gpu_cache_bytes > 0).then_some(options.gpu_cache_bytes),
            kernels: cache_folder(options).map(|folder| folder.join("kernels")),
        }
    }
}

/// Where the session keeps what other processes may use too.
pub fn cache_folder(options: &GrampusOptions) -> Option<PathBuf> {
    if !options.cache_folder.is_empty() {
        return Some(PathBuf::from(&options.cache_folder));
    }
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let base = set("XDG_CACHE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(set("HOME")?.join(".cache")));
    Some(base?.join("grampus"))
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
        let settings = Settings::of(options);
        let mut opened = lock(&self.opened);
        if let Some(opened) = opened.as_ref().filter(|opened| opened.settings == settings) {
            return opened.device.clone();
        }
        // The old one first: two would share the device's memory.
        *opened = None;
        match device::open(&settings, &self.profile(options)) {
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
        let settings = Settings::of(options);
        let opened = lock(&self.opened);
        let opened = opened.as_ref().filter(|opened| opened.settings == settings);
        opened.map(|opened| opened.device.clone())
    }

    /// Takes `device` for what these settings open.
    #[cfg(test)]
    pub(crate) fn preset(&self, options: &GrampusOptions, device: Arc<dyn Runner>) {
        *lock(&self.opened) = Some(Opened {
            settings: Settings::of(options),
            device: Ok(device),
        });
    }

    /// The machine's rates, from the calibration if there is one.
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

    #[test]
    fn the_cache_folder_is_as_set() {
        let options = GrampusOptions {
            cache_folder: "/somewhere".to_owned(),
            ..GrampusOptions::default()
        };
        assert_eq!(cache_folder(&options), Some(PathBuf::from("/somewhere")));
        assert_eq!(
            Settings::of(&options).kernels,
            Some(PathBuf::from("/somewhere/kernels"))
        );
    }

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
