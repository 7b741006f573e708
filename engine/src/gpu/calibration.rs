//! [`Calibration`]: the measured rates of this machine, in the user's cache folder.
//!
//! `grampus device --calibrate` measures and writes them. Without the file, the default machine profile applies. The
//! rates decide between CPU and GPU, and never change an answer.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use grampus_gpu_exec::MachineProfile;
use serde::{Deserialize, Serialize};

use crate::error::CacheFileError;

/// The file's name in the cache folder.
const FILE: &str = "calibration.json";
/// Changes when the figures' meaning does.
const VERSION: u32 = 3;

/// A machine's rates as they are kept in the cache folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    version: u32,
    /// The rates.
    #[serde(flatten)]
    pub profile: MachineProfile,
}

impl Default for Calibration {
    /// Supposed rates, with the number of cores of this machine.
    fn default() -> Self {
        Self::of(MachineProfile::of_cores(available_parallelism().map_or(1, usize::from)))
    }
}

impl Calibration {
    /// These rates, to be kept.
    pub fn of(profile: MachineProfile) -> Self {
        Self {
            version: VERSION,
            profile,
        }
    }

    /// The calibration kept in `folder`, else the default. A file that cannot be read as one, or makes no sense, counts
    /// as none.
    pub fn load(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join(FILE)).ok();
        let kept = text.and_then(|text| serde_json::from_str::<Self>(&text).ok());
        let is_sound = |kept: &Self| kept.version == VERSION && kept.profile.is_sound();
        kept.filter(is_sound).unwrap_or_default()
    }

    /// Keeps the calibration in `folder`, all or nothing: another process may be reading. The file's path.
    ///
    /// # Errors
    /// If the folder cannot be made or written to.
    pub fn save(&self, folder: &Path) -> Result<PathBuf, CacheFileError> {
        let path = folder.join(FILE);
        let failed = |error| CacheFileError::new(&path, error);
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
        let rates = Calibration::of(MachineProfile {
            gpu: "some GPU".to_owned(),
            push_bytes_per_s: 25e9,
            ..MachineProfile::default()
        });
        let path = rates.save(&inside).unwrap();
        assert_eq!(path, inside.join(FILE));
        assert_eq!(Calibration::load(&inside), rates);
        let files = fs::read_dir(&inside).unwrap().count();
        assert_eq!(files, 1, "no temporary file is left");
    }

    #[test]
    fn calibration_ignores_unsound_files() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Calibration::load(folder.path()), Calibration::default());
        for text in ["", "{}", "[1]", "not json"] {
            fs::write(folder.path().join(FILE), text).unwrap();
            assert_eq!(Calibration::load(folder.path()), Calibration::default());
        }
        let wrong = Calibration::of(MachineProfile {
            push_bytes_per_s: 0.0,
            ..MachineProfile::default()
        });
        wrong.save(folder.path()).unwrap();
        assert_eq!(Calibration::load(folder.path()), Calibration::default());
    }
}
