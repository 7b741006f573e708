//! `Nvcomp`: NVIDIA's library of decompressors, if the user has installed it.
//!
//! The library is loaded when it is first needed, and stays loaded. It is searched in this order:
//!
//! 1. the file that the caller names;
//! 2. the file that the environment variable `GRAMPUS_NVCOMP` names;
//! 3. `libnvcomp.so.5`, where the system's loader finds it.
//!
//! **Invariant:** a library of another major version is not called beyond the question for its version.

use std::collections::HashMap;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use libloading::Library;

use crate::device::Device;
use crate::device_buffer::DeviceBuffer;
use crate::error::CudaError;
use crate::nvcomp_functions::{DecompressOptions, NvcompCodec, NvcompFunctions, Properties, SUCCESS};
use crate::stream::Stream;

/// The environment variable that names the library's file.
const VARIABLE: &str = "GRAMPUS_NVCOMP";
/// The library's name for the loader.
const FILE: &str = "libnvcomp.so.5";
/// The major version whose functions are declared.
const MAJOR: u32 = 5;

/// A loaded library.
#[derive(Debug)]
pub struct Nvcomp {
    functions: NvcompFunctions,
    version: (u32, u32, u32),
    file: PathBuf,
    /// A device failed while the library was in use.
    is_suspect: AtomicBool,
    /// The bits of codecs that were called.
    was_called: AtomicU8,
}

/// A batch of chunks of one codec. The arrays lie in `memory`, at these offsets, and have an entry for each chunk.
#[derive(Debug, Clone, Copy)]
pub struct NvcompBatch<'a> {
    /// Codec of all chunks.
    pub codec: NvcompCodec,
    /// Number of chunks.
    pub chunks: usize,
    /// Memory with the arrays and the scratch memory.
    pub memory: &'a DeviceBuffer,
    /// Addresses of the stored bytes.
    pub inputs: usize,
    /// Numbers of stored bytes, as 64-bit integers.
    pub input_bytes: usize,
    /// Space at the outputs, in bytes, as 64-bit integers.
    pub spaces: usize,
    /// Receives the bytes that came out, as 64-bit integers.
    pub output_bytes: usize,
    /// Addresses of the outputs.
    pub outputs: usize,
    /// Receives 0 for each chunk that was decompressed, as 32-bit integers.
    pub statuses: usize,
    /// Scratch memory, and its length.
    pub scratch: (usize, usize),
}

/// Outcomes of loading, by file; `None`: the file that the environment or the loader gives.
type Loaded = HashMap<Option<PathBuf>, Result<Arc<Nvcomp>, CudaError>>;

impl Nvcomp {
    /// The library, from `file` if that is given. The first call loads it, or finds out why not; later calls repeat the
    /// outcome.
    ///
    /// # Errors
    /// [`CudaError::NoNvcomp`]: the library is missing, has another major version, or lacks a function; or a device
    /// has failed while the library was in use.
    pub fn load(file: Option<&Path>) -> Result<Arc<Self>, CudaError> {
        static LOADED: LazyLock<Mutex<Loaded>> = LazyLock::new(Mutex::default);
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = loaded.entry(file.map(Path::to_owned)).or_insert_with(|| open(file));
        let library = outcome.clone()?;
        match library.is_suspect() {
            true => Err(CudaError::NoNvcomp(
                "the device has failed while nvCOMP was in use".to_owned(),
            )),
            false => Ok(library),
        }
    }

    /// Major, minor and patch version.
    pub fn version(&self) -> (u32, u32, u32) {
        self.version
    }

    /// The version, as text.
    pub fn version_text(&self) -> String {
        let (major, minor, patch) = self.version;
        format!("{major}.{minor}.{patch}")
    }

    /// The library's file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether the library decompresses in this device's memory: a stand-in for tests works on host threads alone.
    pub fn is_for(&self, device: &Device) -> bool {
        self.functions.is_on_host == device.is_host()
    }

    /// Whether the library is for host threads: a stand-in for tests.
    pub fn is_on_host(&self) -> bool {
        self.functions.is_on_host
    }

    /// Notes that a device failed while the library was in use. From then on the process loads it no more.
    pub fn suspect(&self) {
        self.is_suspect.store(true, Ordering::Relaxed);
    }

    /// Whether a device failed while the library was in use.
    pub fn is_suspect(&self) -> bool {
        self.is_suspect.load(Ordering::Relaxed)
    }

    /// Bytes of scratch memory for a batch of `chunks` chunks, each of at most `max_bytes` decompressed bytes.
    ///
    /// # Errors
    /// The library's.
    pub fn scratch_bytes(&self, codec: NvcompCodec, chunks: usize, max_bytes: usize) -> Result<usize, CudaError> {
        let mut bytes = 0;
        let total = chunks.saturating_mul(max_bytes);
        // SAFETY: `bytes` is writable; the function uses no device.
        let answer = unsafe {
            (self.functions.codec(codec).temp_size)(chunks, max_bytes, DecompressOptions::KERNELS, &mut bytes, total)
        };
        refuse("nvcompBatched…DecompressGetTempSizeAsync", answer)?;
        Ok(bytes)
    }

    /// Decompresses a batch, in the stream's order. The caller ensures that the addresses in the arrays are valid when
    /// the stream comes to the batch, and that the memory lives until then. Inputs and outputs are aligned to 8 bytes.
    ///
    /// # Errors
    /// The library's. Chunks that cannot be decompressed have their statuses.
    pub fn decompress(&self, stream: &Stream, batch: &NvcompBatch<'_>) -> Result<(), CudaError> {
        if !self.is_for(&stream.device) {
            return Err(CudaError::NoNvcomp(format!(
                "{} is not for this device",
                self.file.display()
            )));
        }
        let place = |offset: usize, bytes: usize| {
            let end = offset.checked_add(bytes).filter(|end| *end <= batch.memory.len());
            end.map(|_| batch.memory.address() + offset as u64)
                .ok_or_else(|| CudaError::Arguments {
                    kernel: "nvCOMP".to_owned(),
                    reason: format!("{bytes} bytes at {offset} of a buffer of {}", batch.memory.len()),
                })
        };
        let words = batch.chunks.saturating_mul(8);
        let (inputs, input_bytes) = (place(batch.inputs, words)?, place(batch.input_bytes, words)?);
        let (spaces, output_bytes) = (place(batch.spaces, words)?, place(batch.output_bytes, words)?);
        let (outputs, statuses) = (place(batch.outputs, words)?, place(batch.statuses, words / 2)?);
        let scratch = place(batch.scratch.0, batch.scratch.1)?;
        if stream.device.is_host() {
            stream.wait_on_host();
        } else {
            stream.device.bind()?;
        }
        let decompress = || {
            // SAFETY: the arrays and the scratch memory are inside live memory, by the checks. As at a launch, the
            // caller ensures that the addresses in the arrays are valid.
            unsafe {
                (self.functions.codec(batch.codec).decompress)(
                    inputs as *const _,
                    input_bytes as *const _,
                    spaces as *const _,
                    output_bytes as *mut _,
                    batch.chunks,
                    scratch as *mut _,
                    batch.scratch.1,
                    outputs as *const _,
                    DecompressOptions::KERNELS,
                    statuses as *mut _,
                    stream.raw.cast(),
                )
            }
        };
        // The first launches of its kernels may wait for others.
        let answer = match self.was_called.load(Ordering::Acquire) & batch.codec.bit() {
            0 => stream.device.gate().call(decompress),
            _ => decompress(),
        };
        self.was_called.fetch_or(batch.codec.bit(), Ordering::Release);
        refuse("nvcompBatched…DecompressAsync", answer)
    }
}

fn refuse(call: &'static str, answer: c_int) -> Result<(), CudaError> {
    if answer == SUCCESS {
        return Ok(());
    }
    Err(CudaError::Nvcomp { call, status: answer })
}

/// Loads the library and checks it.
fn open(file: Option<&Path>) -> Result<Arc<Nvcomp>, CudaError> {
    let named = || {
        std::env::var_os(VARIABLE)
            .filter(|name| !name.is_empty())
            .map(PathBuf::from)
    };
    let name = file.map(Path::to_owned).or_else(named);
    let name = name.unwrap_or_else(|| PathBuf::from(FILE));
    let unusable = |reason: String| CudaError::NoNvcomp(format!("{}: {reason}", name.display()));
    // SAFETY: the user names the file or has installed it for the loader; its initialisers are trusted like those of
    // the driver.
    let library = unsafe { Library::new(&name) }.map_err(|e| unusable(detail(&e)))?;
    let functions = NvcompFunctions::of(library)
        .map_err(|symbol| unusable(format!("not nvCOMP {MAJOR}: it has no function {symbol}")))?;
    let mut properties = Properties::default();
    // SAFETY: `properties` is writable, and its layout is the same in all versions that have the function.
    refuse("nvcompGetProperties", unsafe {
        (functions.properties)(&mut properties)
    })
    .map_err(|e| unusable(e.to_string()))?;
    let number = properties.version;
    let version = (number / 1000, number % 1000 / 100, number % 100);
    if version.0 != MAJOR {
        let (major, minor, patch) = version;
        return Err(unusable(format!("version {major}.{minor}.{patch} instead of {MAJOR}")));
    }
    log::debug!("nvCOMP {number}, built with CUDA {}", properties.cudart_version);
    let file = file_of(functions.properties as usize).unwrap_or_else(|| name.clone());
    Ok(Arc::new(Nvcomp {
        functions,
        version,
        file,
        is_suspect: AtomicBool::new(false),
        was_called: AtomicU8::new(0),
    }))
}

/// The loader's own words, without those of the wrapper.
fn detail(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// The file that is mapped at an address.
fn file_of(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let of_line = |line: &str| {
        // "start-end rights offset device inode      path"
        let (start, rest) = line.split_once('-')?;
        let end = rest.split(' ').next()?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        let path = line.find('/').map(|at| PathBuf::from(&line[at..]))?;
        range.contains(&address).then_some(path)
    };
    maps.lines().find_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_library_is_named_with_the_reason_and_the_remedy() {
        let file = Path::new("/nowhere/libnvcomp.so.5");
        for _ in 0..2 {
            let said = Nvcomp::load(Some(file)).unwrap_err().to_string();
            assert!(said.contains("/nowhere/libnvcomp.so.5"), "{said}");
            assert!(said.contains("pip install nvidia-libnvcomp-cu13"), "{said}");
            assert!(said.contains(VARIABLE), "{said}");
        }
    }

    /// A library of C functions, compiled by the host's compiler. `None`: there is no compiler.
    fn compiled(folder: &Path, name: &str, text: &str) -> Option<PathBuf> {
        let (compiler, _) = match crate::host_compiler() {
            Ok(found) => found,
            Err(e) => {
                grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
                return None;
            }
        };
        let (source, library) = (folder.join(format!("{name}.cc")), folder.join(format!("{name}.so")));
        std::fs::write(&source, text).unwrap();
        let mut command = std::process::Command::new(compiler);
        let command = command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
        assert!(command.status().unwrap().success());
        Some(library)
    }

    /// The functions of a library, of a version, without one of them.
    fn functions(version: u32, without: &str) -> String {
        let mut names = Vec::new();
        for codec in NvcompCodec::ALL {
            for end in ["Async", "GetTempSizeAsync"] {
                names.push(format!("nvcompBatched{}Decompress{end}", codec.name()));
            }
        }
        let bodies = names.iter().filter(|name| name.as_str() != without);
        let bodies: String = bodies.map(|name| format!("int {name}() {{ return 11; }}\n")).collect();
        let properties = format!("int nvcompGetProperties(unsigned *p) {{ p[0] = {version}; return 0; }}\n");
        format!("extern \"C\" {{\n{bodies}{properties}}}\n")
    }

    #[test]
    fn version_and_functions_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let load = |name: &str, text: &str| Some(Nvcomp::load(Some(&compiled(folder.path(), name, text)?)));
        let Some(whole) = load("whole", &functions(5307, "")) else {
            return;
        };
        let whole = whole.unwrap();
        assert_eq!((whole.version(), whole.version_text().as_str()), ((5, 3, 7), "5.3.7"));
        assert!(whole.file().ends_with("whole.so"), "{whole:?}");
        assert!(!whole.is_on_host());
        let said = whole.scratch_bytes(NvcompCodec::Zstd, 1, 1).unwrap_err().to_string();
        assert!(said.contains("11"), "{said}");
        for version in [4206, 6000] {
            let old = load(&version.to_string(), &functions(version, ""))
                .unwrap()
                .unwrap_err();
            assert!(old.to_string().contains("instead of 5"), "{old}");
        }
        let name = "nvcompBatchedDeflateDecompressAsync";
        let cut = load("cut", &functions(5300, name)).unwrap().unwrap_err();
        assert!(cut.to_string().contains(name), "{cut}");
        let other = load("other", "int other() { return 0; }").unwrap().unwrap_err();
        assert!(other.to_string().contains("not nvCOMP"), "{other}");
    }

    #[test]
    fn suspected_library_is_loaded_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let Some(file) = compiled(folder.path(), "suspect", &functions(5300, "")) else {
            return;
        };
        let library = Nvcomp::load(Some(&file)).unwrap();
        library.suspect();
        let said = Nvcomp::load(Some(&file)).unwrap_err().to_string();
        assert!(said.contains("has failed"), "{said}");
    }

    #[test]
    fn library_for_a_gpu_is_not_called_on_host_threads() {
        let folder = tempfile::tempdir().unwrap();
        let Some(file) = compiled(folder.path(), "gpu", &functions(5300, "")) else {
            return;
        };
        let (library, device) = (Nvcomp::load(Some(&file)).unwrap(), Device::host(1, 1 << 20));
        let (stream, memory) = (Stream::new(&device).unwrap(), DeviceBuffer::new(&device, 64).unwrap());
        let batch = NvcompBatch {
            codec: NvcompCodec::Zstd,
            chunks: 1,
            memory: &memory,
            inputs: 0,
            input_bytes: 8,
            spaces: 16,
            output_bytes: 24,
            outputs: 32,
            statuses: 40,
            scratch: (48, 16),
        };
        let said = library.decompress(&stream, &batch).unwrap_err().to_string();
        assert!(said.contains("not for this device"), "{said}");
    }
}
