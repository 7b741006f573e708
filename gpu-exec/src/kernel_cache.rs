//! Kernels' texts to loaded modules, each compiled once: kept in memory for the session and in a folder for the next. What the text
//! says is [`codegen`](crate::codegen)'s business.
//!
//! A file of the folder is named by the hash of everything its machine code depends on, and holds a hash of itself; it is written
//! elsewhere and renamed, so that it is there whole or not at all, and one that is not what it should be is compiled again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use grampus_io_stack::cuda::{self, CudaError, Device, Module};
use sha2::{Digest, Sha256};

use crate::abi::paging::{PLACE_PAGES, PUBLISH_PAGES};
use crate::codegen::{BLOCK_THREADS, ENTRY, QueryKernel, slow_path};
use crate::decode;

/// Modules kept in memory: some hundred KiB each on the device.
const MAX_MODULES: usize = 256;
/// Start of a file; the number changes with its layout.
const MAGIC: &[u8; 8] = b"GRAMPUS1";
const HASH_BYTES: usize = 32;
/// What the first of several units that are compiled at once is ahead of the others: NVRTC 13.0 reads one text at a time, a fifth of
/// its work, and whoever comes later waits.
const HEAD_START: Duration = Duration::from_millis(1);

/// Where a module came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It was loaded already.
    Memory,
    /// Its machine code was in the folder.
    Folder,
    /// It was compiled.
    Compiler,
}

/// A module, and what it took to get it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// With the kernel [`ENTRY`].
    pub module: Arc<Module>,
    /// Where it came from.
    pub origin: Origin,
    /// How long that took.
    pub took: Duration,
}

/// What is kept in memory: for each query's text, or a kernel's name, a module and when it was last asked for.
#[derive(Debug, Default)]
struct ModuleCache {
    modules: HashMap<String, (Arc<Module>, u64)>,
    asked: u64,
}

/// Modules of one device.
#[derive(Debug)]
pub struct KernelCache {
    device: Device,
    /// What machine code depends on beside the text.
    setting: String,
    folder: Option<PathBuf>,
    kept: Mutex<ModuleCache>,
    /// For kernels without and with columns that come by commands.
    slow_paths: [OnceLock<Arc<Vec<u8>>>; 2],
}

impl KernelCache {
    /// For a device; machine code is kept in the folder, if there is one.
    ///
    /// # Errors
    /// The device's compiler is missing.
    pub fn new(device: &Device, folder: Option<PathBuf>) -> Result<Self, CudaError> {
        let compiler = if device.is_host() {
            let (name, version) = cuda::host_compiler()?;
            format!("{name} {version}")
        } else {
            format!("NVRTC {:?}, sm {:?}", cuda::compiler_version()?, device.compute())
        };
        Ok(Self {
            setting: format!(
                "{compiler}, driver {:?}, grampus {}",
                device.version(),
                env!("CARGO_PKG_VERSION")
            ),
            device: device.clone(),
            folder,
            kept: Mutex::default(),
            slow_paths: [OnceLock::new(), OnceLock::new()],
        })
    }

    /// The kernel's module.
    ///
    /// # Errors
    /// The compiler's, or the driver's when it loads. That the folder cannot be read or written is only logged.
    pub fn get(&self, kernel: &QueryKernel) -> Result<Loaded, CudaError> {
        let began = Instant::now();
        let loaded = |module, origin| Loaded {
            module,
            origin,
            took: began.elapsed(),
        };
        // In one process kernels differ by their own text alone: the headers need not be looked at for every query.
        if let Some(module) = self.kept_module(kernel.source()) {
            return Ok(loaded(module, Origin::Memory));
        }
        let own = kernel.source().to_owned();
        let units = self.units_of(kernel);
        let compile = || match self.device.is_host() {
            true => Ok(cuda::compile_for(&self.device, &units[0], ENTRY)?.cubin),
            false => self.linked(kernel, &units),
        };
        let (module, origin) = self.of_units(own, &units, compile)?;
        Ok(loaded(module, origin))
    }

    /// The kernel's module, ready to be launched, if it need not be compiled. Before anything is on its way to the device: loading
    /// waits for that, and holds it up.
    ///
    /// # Errors
    /// The driver's.
    pub(crate) fn ready(&self, kernel: &QueryKernel) -> Result<Option<Loaded>, CudaError> {
        let began = Instant::now();
        let (module, origin) = match self.kept_module(kernel.source()) {
            Some(module) => (module, Origin::Memory),
            None => match self.in_folder(kernel.source(), &self.key(&self.units_of(kernel))) {
                Some(module) => (module, Origin::Folder),
                None => return Ok(None),
            },
        };
        if origin != Origin::Memory {
            // The driver loads a function when it is first asked for more than its name.
            let pages = [PLACE_PAGES, PUBLISH_PAGES];
            for name in [ENTRY].iter().chain(pages.iter().filter(|_| kernel.is_paged())) {
                module.kernel(name)?.blocks_that_fit(BLOCK_THREADS)?;
            }
        }
        Ok(Some(Loaded {
            module,
            origin,
            took: began.elapsed(),
        }))
    }

    /// A module from the folder, kept in memory under a name of its own.
    fn in_folder(&self, name: &str, key: &str) -> Option<Arc<Module>> {
        match Module::load(&self.device, &self.read(key)?) {
            Ok(module) => Some(self.keep(name.to_owned(), module)),
            Err(e) => {
                log::warn!("a kept kernel cannot be loaded, and is compiled again: {e}");
                None
            }
        }
    }

    /// What no query changes takes longer than a kernel: on a GPU it is compiled once, and linked.
    fn units_of(&self, kernel: &QueryKernel) -> Vec<String> {
        match self.device.is_host() {
            true => vec![kernel.translation_unit()],
            false => kernel.units_to_link(),
        }
    }

    /// The decoding kernel's module: with the kernel [`decode::ENTRY`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn decoding(&self) -> Result<Loaded, CudaError> {
        let began = Instant::now();
        let (module, origin) = match self.kept_module(decode::ENTRY) {
            Some(module) => (module, Origin::Memory),
            None => {
                let unit = decode::translation_unit();
                let compile = || Ok(cuda::compile_for(&self.device, &unit, decode::ENTRY)?.cubin);
                self.of_units(decode::ENTRY.to_owned(), std::slice::from_ref(&unit), compile)?
            }
        };
        Ok(Loaded {
            module,
            origin,
            took: began.elapsed(),
        })
    }

    /// The module of these units from the folder, or compiled; kept in memory under a name of its own.
    fn of_units(
        &self,
        name: String,
        units: &[String],
        compile: impl Fn() -> Result<Vec<u8>, CudaError>,
    ) -> Result<(Arc<Module>, Origin), CudaError> {
        let key = self.key(units);
        if let Some(module) = self.in_folder(&name, &key) {
            return Ok((module, Origin::Folder));
        }
        let code = compile()?;
        let module = Module::load(&self.device, &code)?;
        self.write(&key, &code);
        Ok((self.keep(name, module), Origin::Compiler))
    }

    /// Machine code of units that need the slow path. The driver links, and may be older than the compiler: then the kernel is compiled
    /// whole, which only takes longer.
    fn linked(&self, kernel: &QueryKernel, units: &[String]) -> Result<Vec<u8>, CudaError> {
        let compile = |unit: &String| cuda::compile_kernels(unit, ENTRY, self.device.compute());
        // All at once, the slow path too where it has to be compiled. One of the units by this thread.
        let (slow_path, first, others) = std::thread::scope(|scope| {
            let slow_path = scope.spawn(|| self.slow_path(kernel.is_queued()));
            let others: Vec<_> = units[1..]
                .iter()
                .map(|unit| {
                    scope.spawn(move || {
                        std::thread::sleep(HEAD_START);
                        compile(unit)
                    })
                })
                .collect();
            let first = compile(&units[0]);
            let others: Vec<_> = others.into_iter().map(joined).collect();
            (joined(slow_path), first, others)
        });
        let slow_path = slow_path?;
        let own = std::iter::once(first).chain(others);
        let own = own.map(|unit| Ok(unit?.cubin)).collect::<Result<Vec<_>, CudaError>>()?;
        let own = own.iter().map(|code| (ENTRY, &code[..]));
        let all: Vec<_> = own.chain([("slow path", &slow_path[..])]).collect();
        match cuda::link(&self.device, &all) {
            Ok(code) => Ok(code),
            Err(e) => {
                log::warn!("a kernel cannot be linked, and is compiled whole: {e}");
                Ok(cuda::compile_for(&self.device, &kernel.translation_unit(), ENTRY)?.cubin)
            }
        }
    }

    /// The slow path's relocatable code: from memory, from the folder, or compiled. Two threads may compile it at once; no harm.
    fn slow_path(&self, queued: bool) -> Result<Arc<Vec<u8>>, CudaError> {
        let kept = &self.slow_paths[usize::from(queued)];
        if let Some(code) = kept.get() {
            return Ok(code.clone());
        }
        // The setting has the version, but while that is being worked on the text changes under it.
        let text = slow_path(queued);
        let key = self.key(std::slice::from_ref(&text));
        let code = match self.read(&key) {
            Some(code) => code,
            None => {
                let code = cuda::compile_kernels(&text, "slow path", self.device.compute())?.cubin;
                self.write(&key, &code);
                code
            }
        };
        Ok(kept.get_or_init(|| Arc::new(code)).clone())
    }

    /// What these units' machine code is known by.
    fn key(&self, units: &[String]) -> String {
        let units = units.iter().map(|unit| unit.as_bytes());
        let parts: Vec<&[u8]> = std::iter::once(self.setting.as_bytes()).chain(units).collect();
        hex(&hash(&parts))
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|f| f.join(format!("{key}.kernel")))
    }

    fn read(&self, key: &str) -> Option<Vec<u8>> {
        self.path(key).as_deref().and_then(read)
    }

    fn write(&self, key: &str, code: &[u8]) {
        if let Some(path) = self.path(key)
            && let Err(e) = write(&path, code)
        {
            log::warn!("{}: a kernel is not kept: {e}", path.display());
        }
    }

    fn kept(&self) -> MutexGuard<'_, ModuleCache> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kept_module(&self, text: &str) -> Option<Arc<Module>> {
        let mut kept = self.kept();
        kept.asked += 1;
        let now = kept.asked;
        let (module, last) = kept.modules.get_mut(text)?;
        *last = now;
        Some(module.clone())
    }

    /// Keeps a module, in place of the one that nobody asked for the longest if there are too many.
    fn keep(&self, text: String, module: Module) -> Arc<Module> {
        let module = Arc::new(module);
        let mut kept = self.kept();
        kept.asked += 1;
        let now = kept.asked;
        if kept.modules.len() >= MAX_MODULES {
            let oldest = kept.modules.iter().min_by_key(|(_, (_, last))| *last);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                kept.modules.remove(&oldest);
            }
        }
        kept.modules.insert(text, (module.clone(), now));
        module
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn hash(parts: &[&[u8]]) -> [u8; HASH_BYTES] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// A file's machine code, if it is there and whole.
fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) => {
            if e.kind() != std::io::ErrorKind::NotFound {
                log::warn!("{}: {e}", path.display());
            }
            return None;
        }
    };
    let head = MAGIC.len() + HASH_BYTES;
    let whole =
        bytes.len() > head && bytes.starts_with(MAGIC) && bytes[MAGIC.len()..head] == hash(&[&bytes[head..]])[..];
    if !whole {
        log::warn!(
            "{}: not a kernel as it was written; it is compiled again",
            path.display()
        );
        return None;
    }
    Some(bytes.split_off(head))
}

/// Writes a file in one step.
fn write(path: &Path, code: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(MAGIC)?;
    file.write_all(&hash(&[code]))?;
    file.write_all(code)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_only_if_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/a.kernel");
        assert_eq!(read(&path), None);
        write(&path, b"machine code").unwrap();
        assert_eq!(read(&path).as_deref(), Some(&b"machine code"[..]));
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(read(&path), None, "byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert_eq!(read(&path), None, "cut at {at}");
        }
    }
}
