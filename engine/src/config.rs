//! The settings: [`GrampusConfig`], which a session starts with, and [`GrampusOptions`], which SQL can change
//! (`SET grampus.local_io = 'read'`).

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::error::{DataFusionError, Result};

pub use crate::device_settings::GpuTarget;
use crate::device_settings::{DeviceSettings, RuntimeSettings};
use crate::setting_words::words;

/// The configuration that a session starts with. `None` leaves DataFusion's default.
#[derive(Debug, Clone, Default)]
pub struct GrampusConfig {
    /// Partitions of a query; `None`: one per core.
    pub target_partitions: Option<usize>,
    /// Memory that all queries together may use for sorting, grouping, joining, decoded and fetched data.
    pub memory_limit: MemoryLimit,
    /// Rows per batch between operators; `None`: 8192, or fewer if the memory limit is low.
    pub batch_rows: Option<usize>,
    /// Initial values of the `grampus.*` settings.
    pub options: GrampusOptions,
}

/// The memory that the queries of a session may use.
///
/// Operators that can spill write to temporary files before they use more; the others fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryLimit {
    /// 80 % of the machine's memory, or of the control group's limit if that is lower.
    #[default]
    Machine,
    /// This number of bytes.
    Bytes(usize),
    /// No limit.
    Unlimited,
}

/// The way local files are read.
///
/// Measured on 20 million rows in the page cache with one thread, in CPU time: a scan of the predicate column took 9 ms
/// through a map, and 35 ms through positioned reads, which copy. Six columns at 0.47 % of the rows took 30 and 165 ms.
///
/// Under both, a file that changes under a query ends the query with an error. The first map installs a handler of
/// SIGBUS for the process, which passes signals about other memory on. A program that wants no such handler chooses
/// `read`; one that installs its own handler later gets `read` from then on.
///
/// Under both, disks read the pages of a query's bytes and no other, on file systems that tell which are missing.
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

/// The decompression of chunks that are read on the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuDecompress {
    /// On the GPU: Snappy and LZ4 by kernels of this project, Zstandard and zlib by nvCOMP if it can be loaded.
    #[default]
    Auto,
    /// On the GPU, by kernels of this project: Snappy and LZ4.
    Own,
    /// On the GPU, by nvCOMP. If it cannot be loaded, queries over compressed files fail.
    Nvcomp,
    /// By the CPU.
    Off,
}

/// Loading of columns into device memory after queries that the CPU answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GpuLoad {
    /// On a thread in the background, for queries that the GPU answers faster from its memory.
    #[default]
    Background,
    /// Never.
    Off,
}

/// The unit of a table's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TimestampUnit {
    /// Nanoseconds if the files' statistics tell that all values of the column fit, or tell nothing; else microseconds.
    #[default]
    Auto,
    /// Nanoseconds: the years 1677 to 2262.
    Ns,
    /// Microseconds: any year. Fractions of a microsecond are cut off, towards the past.
    Us,
}

/// The treatment of strings whose bytes are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InvalidUtf8 {
    /// The query fails.
    #[default]
    Error,
    /// U+FFFD takes the place of each invalid sequence of bytes.
    Replace,
}

words!(Device, "device": "auto" => Auto, "gpu" => Gpu, "prefer" => Prefer, "cpu" => Cpu);
words!(GpuDecompress, "gpu_decompress": "auto" => Auto, "own" => Own, "nvcomp" => Nvcomp, "off" => Off);
words!(GpuLoad, "gpu_load": "background" => Background, "off" => Off);
words!(TimestampUnit, "timestamp_unit": "auto" => Auto, "ns" => Ns, "us" => Us);
words!(InvalidUtf8, "invalid_utf8": "error" => Error, "replace" => Replace);
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
    /// Minimum rows of a partition. A scan of fewer rows has fewer partitions, because a partition costs more than it
    /// saves. Work stealing halves a range down to eight times as many rows.
    pub min_partition_rows: usize,
    /// Minimum rows that a filter evaluates in one step of a remote file, because each step may cost a round trip.
    pub fetched_tile_rows: usize,
    /// Bytes of a filter's first columns that one fetch of a remote file reads ahead.
    pub fetch_window_bytes: usize,
    /// Whether the scan skips stripes and row groups that statistics or bloom filters exclude.
    pub prune: bool,
    /// The unit of timestamps, in tables that are opened from now on.
    pub timestamp_unit: TimestampUnit,
    /// The treatment of strings that are not UTF-8.
    pub invalid_utf8: InvalidUtf8,
    /// The device that computes filtered aggregates.
    pub device: Device,
    /// The way columns' bytes reach the GPU.
    pub gpu_backing: GpuBacking,
    /// Where chunks are decompressed that are read on the GPU.
    pub gpu_decompress: GpuDecompress,
    /// The file of nvCOMP; empty: the environment variable `GRAMPUS_NVCOMP`, or the system's loader, names the file.
    pub nvcomp_library: String,
    /// Loading of columns after queries on the CPU.
    pub gpu_load: GpuLoad,
    /// Maximum device memory for data cached between queries, in bytes; 0: three quarters of the free memory.
    pub gpu_cache_bytes: u64,
    /// Bytes of a sector: what kernels read by command for a single value. 512, 1024, 2048 or 4096.
    pub gpu_sector_bytes: u32,
    /// The NVIDIA GPU: its number, or its UUID as `nvidia-smi -L` prints it.
    pub gpu: String,
    /// The processor that runs kernels.
    pub gpu_target: GpuTarget,
    /// The folder of compiled kernels and the calibration; empty: the user's cache folder.
    pub cache_folder: String,
    /// The device's settings of the runtime. Of a session with a runtime, they hold in place of the five fields above,
    /// which are initial values.
    pub(crate) runtime: Option<RuntimeSettings>,
}

impl Default for GrampusOptions {
    fn default() -> Self {
        Self {
            local_io: LocalIo::default(),
            tile_rows: 65_536,
            min_partition_rows: 16_384,
            fetched_tile_rows: 1 << 20,
            fetch_window_bytes: 16 << 20,
            prune: true,
            timestamp_unit: TimestampUnit::default(),
            invalid_utf8: InvalidUtf8::default(),
            device: Device::default(),
            gpu_backing: GpuBacking::default(),
            gpu_decompress: GpuDecompress::default(),
            nvcomp_library: String::new(),
            gpu_load: GpuLoad::default(),
            gpu_cache_bytes: 0,
            gpu_sector_bytes: 512,
            gpu: "0".to_owned(),
            gpu_target: GpuTarget::default(),
            cache_folder: String::new(),
            runtime: None,
        }
    }
}

impl GrampusOptions {
    /// Minimum rows of the half of a range that an idle partition takes. To open a stripe takes as long as to filter
    /// some ten thousand rows.
    pub(crate) fn min_half_rows(&self) -> u64 {
        (self.min_partition_rows as u64).saturating_mul(8)
    }

    /// The settings that a device is opened with: the runtime's, or without a runtime those of the fields.
    pub(crate) fn device_settings(&self) -> DeviceSettings {
        match &self.runtime {
            Some(runtime) => runtime.get(),
            None => DeviceSettings {
                gpu: self.gpu.clone(),
                target: self.gpu_target,
                cache_bytes: self.gpu_cache_bytes,
                sector_bytes: self.gpu_sector_bytes,
                cache_folder: self.cache_folder.clone(),
            },
        }
    }

    fn set_device(&mut self, key: &str, value: &str) -> Result<()> {
        let changed = match &self.runtime {
            Some(runtime) => runtime.set(key, value)?,
            None => {
                let mut settings = self.device_settings();
                settings.set(key, value)?;
                settings
            }
        };
        let DeviceSettings {
            gpu,
            target,
            cache_bytes,
            sector_bytes,
            cache_folder,
        } = changed;
        (self.gpu, self.gpu_target) = (gpu, target);
        (self.gpu_cache_bytes, self.gpu_sector_bytes, self.cache_folder) = (cache_bytes, sector_bytes, cache_folder);
        Ok(())
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
            "min_partition_rows" => match value.parse() {
                Ok(rows) if rows > 0 => self.min_partition_rows = rows,
                _ => return config_err!("grampus.min_partition_rows is a number of rows, at least 1, not '{value}'"),
            },
            "fetched_tile_rows" => match value.parse() {
                Ok(rows) if rows > 0 => self.fetched_tile_rows = rows,
                _ => return config_err!("grampus.fetched_tile_rows is a number of rows, at least 1, not '{value}'"),
            },
            "fetch_window_bytes" => match value.parse() {
                Ok(bytes) if bytes > 0 => self.fetch_window_bytes = bytes,
                _ => return config_err!("grampus.fetch_window_bytes is a number of bytes, at least 1, not '{value}'"),
            },
            "prune" => match value.to_ascii_lowercase().parse() {
                Ok(prune) => self.prune = prune,
                Err(_) => return config_err!("grampus.prune is true or false, not '{value}'"),
            },
            "timestamp_unit" => self.timestamp_unit = value.parse()?,
            "invalid_utf8" => self.invalid_utf8 = value.parse()?,
            "device" => self.device = value.parse()?,
            "gpu_backing" => self.gpu_backing = value.parse()?,
            "gpu_decompress" => self.gpu_decompress = value.parse()?,
            "nvcomp_library" => value.clone_into(&mut self.nvcomp_library),
            "gpu_load" => self.gpu_load = value.parse()?,
            key if DeviceSettings::has(key) => self.set_device(key, value)?,
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
        let mut entries = vec![
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
                "min_partition_rows",
                self.min_partition_rows.to_string(),
                "Fewest rows for which a scan gets another partition",
            ),
            entry(
                "fetched_tile_rows",
                self.fetched_tile_rows.to_string(),
                "Fewest rows that a filter looks at in one step of a file in an object store",
            ),
            entry(
                "fetch_window_bytes",
                self.fetch_window_bytes.to_string(),
                "Bytes of a filter's first columns that are fetched ahead from an object store",
            ),
            entry(
                "prune",
                self.prune.to_string(),
                "Skip stripes and row groups whose statistics or bloom filters exclude the filter",
            ),
            entry(
                "timestamp_unit",
                self.timestamp_unit.to_string(),
                "Unit of timestamps in tables opened from now on: 'ns' (years 1677 to 2262), 'us' (any year), 'auto' \
                 (microseconds for a column whose statistics tell that a value does not fit nanoseconds)",
            ),
            entry(
                "invalid_utf8",
                self.invalid_utf8.to_string(),
                "Strings that are not UTF-8: 'error' (the query fails) or 'replace' (U+FFFD for the invalid bytes)",
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
                "gpu_decompress",
                self.gpu_decompress.to_string(),
                "Where chunks of compressed files are decompressed for the GPU: 'auto' (Snappy and LZ4 on the GPU; \
                 Zstandard and zlib there by nvCOMP, if it is installed), 'own' (Snappy and LZ4 on the GPU), 'nvcomp' \
                 (all on the GPU by nvCOMP, or an error), 'off' (by the CPU)",
            ),
            entry(
                "nvcomp_library",
                self.nvcomp_library.clone(),
                "The file of nvCOMP; empty: the file that GRAMPUS_NVCOMP names, or libnvcomp.so.5 of the loader",
            ),
            entry(
                "gpu_load",
                self.gpu_load.to_string(),
                "Whether columns are loaded into device memory after queries on the CPU: 'background' or 'off'",
            ),
        ];
        let of_device = self.device_settings().entries();
        entries.extend(
            of_device
                .into_iter()
                .map(|(name, value, description)| entry(name, value, description)),
        );
        entries
    }
}

impl ConfigExtension for GrampusOptions {
    const PREFIX: &'static str = "grampus";
}

/// The folder of compiled kernels and the calibration, which other processes may use too.
///
/// The order is: the setting `grampus.cache_folder`, `$XDG_CACHE_HOME/grampus`, `$HOME/.cache/grampus`.
pub fn cache_folder(options: &GrampusOptions) -> Option<PathBuf> {
    options.device_settings().cache_folder()
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
