//! `NvcompFunctions`: the functions of NVIDIA's nvCOMP that decompress batches, looked up in a loaded library.
//!
//! The declarations follow "nvCOMP C API" of version 5, "Batched". A batch is described by arrays in device memory.

use std::ffi::{c_int, c_void};

use libloading::Library;

/// A codec of nvCOMP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NvcompCodec {
    /// Raw Snappy.
    Snappy,
    /// LZ4 blocks.
    Lz4,
    /// Zstandard frames.
    Zstd,
    /// Raw deflate.
    Deflate,
}

impl NvcompCodec {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Snappy, Self::Lz4, Self::Zstd, Self::Deflate];

    /// A bit of its own.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The codec's part of function names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Snappy => "Snappy",
            Self::Lz4 => "LZ4",
            Self::Zstd => "Zstd",
            Self::Deflate => "Deflate",
        }
    }
}

/// `nvcompStatus_t`: a call or a chunk was handled.
pub(crate) const SUCCESS: c_int = 0;
/// `NVCOMP_DECOMPRESS_BACKEND_CUDA`.
const BACKEND_CUDA: c_int = 2;

/// `nvcompProperties_t`.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Properties {
    /// 1,000 × major + 100 × minor + patch.
    pub(crate) version: u32,
    pub(crate) cudart_version: u32,
}

/// `nvcompBatched…DecompressOpts_t`, the same for each codec.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecompressOptions {
    backend: c_int,
    reserved: [u8; 60],
}

const _: () = assert!(size_of::<DecompressOptions>() == 64);

impl DecompressOptions {
    /// Kernels decompress, not the hardware engine, whose answer to corrupt chunks is success.
    pub(crate) const KERNELS: Self = Self {
        backend: BACKEND_CUDA,
        reserved: [0; 60],
    };
}

type GetProperties = unsafe extern "C" fn(*mut Properties) -> c_int;
/// Chunks, maximum bytes of a chunk, options, out: bytes; bytes of all chunks.
type GetTempSize = unsafe extern "C" fn(usize, usize, DecompressOptions, *mut usize, usize) -> c_int;
/// Inputs, their bytes, space of outputs, out: bytes that came out; chunks, scratch memory, its bytes, outputs,
/// options, out: statuses; stream.
type Decompress = unsafe extern "C" fn(
    *const *const c_void,
    *const usize,
    *const usize,
    *mut usize,
    usize,
    *mut c_void,
    usize,
    *const *mut c_void,
    DecompressOptions,
    *mut c_int,
    *mut c_void,
) -> c_int;

/// The functions for one codec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodecFunctions {
    pub(crate) temp_size: GetTempSize,
    pub(crate) decompress: Decompress,
}

/// The functions of a library, which stays loaded.
#[derive(Debug)]
pub(crate) struct NvcompFunctions {
    _library: Library,
    pub(crate) properties: GetProperties,
    /// In the order of [`NvcompCodec::ALL`].
    codecs: [CodecFunctions; 4],
    /// The library works on memory of the CPU, at once: a stand-in for tests on host threads.
    pub(crate) is_on_host: bool,
}

/// The symbol by which a library says that it works on memory of the CPU.
const HOST_MARK: &str = "grampus_nvcomp_on_host_threads";

impl NvcompFunctions {
    /// Looks up all functions.
    ///
    /// # Errors
    /// The name of the first one that the library lacks.
    pub(crate) fn of(library: Library) -> Result<Self, String> {
        let mut codecs = Vec::with_capacity(NvcompCodec::ALL.len());
        for codec in NvcompCodec::ALL {
            let batched = format!("nvcompBatched{}Decompress", codec.name());
            codecs.push(CodecFunctions {
                // SAFETY: the type is the function's, in version 5 of the API.
                temp_size: unsafe { function(&library, &format!("{batched}GetTempSizeAsync")) }?,
                // SAFETY: as above.
                decompress: unsafe { function(&library, &format!("{batched}Async")) }?,
            });
        }
        let codecs = codecs.try_into().map_err(|_| "a codec".to_owned())?;
        Ok(Self {
            // SAFETY: as above.
            properties: unsafe { function(&library, "nvcompGetProperties") }?,
            codecs,
            // SAFETY: only the presence of the symbol matters.
            is_on_host: unsafe { library.get::<*const c_void>(HOST_MARK) }.is_ok(),
            _library: library,
        })
    }

    pub(crate) fn codec(&self, codec: NvcompCodec) -> CodecFunctions {
        self.codecs[codec as usize]
    }
}

/// A function by its name.
///
/// # Safety
/// `F` is the type of the function of that name. The function is called only while the library is loaded.
unsafe fn function<F: Copy>(library: &Library, name: &str) -> Result<F, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<F>(name) };
    found.map(|symbol| *symbol).map_err(|_| name.to_owned())
}
