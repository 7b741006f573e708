//! A stand-in for nvCOMP 5 whose functions decompress in memory of the CPU, at once. Tests load it as a library.
//!
//! The stand-in misbehaves at chunks that decompress to text beginning with one of [`Fault`]'s marks. So a test chooses
//! which chunk fails, and how.

use std::ffi::{c_int, c_void};
use std::path::PathBuf;

/// The library's file: cargo puts it beside the test programs.
///
/// # Panics
/// If the test program has no path.
pub fn file() -> PathBuf {
    use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
    let program = std::env::current_exe().expect("a program has a path");
    program.with_file_name(format!("{DLL_PREFIX}grampus_host_nvcomp{DLL_SUFFIX}"))
}

/// Misbehaviour at a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The bytes are right, and the status is not 0.
    Status,
    /// The status is 0, and a byte is missing.
    Length,
    /// Neither status nor length is written.
    Forgotten,
    /// The call returns an error, and no chunk is decompressed.
    Refusal,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Status, Self::Length, Self::Forgotten, Self::Refusal];

    /// The first bytes of a chunk at which the stand-in misbehaves so.
    pub fn mark(self) -> &'static [u8] {
        match self {
            Self::Status => b"<stand-in: status>",
            Self::Length => b"<stand-in: length>",
            Self::Forgotten => b"<stand-in: forgotten>",
            Self::Refusal => b"<stand-in: refusal>",
        }
    }
}

const SUCCESS: c_int = 0;
const INVALID_VALUE: c_int = 10;
const CANNOT_DECOMPRESS: c_int = 12;
const ALIGNMENT: c_int = 17;

/// The symbol by which this library differs from NVIDIA's.
#[unsafe(no_mangle)]
pub static grampus_nvcomp_on_host_threads: u8 = 1;

/// `nvcompProperties_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Properties {
    version: u32,
    cudart_version: u32,
}

/// `nvcompBatched…DecompressOpts_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Options {
    backend: c_int,
    reserved: [u8; 60],
}

/// As nvCOMP's function of this name.
///
/// # Safety
/// `properties` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nvcompGetProperties(properties: *mut Properties) -> c_int {
    let own = Properties {
        version: 5300,
        cudart_version: 13000,
    };
    // SAFETY: the caller's promise.
    unsafe { properties.write(own) };
    SUCCESS
}

/// Arrays of a batch, as the functions get them.
struct Batch {
    inputs: *const *const c_void,
    input_bytes: *const usize,
    spaces: *const usize,
    output_bytes: *mut usize,
    chunks: usize,
    scratch: *mut c_void,
    scratch_bytes: usize,
    outputs: *const *mut c_void,
    options: Options,
    statuses: *mut c_int,
}

type Decompressor = fn(&[u8], usize) -> Option<Vec<u8>>;

impl Batch {
    /// # Safety
    /// The arrays have an entry for each chunk, and the addresses in them are valid.
    unsafe fn decompress(&self, decompressor: Decompressor) -> c_int {
        if self.options.backend != 2 || self.options.reserved != [0; 60] {
            return INVALID_VALUE;
        }
        // SAFETY: the caller's promise. Any byte may be lost there.
        unsafe { self.scratch.cast::<u8>().write_bytes(0xEE, self.scratch_bytes) };
        let mut found = Vec::with_capacity(self.chunks);
        for at in 0..self.chunks {
            // SAFETY: the caller's promise.
            let (input, length, space, output) = unsafe {
                (
                    self.inputs.add(at).read(),
                    self.input_bytes.add(at).read(),
                    self.spaces.add(at).read(),
                    self.outputs.add(at).read(),
                )
            };
            if !(input as usize).is_multiple_of(8) || !(output as usize).is_multiple_of(8) {
                return ALIGNMENT;
            }
            // SAFETY: the caller's promise.
            let stored = unsafe { std::slice::from_raw_parts(input.cast::<u8>(), length) };
            let bytes = decompressor(stored, space);
            let fault = bytes
                .as_ref()
                .and_then(|bytes| Fault::ALL.into_iter().find(|fault| bytes.starts_with(fault.mark())));
            if fault == Some(Fault::Refusal) {
                return INVALID_VALUE;
            }
            found.push((bytes, output.cast::<u8>(), fault));
        }
        for (at, (bytes, output, fault)) in found.into_iter().enumerate() {
            if let Some(bytes) = &bytes {
                // SAFETY: the caller's promise; a decompressor returns no more bytes than there is space for.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), output, bytes.len()) };
            }
            let (status, length) = match (bytes, fault) {
                (_, Some(Fault::Forgotten)) => continue,
                (None, _) => (CANNOT_DECOMPRESS, 0),
                (Some(bytes), Some(Fault::Status)) => (CANNOT_DECOMPRESS, bytes.len()),
                (Some(bytes), Some(Fault::Length)) => (SUCCESS, bytes.len() - 1),
                (Some(bytes), _) => (SUCCESS, bytes.len()),
            };
            // SAFETY: the caller's promise.
            unsafe {
                self.statuses.add(at).write(status);
                self.output_bytes.add(at).write(length);
            }
        }
        SUCCESS
    }
}

fn unsnappy(stored: &[u8], space: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; space];
    let length = snap::raw::Decoder::new().decompress(stored, &mut out).ok()?;
    out.truncate(length);
    Some(out)
}

fn unlz4(stored: &[u8], space: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; space];
    let length = lz4_flex::block::decompress_into(stored, &mut out).ok()?;
    out.truncate(length);
    Some(out)
}

fn unzstd(stored: &[u8], space: usize) -> Option<Vec<u8>> {
    zstd::bulk::decompress(stored, space).ok()
}

fn inflate(stored: &[u8], space: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; space];
    let mut decompressor = libdeflater::Decompressor::new();
    let length = decompressor.deflate_decompress(stored, &mut out).ok()?;
    out.truncate(length);
    Some(out)
}

/// Defines the functions of a codec.
macro_rules! codec {
    ($temp_size:ident, $decompress:ident, $decompressor:ident, $scratch_bytes:expr) => {
        /// As nvCOMP's function of this name.
        ///
        /// # Safety
        /// `temp_bytes` is writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $temp_size(
            chunks: usize,
            max_bytes: usize,
            _options: Options,
            temp_bytes: *mut usize,
            _total: usize,
        ) -> c_int {
            let scratch_bytes: fn(usize) -> usize = $scratch_bytes;
            // SAFETY: the caller's promise.
            unsafe { temp_bytes.write(chunks * scratch_bytes(max_bytes)) };
            SUCCESS
        }

        /// As nvCOMP's function of this name, for memory of the CPU.
        ///
        /// # Safety
        /// The arrays have an entry for each chunk, and the addresses in them are valid.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $decompress(
            inputs: *const *const c_void,
            input_bytes: *const usize,
            spaces: *const usize,
            output_bytes: *mut usize,
            chunks: usize,
            scratch: *mut c_void,
            scratch_bytes: usize,
            outputs: *const *mut c_void,
            options: Options,
            statuses: *mut c_int,
            _stream: *mut c_void,
        ) -> c_int {
            let batch = Batch {
                inputs,
                input_bytes,
                spaces,
                output_bytes,
                chunks,
                scratch,
                scratch_bytes,
                outputs,
                options,
                statuses,
            };
            // SAFETY: the caller's promise.
            unsafe { batch.decompress($decompressor) }
        }
    };
}

codec!(
    nvcompBatchedSnappyDecompressGetTempSizeAsync,
    nvcompBatchedSnappyDecompressAsync,
    unsnappy,
    |_| 0
);
codec!(
    nvcompBatchedLZ4DecompressGetTempSizeAsync,
    nvcompBatchedLZ4DecompressAsync,
    unlz4,
    |_| 0
);
codec!(
    nvcompBatchedZstdDecompressGetTempSizeAsync,
    nvcompBatchedZstdDecompressAsync,
    unzstd,
    |max_bytes| 7_000 + 3 * max_bytes
);
codec!(
    nvcompBatchedDeflateDecompressGetTempSizeAsync,
    nvcompBatchedDeflateDecompressAsync,
    inflate,
    |_| 0
);
