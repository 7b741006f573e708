//! How fast this machine moves and computes: measured by `grampus device --calibrate` and kept in the user's cache folder, else taken as
//! it was on the machine that the figures of docs were measured on. Used to choose between devices, never to change an answer.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use serde::{Deserialize, Serialize};

use crate::output::OutputError;

/// The file's name in the cache folder.
const FILE: &str = "calibration.json";
/// Changes when the figures' meaning does.
const VERSION: u32 = 1;

/// Rates of a machine, per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    version: u32,
    /// Name of the GPU that was measured; empty: these are defaults, or there was none.
    pub gpu: String,
    /// Cores of the CPU.
    pub cores: usize,
    /// Bytes that one core scans with a filter, from the page cache.
    pub cpu_scan_bytes: f64,
    /// Bytes that all cores scan together at most.
    pub cpu_scan_bytes_all: f64,
    /// Values that one core decodes.
    pub cpu_decoded_values: f64,
    /// Rows that one core groups and aggregates.
    pub cpu_aggregated_rows: f64,
    /// Bytes pushed from the page cache to device memory through a pinned ring.
    pub push_bytes: f64,
    /// Bytes that kernels load in order from registered memory.
    pub mapped_bytes: f64,
    /// Scattered loads of kernels from registered memory.
    pub mapped_loads: f64,
    /// Bytes of page cache registered.
    pub register_bytes: f64,
    /// Commands through the queues.
    pub commands: f64,
    /// Bytes read in large pieces from a disk.
    pub disk_bytes: f64,
    /// Bytes that kernels scan in device memory.
    pub device_bytes: f64,
    /// Seconds to open the device.
    pub open_seconds: f64,
    /// Seconds that a query takes besides moving and scanning.
    pub query_seconds: f64,
}

impl Default for Rates {
    /// 16 cores and an H200 behind PCIe 5, but for the number of cores, which is this machine's.
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            version: VERSION,
            gpu: String::new(),
            cores,
            cpu_scan_bytes: 9e9,
            cpu_scan_bytes_all: 110e9,
            cpu_decoded_values: 150e6,
            cpu_aggregated_rows: 60e6,
            push_bytes: 52e9,
            mapped_bytes: 51e9,
            mapped_loads: 100e6,
            register_bytes: 60e9,
            commands: 6e6,
            disk_bytes: 3.5e9,
            device_bytes: 3e12,
            open_seconds: 0.35,
            query_seconds: 0.003,
        }
    }
}

impl Rates {
    /// Those kept in `folder`, else the defaults. A file that cannot be read as what it should be counts as none.
    pub fn load(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join(FILE)).ok();
        let rates = text.and_then(|text| serde_json::from_str::<Self>(&text).ok());
        rates.filter(Self::is_sound).unwrap_or_default()
    }

    /// Whether they can be divided by.
    fn is_sound(&self) -> bool {
        let rates = [
            self.cpu_scan_bytes,
            self.cpu_scan_bytes_all,
            self.cpu_decoded_values,
            self.cpu_aggregated_rows,
            self.push_bytes,
            self.mapped_bytes,
            self.mapped_loads,
            self.register_bytes,
            self.commands,
            self.disk_bytes,
            self.device_bytes,
        ];
        let times = [self.open_seconds, self.query_seconds];
        self.version == VERSION
            && self.cores > 0
            && rates.iter().all(|rate| rate.is_finite() && *rate > 0.0)
            && times.iter().all(|time| time.is_finite() && *time >= 0.0)
    }

    /// Keeps them in `folder`, all or nothing: another process may be reading. The file's path.
    ///
    /// # Errors
    /// If the folder cannot be made or written to.
    pub fn save(&self, folder: &Path) -> Result<PathBuf, OutputError> {
        let path = folder.join(FILE);
        let failed = |error| OutputError::new(&path, error);
        fs::create_dir_all(folder).map_err(failed)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.persist(&path).map_err(|error| failed(error.error))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_come_back_as_they_were_kept() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("not/yet/there");
        let rates = Rates {
            gpu: "some GPU".to_owned(),
            push_bytes: 25e9,
            ..Rates::default()
        };
        let path = rates.save(&inside).unwrap();
        assert_eq!(path, inside.join(FILE));
        assert_eq!(Rates::load(&inside), rates);
        let files = fs::read_dir(&inside).unwrap().count();
        assert_eq!(files, 1, "no temporary file is left");
    }

    #[test]
    fn what_makes_no_sense_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Rates::load(folder.path()), Rates::default());
        for text in ["", "{}", "[1]", "not json"] {
            fs::write(folder.path().join(FILE), text).unwrap();
            assert_eq!(Rates::load(folder.path()), Rates::default());
        }
        let wrong = Rates {
            push_bytes: 0.0,
            ..Rates::default()
        };
        wrong.save(folder.path()).unwrap();
        assert_eq!(Rates::load(folder.path()), Rates::default());
    }
}
