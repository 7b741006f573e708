//! `MachineProfile`: what one machine reaches, in the few rates that estimates need. Measured once (`grampus device
//! --calibrate`), else supposed.

use grampus_orc_layout::codec::Codec;
use serde::{Deserialize, Serialize};

/// Bytes of a load over PCIe.
pub(crate) const LINK_SECTOR_BYTES: u64 = 32;

/// Rates of one machine. In its serialised form fields have their names without the unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineProfile {
    /// Name of the GPU that was measured; empty: the rates are supposed, or there was none.
    pub gpu: String,
    /// Cores of the CPU.
    pub cores: usize,
    /// Bytes that one core scans with a filter, from the page cache.
    #[serde(rename = "cpu_scan_bytes")]
    pub cpu_scan_bytes_per_s: f64,
    /// Bytes that all cores scan together, at most.
    #[serde(rename = "cpu_scan_bytes_all")]
    pub cpu_scan_all_bytes_per_s: f64,
    /// Values that one core decodes.
    #[serde(rename = "cpu_decoded_values")]
    pub cpu_decoded_values_per_s: f64,
    /// Decompressed bytes that one core produces, while all do.
    #[serde(rename = "cpu_decompressed_bytes", default = "cpu_decompression")]
    pub cpu_decompressed_bytes_per_s: PerCodec<f64>,
    /// Rows that one core groups and aggregates.
    #[serde(rename = "cpu_aggregated_rows")]
    pub cpu_aggregated_rows_per_s: f64,
    /// Bytes copied through the pinned ring, from the page cache to device memory.
    #[serde(rename = "push_bytes")]
    pub push_bytes_per_s: f64,
    /// Bytes that kernels load in order from registered memory.
    #[serde(rename = "mapped_bytes")]
    pub mapped_bytes_per_s: f64,
    /// Scattered values that kernels load from registered memory.
    #[serde(rename = "mapped_loads")]
    pub mapped_loads_per_s: f64,
    /// Commands through the queues.
    #[serde(rename = "commands")]
    pub commands_per_s: f64,
    /// Pages of 64 bytes that all threads together fetch from all over a file in the page cache.
    #[serde(rename = "gathered_pages")]
    pub fetched_pages_per_s: f64,
    /// Bytes read in large ranges from a file that is not in the page cache.
    #[serde(rename = "disk_bytes")]
    pub disk_bytes_per_s: f64,
    /// Bytes that kernels scan in device memory.
    #[serde(rename = "device_bytes")]
    pub device_bytes_per_s: f64,
    /// Decompressed bytes that kernels produce.
    #[serde(rename = "device_decompressed_bytes", default = "device_decompression")]
    pub device_decompressed_bytes_per_s: PerCodec<f64>,
    /// Time to open the device.
    #[serde(rename = "open_seconds")]
    pub open_s: f64,
    /// Time that a query takes besides moving and scanning.
    #[serde(rename = "query_seconds")]
    pub query_s: f64,
}

/// A figure for each codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // the codecs' names
pub struct PerCodec<T> {
    pub zlib: T,
    pub snappy: T,
    pub lz4: T,
    pub zstd: T,
}

impl<T: Copy> PerCodec<T> {
    /// The figure of a codec.
    pub fn get(&self, codec: Codec) -> T {
        match codec {
            Codec::Zlib => self.zlib,
            Codec::Snappy => self.snappy,
            Codec::Zstd => self.zstd,
            _ => self.lz4, // LZO too, of which nothing is measured
        }
    }

    /// The figure of a codec, to be changed.
    pub fn get_mut(&mut self, codec: Codec) -> &mut T {
        match codec {
            Codec::Zlib => &mut self.zlib,
            Codec::Snappy => &mut self.snappy,
            Codec::Zstd => &mut self.zstd,
            _ => &mut self.lz4,
        }
    }

    /// All figures.
    pub fn values(&self) -> [T; 4] {
        [self.zlib, self.snappy, self.lz4, self.zstd]
    }
}

/// By one of 16 cores at work (docs/experiments/0031-estimates-of-compressed-files.md).
fn cpu_decompression() -> PerCodec<f64> {
    PerCodec {
        zlib: 0.63e9,
        snappy: 0.76e9,
        lz4: 1.1e9,
        zstd: 0.52e9,
    }
}

/// By an H100 and an H200, with what precedes it (docs/experiments/{0040-decode-lanes,0061-zlib-and-zstd}.md).
fn device_decompression() -> PerCodec<f64> {
    PerCodec {
        zlib: 120e9,
        snappy: 90e9,
        lz4: 85e9,
        zstd: 55e9,
    }
}

impl Default for MachineProfile {
    /// An H200 behind PCIe 5 x16, and 16 cores.
    fn default() -> Self {
        Self::of_cores(16)
    }
}

impl MachineProfile {
    /// The supposed rates of a machine with so many cores and an H200 behind PCIe 5 x16.
    pub fn of_cores(cores: usize) -> Self {
        Self {
            gpu: String::new(),
            cores,
            cpu_scan_bytes_per_s: 9e9,
            cpu_scan_all_bytes_per_s: 110e9,
            cpu_decoded_values_per_s: 150e6,
            cpu_decompressed_bytes_per_s: cpu_decompression(),
            cpu_aggregated_rows_per_s: 60e6,
            push_bytes_per_s: 52e9,
            mapped_bytes_per_s: 51e9,
            mapped_loads_per_s: 100e6,
            commands_per_s: 6e6,
            fetched_pages_per_s: 12e6,
            disk_bytes_per_s: 3.5e9,
            device_bytes_per_s: 3e12,
            device_decompressed_bytes_per_s: device_decompression(),
            open_s: 0.35,
            query_s: 0.003,
        }
    }

    /// Values that all cores decode together.
    pub fn decoded_values_per_s(&self) -> f64 {
        self.cpu_decoded_values_per_s * self.cores as f64
    }

    /// Decompressed bytes that all cores produce together.
    pub fn cpu_decompressed_bytes_per_s(&self, codec: Codec) -> f64 {
        self.cpu_decompressed_bytes_per_s.get(codec) * self.cores as f64
    }

    /// Whether the rates can be divided by.
    pub fn is_sound(&self) -> bool {
        let rates = [
            self.cpu_scan_bytes_per_s,
            self.cpu_scan_all_bytes_per_s,
            self.cpu_decoded_values_per_s,
            self.cpu_aggregated_rows_per_s,
            self.push_bytes_per_s,
            self.mapped_bytes_per_s,
            self.mapped_loads_per_s,
            self.commands_per_s,
            self.fetched_pages_per_s,
            self.disk_bytes_per_s,
            self.device_bytes_per_s,
        ];
        let by_codec = [self.cpu_decompressed_bytes_per_s, self.device_decompressed_bytes_per_s];
        let by_codec = by_codec.iter().flat_map(PerCodec::values);
        self.cores > 0
            && (rates.iter().copied().chain(by_codec)).all(|rate| rate.is_finite() && rate > 0.0)
            && [self.open_s, self.query_s]
                .iter()
                .all(|time| time.is_finite() && *time >= 0.0)
    }
}
