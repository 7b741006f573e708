//! `GpuOptions` and `Request`: how a GPU is opened, and what a caller asks of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use grampus_cuda::{HostLanes, Nvcomp, NvcompCodec};
use grampus_orc_layout::codec::Codec;

use crate::input::{Input, Placement, Segment, Stripe};
use crate::program::{Program, Stored, Value};

/// Hardware that runs kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// An NVIDIA GPU, by number.
    Cuda(u32),
    /// An NVIDIA GPU, or the instance of a divided one, by UUID.
    CudaUuid([u8; 16]),
    /// Threads of this machine, each a warp. They run the same source, compiled by the host's C++ compiler (`CXX`,
    /// else `g++`, `clang++`, `c++`). For tests: compilation is slow, and execution is as fast as the threads are.
    Host {
        /// Number of threads.
        threads: u32,
        /// Lanes of a warp.
        lanes: HostLanes,
    },
}

/// The environment variable with the lanes of a warp on host threads: 1, or 32.
const LANES_VARIABLE: &str = "GRAMPUS_HOST_LANES";

impl Target {
    /// Whether an NVIDIA GPU runs kernels.
    pub fn is_cuda(self) -> bool {
        matches!(self, Self::Cuda(_) | Self::CudaUuid(_))
    }

    /// Threads of this machine. Their warps have 32 lanes if `GRAMPUS_HOST_LANES` is 32, else one.
    pub fn host(threads: u32) -> Self {
        let lanes = match std::env::var(LANES_VARIABLE).as_deref() {
            Ok("32") => HostLanes::ThirtyTwo,
            Err(_) | Ok("" | "1") => HostLanes::One,
            Ok(other) => {
                log::warn!("{LANES_VARIABLE} is 1 or 32, not '{other}': warps have one lane");
                HostLanes::One
            }
        };
        Self::Host { threads, lanes }
    }

    /// The GPU of a number (`0`) or of a UUID (`GPU-…` or `MIG-…`, as `nvidia-smi -L` prints it). `None`: neither.
    pub fn of_gpu(name: &str) -> Option<Self> {
        let name = name.trim();
        if let Ok(number) = name.parse() {
            return Some(Self::Cuda(number));
        }
        let bare = name.strip_prefix("GPU-").or_else(|| name.strip_prefix("MIG-"));
        let bare = bare.unwrap_or(name);
        let parts: Vec<usize> = bare.split('-').map(str::len).collect();
        let hex: String = bare.split('-').collect();
        if parts != [8, 4, 4, 4, 12] || !hex.is_ascii() {
            return None;
        }
        let mut uuid = [0; 16];
        for (at, byte) in uuid.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(Self::CudaUuid(uuid))
    }
}

/// How a [`Gpu`](crate::Gpu) is opened.
#[derive(Debug, Clone)]
pub struct GpuOptions {
    /// Hardware that runs kernels.
    pub target: Target,
    /// Bytes of device memory for resident columns and the sector cache together, at most; `None`: three quarters of
    /// the free memory.
    pub cache_bytes: Option<u64>,
    /// Bytes of registered file mappings at a time, at most; `None`: half of the host's memory.
    pub pin_bytes: Option<u64>,
    /// Folder of compiled kernels; `None`: they are kept in memory only.
    pub kernel_folder: Option<PathBuf>,
    /// Threads that read files and copy.
    pub threads: usize,
}

/// How a column's bytes reach kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Whole stripes of the column are in device memory. The copy engine uploads them from a pinned ring that threads
    /// fill from the file; or they are uploaded in encoded form and decoded on the device; or the CPU decodes them.
    /// They are kept for later queries as long as there is space.
    Resident,
    /// Space for whole stripes of the column is in device memory, but only those pages are loaded that rows of some
    /// query needed. A page is 64 bytes of values that lie raw in their file, or a row group or the rows of a
    /// compression chunk of decoded values. Kernels record the pages that they miss, threads load them, and the kernel
    /// is replayed. Columns that are read whole are resident.
    Paged,
    /// Loads from a registered mapping of the file, over PCIe.
    Mapped,
    /// NVMe commands by the kernel, answered by the controller into the sector cache in device memory.
    Queued,
}

/// The caller's choice of backings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BackingChoice {
    /// The cost model decides for each column.
    #[default]
    Auto,
    /// All columns that lie raw in their files have this backing; decoded ones are resident.
    All(Backing),
}

/// How one column will be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnChoice {
    /// The backing.
    pub backing: Backing,
    /// Bytes of the smallest range that is moved: a sector, a page, a stripe's column.
    pub granularity_bytes: u64,
    /// Bytes that will be moved, as estimated before the query.
    pub estimated_bytes: u64,
    /// Time to move and decode them, with files in the page cache.
    pub estimated_time: Duration,
    /// Time that kernels take to scan the column in device memory.
    pub scan_time: Duration,
    /// Bytes of the column that are resident already.
    pub resident_bytes: u64,
    /// Reason for people.
    pub reason: String,
}

/// What a run would find now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunPreview {
    /// By column of the program.
    pub columns: Vec<ColumnChoice>,
    /// How the kernel treats rows and groups, in words.
    pub kernel_shape: String,
    /// Groups that have codes; further ones are rare. `None`: groups have none.
    pub coded_groups: Option<u32>,
    /// The kernel needs no compiler. A closed device has no kernels.
    pub is_compiled: bool,
}

/// The way in which a device decompresses chunks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Decompression<'a> {
    /// nvCOMP, which decompresses all codecs that it knows. Without it, kernels of this crate do.
    pub library: Option<&'a Nvcomp>,
}

/// Decompressors of a device.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Decompressor<'a> {
    /// The kernel of this crate.
    Own,
    /// nvCOMP.
    Library(&'a Nvcomp),
}

impl<'a> Decompression<'a> {
    /// The decompressor of a codec; `None`: the CPU decompresses.
    pub(crate) fn of(self, codec: Codec) -> Option<Decompressor<'a>> {
        // Both know the same codecs.
        nvcomp_codec(codec)?;
        let library = self.library.filter(|library| !library.is_suspect());
        Some(library.map_or(Decompressor::Own, Decompressor::Library))
    }
}

/// nvCOMP's name of a codec; `None`: nvCOMP does not know it.
pub(crate) fn nvcomp_codec(codec: Codec) -> Option<NvcompCodec> {
    match codec {
        Codec::Snappy => Some(NvcompCodec::Snappy),
        Codec::Lz4 => Some(NvcompCodec::Lz4),
        Codec::Zstd => Some(NvcompCodec::Zstd),
        Codec::Zlib => Some(NvcompCodec::Deflate),
        _ => None,
    }
}

/// Where a stripe has a column's values, for one layout of them: as [`Placement`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Place<'a> {
    /// As kernels read them.
    Raw(&'a [Segment]),
    /// One value in all rows. `None`: NULL.
    Constant(Option<Value>),
    /// To be decoded: [`Placement::Decoded`].
    Decoded {
        stored_bytes: u64,
        on_device: bool,
        chunk_bytes: Option<u64>,
    },
}

/// A program to run.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The computation.
    pub program: &'a Program,
    /// The literals, of the types in [`Program::arguments`].
    pub arguments: &'a [Value],
    /// The values. Requests that share the input run faster when all their columns are resident: the device keeps its
    /// plan.
    pub input: &'a Arc<Input>,
    /// How columns are to be read.
    pub backing: BackingChoice,
    /// How chunks are to be decompressed.
    pub decompression: Decompression<'a>,
    /// Share of rows that are expected to pass, 0 to 1.
    pub selectivity: f64,
    /// True: if other queries hold the device memory that the query needs, it waits until one of them has ended. False:
    /// it is refused ([`RefusalReason::DeviceMemory`](crate::RefusalReason::DeviceMemory)).
    pub waits_for_memory: bool,
    /// Set by the caller to cancel.
    pub cancel: &'a Arc<AtomicBool>,
}

impl Request<'_> {
    /// Whether the caller has cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Whether a column's values take fewer bytes in memory than its type's.
    pub(crate) fn is_narrow(&self, column: usize) -> bool {
        let of = &self.program.columns[column];
        of.stored != Stored::of(of.ty)
    }

    /// Where a stripe has a column's values, for their layout in memory. Floats that are integers in memory are
    /// decoded, also if they lie raw.
    pub(crate) fn place<'s>(&self, stripe: &'s Stripe, column: usize) -> Place<'s> {
        let of = &self.program.columns[column];
        let from_floats = of.stored.float_bytes();
        match (&stripe.columns[column], from_floats) {
            (Placement::Constant(value), _) => Place::Constant(*value),
            (Placement::Direct(segments), None) => Place::Raw(segments),
            (Placement::Direct(_), Some(bytes)) => Place::Decoded {
                stored_bytes: stripe.rows * u64::from(bytes),
                on_device: true,
                chunk_bytes: None,
            },
            (
                Placement::Decoded {
                    stored_bytes,
                    on_device,
                    chunk_bytes,
                },
                _,
            ) => Place::Decoded {
                stored_bytes: *stored_bytes,
                on_device: *on_device,
                chunk_bytes: chunk_bytes.filter(|_| from_floats.is_none()),
            },
        }
    }

    /// Whether kernels must look whether a column's values are NULL.
    pub(crate) fn has_nulls(&self, column: usize) -> bool {
        let may = |placement: &Placement| matches!(placement, Placement::Decoded { .. } | Placement::Constant(None));
        self.program.columns[column].nullable && self.input.stripes.iter().any(|stripe| may(&stripe.columns[column]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_have_numbers_and_uuids() {
        let uuid = [
            0x8d, 0x2a, 0x1c, 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0xa7, 0xb8, 0xc9, 0xd0, 0xe1, 0xf2,
        ];
        for prefix in ["", "GPU-", "MIG-"] {
            let name = format!("{prefix}8d2a1c00-1122-3344-5566-a7b8c9d0e1f2");
            assert_eq!(Target::of_gpu(&name), Some(Target::CudaUuid(uuid)), "{name}");
        }
        assert_eq!(Target::of_gpu("3"), Some(Target::Cuda(3)));
        for wrong in [
            "",
            "first",
            "-1",
            "GPU-8d2a1c00",
            "8d2a1c00-1122-3344-5566-a7b8c9d0e1fx",
            "8d2a1c00-1122-3344-5566-a7b8c9d0é1",
        ] {
            assert_eq!(Target::of_gpu(wrong), None, "{wrong}");
        }
    }
}
