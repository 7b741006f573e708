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
use crate::device_settings::{DeviceSettings, RuntimeSettings, names_gpu};
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
    /// Whether statements open no files but those of the tables that the program registers, and write none. Tables in
    /// memory may change, and queries may spill.
    pub is_confined: bool,
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
    /// On the GPU, by kernels of this project.
    #[default]
    Auto,
    /// As `Auto`.
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

/// Makes of one table the struct of the settings, their initial values, and what `SET` and `SHOW` do with them.
///
/// A line has name, type, initial value, the function that reads a value, and the description.
macro_rules! settings {
    ($($(#[doc = $more:literal])* $name:ident: $type:ty = $initial:expr, $read:path, $description:literal;)+) => {
        /// The settings named `grampus.*`: `SET` changes them, `SHOW` prints them.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct GrampusOptions {
            $(
                #[doc = concat!($description, ".")]
                $(#[doc = $more])*
                pub $name: $type,
            )+
            /// The device's settings of the runtime. Of a session with a runtime, they hold in place of the fields of
            /// [`DeviceSettings`], which are initial values.
            pub(crate) runtime: Option<RuntimeSettings>,
        }

        impl Default for GrampusOptions {
            fn default() -> Self {
                Self {
                    $($name: $initial,)+
                    runtime: None,
                }
            }
        }

        impl GrampusOptions {
            fn set_field(&mut self, key: &str, value: &str) -> Result<()> {
                match key {
                    $(stringify!($name) => self.$name = $read(key, value)?,)+
                    _ => return config_err!("there is no setting grampus.{key}; SHOW ALL lists them"),
                }
                Ok(())
            }

            /// Names, values and descriptions.
            fn fields(&self) -> Vec<(&'static str, String, &'static str)> {
                vec![$((stringify!($name), self.$name.to_string(), $description),)+]
            }
        }
    };
}

settings! {
    local_io: LocalIo = LocalIo::default(), word,
        "How local files are read: 'mmap' (memory map) or 'read' (positioned reads)";
    tile_rows: usize = 65_536, rows, "Most rows that a filter looks at in one step";
    /// A partition costs more than it saves for fewer rows. Work stealing halves a range down to eight times as many
    /// rows.
    min_partition_rows: usize = 16_384, rows, "Fewest rows for which a scan gets another partition";
    /// Each step may cost a round trip.
    fetched_tile_rows: usize = 1 << 20, rows,
        "Fewest rows that a filter looks at in one step of a file in an object store";
    fetch_window_bytes: usize = 16 << 20, bytes,
        "Bytes of a filter's first columns that are fetched ahead from an object store";
    prune: bool = true, flag, "Skip stripes and row groups whose statistics or bloom filters exclude the filter";
    parquet_cascade: bool = true, flag,
        "Filter Parquet files column by column, and read the other columns for the rows that pass";
    timestamp_unit: TimestampUnit = TimestampUnit::default(), word,
        "Unit of timestamps in tables opened from now on: 'ns' (years 1677 to 2262), 'us' (any year), 'auto' \
         (microseconds for a column whose statistics tell that a value does not fit nanoseconds)";
    invalid_utf8: InvalidUtf8 = InvalidUtf8::default(), word,
        "Strings that are not UTF-8: 'error' (the query fails) or 'replace' (U+FFFD for the invalid bytes)";
    device: Device = Device::default(), word,
        "Where filtered aggregates are computed: 'auto' (by estimated time), 'gpu' (or an error), 'prefer' (the GPU \
         wherever it can), 'cpu'";
    gpu_backing: GpuBacking = GpuBacking::default(), word,
        "How columns come to the GPU: 'auto', 'paged' (what kernels miss, kept in device memory), 'mapped' (loads from \
         the page cache), 'queued' (NVMe commands), 'resident' (whole, kept in device memory)";
    gpu_decompress: GpuDecompress = GpuDecompress::default(), word,
        "Where chunks of compressed files are decompressed for the GPU: 'auto' and 'own' (on the GPU), 'nvcomp' (there \
         by nvCOMP, or an error), 'off' (by the CPU)";
    nvcomp_library: String = String::new(), text,
        "The file of nvCOMP; empty: the file that GRAMPUS_NVCOMP names, or libnvcomp.so.5 of the loader";
    gpu_load: GpuLoad = GpuLoad::default(), word,
        "Whether columns are loaded into device memory after queries on the CPU: 'background' or 'off'";
    gpu_cache_bytes: u64 = 0, cache_bytes,
        "Most device memory for what is kept between queries; 0: three quarters of what is free";
    gpu_sector_bytes: u32 = 512, sector_bytes,
        "What kernels read by command for a single value: 512, 1024, 2048 or 4096 bytes";
    gpu: String = "0".to_owned(), gpu_name, "The NVIDIA GPU: its number, or its UUID; `grampus device` prints both";
    gpu_target: GpuTarget = GpuTarget::default(), word,
        "What runs kernels: 'cuda', or 'host' (CPU threads, for tests)";
    cache_folder: String = String::new(), text,
        "Where compiled kernels and the calibration are kept; empty: the user's cache folder";
}

fn word<T: FromStr<Err = DataFusionError>>(_key: &str, value: &str) -> Result<T> {
    value.parse()
}

fn text(_key: &str, value: &str) -> Result<String> {
    Ok(value.to_owned())
}

fn rows(key: &str, value: &str) -> Result<usize> {
    positive(key, value, "rows")
}

fn bytes(key: &str, value: &str) -> Result<usize> {
    positive(key, value, "bytes")
}

fn positive(key: &str, value: &str, unit: &str) -> Result<usize> {
    match value.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => config_err!("grampus.{key} is a number of {unit}, at least 1, not '{value}'"),
    }
}

fn flag(key: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().parse() {
        Ok(flag) => Ok(flag),
        Err(_) => config_err!("grampus.{key} is true or false, not '{value}'"),
    }
}

fn cache_bytes(key: &str, value: &str) -> Result<u64> {
    match value.parse() {
        Ok(bytes) => Ok(bytes),
        Err(_) => config_err!("grampus.{key} is a number of bytes, or 0, not '{value}'"),
    }
}

fn sector_bytes(key: &str, value: &str) -> Result<u32> {
    match value.parse() {
        Ok(bytes @ (512 | 1024 | 2048 | 4096)) => Ok(bytes),
        _ => config_err!("grampus.{key} is 512, 1024, 2048 or 4096, not '{value}'"),
    }
}

fn gpu_name(key: &str, value: &str) -> Result<String> {
    match names_gpu(value) {
        true => Ok(value.trim().to_owned()),
        false => config_err!("grampus.{key} is a number or a UUID ('GPU-…', 'MIG-…'), not '{value}'"),
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
            None => self.device_fields(),
        }
    }

    fn device_fields(&self) -> DeviceSettings {
        DeviceSettings {
            gpu: self.gpu.clone(),
            target: self.gpu_target,
            cache_bytes: self.gpu_cache_bytes,
            sector_bytes: self.gpu_sector_bytes,
            cache_folder: self.cache_folder.clone(),
        }
    }

    fn with_device(&self, settings: DeviceSettings) -> Self {
        Self {
            gpu: settings.gpu,
            gpu_target: settings.target,
            gpu_cache_bytes: settings.cache_bytes,
            gpu_sector_bytes: settings.sector_bytes,
            cache_folder: settings.cache_folder,
            ..self.clone()
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
        let Some(runtime) = self.runtime.clone() else {
            return self.set_field(key, value);
        };
        *self = runtime.change(key, |device| {
            let mut changed = self.with_device(device);
            changed.set_field(key, value)?;
            Ok((changed.device_fields(), changed))
        })?;
        Ok(())
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        let fields = self.with_device(self.device_settings()).fields();
        let entries = fields.into_iter().map(|(name, value, description)| ConfigEntry {
            key: format!("{}.{name}", Self::PREFIX),
            value: Some(value),
            description,
        });
        entries.collect()
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
