//! [`DeviceSettings`]: the settings that a device is opened with. [`RuntimeSettings`]: those of a runtime, which all of
//! its sessions share.
//!
//! A runtime has one device. If each session had device settings of its own, sessions with different ones would close
//! each other's device, query by query. Therefore `SET` in one session changes the settings of all, and nothing can
//! change them while the device is open.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::config_err;
use datafusion::error::Result;

use crate::setting_words::words;

/// The processor that runs kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuTarget {
    /// An NVIDIA GPU.
    #[default]
    Cuda,
    /// Threads of this machine. The host's C++ compiler compiles the kernels. Meant for tests, not for speed.
    Host,
}

words!(GpuTarget, "gpu_target": "cuda" => Cuda, "host" => Host);

/// The settings that a device is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceSettings {
    /// The NVIDIA GPU, if one runs kernels: its number or its UUID.
    pub(crate) gpu: String,
    /// The processor that runs kernels.
    pub(crate) target: GpuTarget,
    /// Device memory for cached columns; 0: three quarters of the free memory.
    pub(crate) cache_bytes: u64,
    /// Bytes of a sector.
    pub(crate) sector_bytes: u32,
    /// The folder of compiled kernels and the calibration; empty: the user's cache folder.
    pub(crate) cache_folder: String,
}

/// Whether a text is the number or the UUID of a GPU.
#[cfg(feature = "gpu")]
pub(crate) fn names_gpu(name: &str) -> bool {
    grampus_gpu_exec::Target::of_gpu(name).is_some()
}

/// Without the feature, no GPU is opened.
#[cfg(not(feature = "gpu"))]
pub(crate) fn names_gpu(_: &str) -> bool {
    true
}

impl DeviceSettings {
    /// Device memory for cached columns; `None`: three quarters of the free memory.
    pub(crate) fn most_cache_bytes(&self) -> Option<u64> {
        (self.cache_bytes > 0).then_some(self.cache_bytes)
    }

    /// log2 of the bytes of a sector.
    pub(crate) fn sector_log2(&self) -> u32 {
        // A session may have set the field itself.
        self.sector_bytes.next_power_of_two().clamp(512, 4096).ilog2()
    }

    /// The folder of compiled kernels and the calibration. `None`: neither the setting nor the environment names one.
    pub(crate) fn cache_folder(&self) -> Option<PathBuf> {
        if !self.cache_folder.is_empty() {
            return Some(PathBuf::from(&self.cache_folder));
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

    /// The folder of compiled kernels; `None`: there is no folder to keep them in.
    pub(crate) fn kernel_folder(&self) -> Option<PathBuf> {
        Some(self.cache_folder()?.join("kernels"))
    }
}

/// The device's settings of a runtime. Clones are the same settings.
#[derive(Debug, Clone)]
pub(crate) struct RuntimeSettings(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    settings: DeviceSettings,
    /// The device is open with these settings.
    is_open: bool,
}

impl RuntimeSettings {
    pub(crate) fn new(settings: DeviceSettings) -> Self {
        Self(Arc::new(Mutex::new(State {
            settings,
            is_open: false,
        })))
    }

    pub(crate) fn get(&self) -> DeviceSettings {
        self.lock().settings.clone()
    }

    /// Changes settings for `SET grampus.{key}`. `change` gets those of the runtime, and returns the new ones and what
    /// the caller wants.
    ///
    /// # Errors
    /// Those of `change`, and other settings while the device is open.
    pub(crate) fn change<T>(
        &self,
        key: &str,
        change: impl FnOnce(DeviceSettings) -> Result<(DeviceSettings, T)>,
    ) -> Result<T> {
        let mut state = self.lock();
        let (changed, wanted) = change(state.settings.clone())?;
        if state.is_open && changed != state.settings {
            return config_err!(
                "grampus.{key} cannot change while the device is open, which all sessions of the runtime share; set \
                 it before the first query on the device"
            );
        }
        state.settings = changed;
        Ok(wanted)
    }

    /// Notes whether the device is open. Only if it was opened with `settings`.
    pub(crate) fn note_open(&self, settings: &DeviceSettings, is_open: bool) {
        let mut state = self.lock();
        if state.settings == *settings {
            state.is_open = is_open;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves whole settings.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for RuntimeSettings {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for RuntimeSettings {}
