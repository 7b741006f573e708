//! The settings: [`GrampusConfig`], which a session starts with, and [`GrampusOptions`], which SQL can change
//! (`SET grampus.local_io = 'read'`).

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::error::{DataFusionError, Result};

/// The configuration that a session starts with. `None` leaves DataFusion's default.
#[derive(Debug, Clone, Default)]
pub struct GrampusConfig {
    /// Partitions of a query; `None`: one per core.
    pub target_partitions: Option<usize>,
    /// Memory that queries may use for sorting, grouping, joining and fetched data, in bytes; `None`: no limit.
    pub memory_limit_bytes: Option<usize>,
    /// Rows per batch between operators; `None`: 8192.
    pub batch_rows: Option<usize>,
    /// Initial values of the `grampus.*` settings.
    pub options: GrampusOptions,
}

/// The way local files are read.
///
/// Measured on 20 million rows in the page cache with one thread, in CPU time: a scan of the predicate column took 9 ms
/// through a map, and 35 ms through positioned reads, which copy. Six columns at 0.47 % of the rows took 30 and 165 ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalIo {
    /// Through a memory map: values are loaded from the page cache where they lie.
    #[default]
    Mmap,
    /// Through positioned reads into buffers.
    Read,
}

impl FromStr for LocalIo {
    type Err = DataFusionError;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "mmap" => Ok(Self::Mmap),
            "read" => Ok(Self::Read),
            _ => config_err!("grampus.local_io is 'mmap' or 'read', not '{text}'"),
        }
    }
}

impl fmt::Display for LocalIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mmap => "mmap",
            Self::Read => "read",
        })
    }
}

/// The device that computes filtered aggregates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Device {
    /// The device with the lower estimated time.
    #[default]
    Auto,
    /// The GPU. If a query reads ORC files and cannot run there, the query fails.
    Gpu,
    /// The GPU for every query that can run there, whatever the estimate. The CPU for the others.
    Prefer,
    /// The CPU.
    Cpu,
}

/// The processor that runs kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuTarget {
    /// An NVIDIA GPU.
    #[default]
    Cuda,
    /// Threads of this machine. The host's C++ compiler compiles the kernels. Meant for tests, not for speed.
    Host,
}

/// The way a column's bytes reach the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuBacking {
    /// Chosen for each column, from the machine's rates and the filter.
    #[default]
    Auto,
    /// Loaded from a registered mapping of the file.
    Mapped,
    /// By NVMe commands of the kernel, into a cache in device memory.
    Queued,
    /// Whole stripes, cached in device memory.
    Resident,
    /// Pages that a kernel misses, cached in device memory.
    Paged,
}

/// Parses and prints the words of a setting's values.
macro_rules! words {
    ($type:ident, $setting:literal: $($word:literal => $value:ident),+) => {
        impl FromStr for $type {
            type Err = DataFusionError;

            fn from_str(text: &str) -> Result<Self> {
                match text.to_ascii_lowercase().as_str() {
                    $($word => Ok(Self::$value),)+
                    _ => config_err!("grampus.{} is one of {:?}, not '{text}'", $setting, [$($word),+]),
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $word,)+
                })
            }
        }
    };
}

words!(Device, "device": "auto" => Auto, "gpu" => Gpu, "prefer" => Prefer, "cpu" => Cpu);
words!(GpuTarget, "gpu_target": "cuda" => Cuda, "host" => Host);
words!(
    GpuBacking, "gpu_backing":
    "auto" => Auto, "mapped" => Mapped, "queued" => Queued, "resident" => Resident, "paged" => Paged
);

/// The settings named `grampus.*`: `SET` changes them, `SHOW` prints them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GrampusOptions {
    /// The way local files are read.
    pub local_io: LocalIo,
    /// Maximum rows that a filter evaluates in one step.
    pub tile_rows: usize,
    /// Whether the scan skips stripes and row groups that statistics or bloom filters exclude.
    pub prune: bool,
    /// The device that computes filtered aggregates.
    pub device: Device,
    /// The way columns' bytes reach the GPU.
    pub gpu_backing: GpuBacking,
    /// Maximum device memory for data cached between queries, in bytes; 0: three quarters of the free memory.
    pub gpu_cache_bytes: u64,
    /// The processor that runs kernels.
    pub gpu_target: GpuTarget,
    /// The folder of compiled kernels and the calibration; empty: the user's cache folder.
    pub cache_folder: String,
}

impl Default for GrampusOptions {
    fn default() -> Self {
        Self {
            local_io: LocalIo::default(),
            tile_rows: 65_536,
            prune: true,
            device: Device::default(),
            gpu_backing: GpuBacking::default(),
            gpu_cache_bytes: 0,
            gpu_target: GpuTarget::default(),
            cache_folder: String::new(),
        }
    }
}

impl ExtensionOptions for GrampusOptions {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "local_io" => self.local_io = value.parse()?,
            "tile_rows" => match value.parse() {
                Ok(rows) if rows > 0 => self.tile_rows = rows,
                _ => return config_err!("grampus.tile_rows is a number of rows, at least 1, not '{value}'"),
            },
            "prune" => match value.to_ascii_lowercase().parse() {
                Ok(prune) => self.prune = prune,
                Err(_) => return config_err!("grampus.prune is true or false, not '{value}'"),
            },
            "device" => self.device = value.parse()?,
            "gpu_backing" => self.gpu_backing = value.parse()?,
            "gpu_cache_bytes" => match value.parse() {
                Ok(bytes) => self.gpu_cache_bytes = bytes,
                Err(_) => return config_err!("grampus.gpu_cache_bytes is a number of bytes, or 0, not '{value}'"),
            },
            "gpu_target" => self.gpu_target = value.parse()?,
            "cache_folder" => value.clone_into(&mut self.cache_folder),
            _ => return config_err!("there is no setting grampus.{key}; SHOW ALL lists them"),
        }
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let entry = |name: &str, value: String, description| ConfigEntry {
            key: format!("{}.{name}", Self::PREFIX),
            value: Some(value),
            description,
        };
        vec![
            entry(
                "local_io",
                self.local_io.to_string(),
                "How local files are read: 'mmap' (memory map) or 'read' (positioned reads)",
            ),
            entry(
                "tile_rows",
                self.tile_rows.to_string(),
                "Most rows that a filter looks at in one step",
            ),
            entry(
                "prune",
                self.prune.to_string(),
                "Skip stripes and row groups whose statistics or bloom filters exclude the filter",
            ),
            entry(
                "device",
                self.device.to_string(),
                "Where filtered aggregates are computed: 'auto' (by estimated time), 'gpu' (or an error), 'prefer' \
                 (the GPU wherever it can), 'cpu'",
            ),
            entry(
                "gpu_backing",
                self.gpu_backing.to_string(),
                "How columns come to the GPU: 'auto', 'paged' (what kernels miss, kept in device memory), 'mapped' \
                 (loads from the page cache), 'queued' (NVMe commands), 'resident' (whole, kept in device memory)",
            ),
            entry(
                "gpu_cache_bytes",
                self.gpu_cache_bytes.to_string(),
                "Most device memory for what is kept between queries; 0: three quarters of what is free",
            ),
            entry(
                "gpu_target",
                self.gpu_target.to_string(),
                "What runs kernels: 'cuda', or 'host' (CPU threads, for tests)",
            ),
            entry(
                "cache_folder",
                self.cache_folder.clone(),
                "Where compiled kernels and the calibration are kept; empty: the user's cache folder",
            ),
        ]
    }
}

impl ConfigExtension for GrampusOptions {
    const PREFIX: &'static str = "grampus";
}

/// The settings that a device is opened with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpuSettings {
    /// The processor that runs kernels.
    pub(crate) target: GpuTarget,
    /// Device memory for cached columns; `None`: three quarters of the free memory.
    pub(crate) cache_bytes: Option<u64>,
    /// The folder of compiled kernels; `None`: there is no folder to keep them in.
    pub(crate) kernels: Option<PathBuf>,
}

impl GpuSettings {
    pub(crate) fn of(options: &GrampusOptions) -> Self {
        Self {
            target: options.gpu_target,
            cache_bytes: (options.gpu_cache_bytes > 0).then_some(options.gpu_cache_bytes),
            kernels: cache_folder(options).map(|folder| folder.join("kernels")),
        }
    }
}

/// The folder of compiled kernels and the calibration, which other processes may use too.
///
/// The order is: the setting `grampus.cache_folder`, `$XDG_CACHE_HOME/grampus`, `$HOME/.cache/grampus`.
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

#[cfg(test)]
mod tests {
    use datafusion::common::config::ConfigOptions;

    use super::*;

    #[test]
    fn settings_are_set_by_name_and_refuse_wrong_values() {
        let mut options = ConfigOptions::default();
        options.extensions.insert(GrampusOptions::default());
        options.set("grampus.local_io", "READ").unwrap();
        options.set("grampus.tile_rows", "1000").unwrap();
        let grampus = options.extensions.get::<GrampusOptions>().unwrap();
        assert_eq!((grampus.local_io, grampus.tile_rows), (LocalIo::Read, 1000));
        let error = options.set("grampus.local_io", "tape").unwrap_err();
        assert!(error.to_string().contains("'mmap' or 'read', not 'tape'"), "{error}");
        options.set("grampus.device", "Prefer").unwrap();
        options.set("grampus.gpu_backing", "queued").unwrap();
        let grampus = options.extensions.get::<GrampusOptions>().unwrap();
        assert_eq!(
            (grampus.device, grampus.gpu_backing),
            (Device::Prefer, GpuBacking::Queued)
        );
        let error = options.set("grampus.device", "abacus").unwrap_err().to_string();
        assert!(
            error.contains(r#"one of ["auto", "gpu", "prefer", "cpu"], not 'abacus'"#),
            "{error}"
        );
    }

    #[test]
    fn cache_folder_is_as_set() {
        let options = GrampusOptions {
            cache_folder: "/somewhere".to_owned(),
            ..GrampusOptions::default()
        };
        assert_eq!(cache_folder(&options), Some(PathBuf::from("/somewhere")));
        assert_eq!(
            GpuSettings::of(&options).kernels,
            Some(PathBuf::from("/somewhere/kernels"))
        );
    }
}
