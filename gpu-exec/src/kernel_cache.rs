//! `KernelCache`: compiled kernels by source, kept in memory for the process and in a folder for later ones.
//!
//! A kernel is linked with the slow path, which is compiled once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use grampus_cuda::{self as cuda, CudaError, Device, Module};

use crate::abi::paging::{PLACE_PAGES, PUBLISH_PAGES};
use crate::code_folder::CodeFolder;
use crate::codegen::{BLOCK_THREADS, ENTRY, QueryKernel, slow_path};
use crate::decompress::ChunkKernel;
use crate::{decode, decompress};

/// Modules kept in memory. Each takes some hundred KiB on the device.
const MAX_MODULES: usize = 256;
/// Delay of all units but the first, when several are compiled at once.
///
/// NVRTC 13.0 parses one source at a time, a fifth of its work, and the other units wait for that.
const HEAD_START: Duration = Duration::from_millis(1);

/// Origins of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Already loaded.
    Memory,
    /// Machine code from the folder.
    Folder,
    /// Compiled now.
    Compiler,
}

/// A module, with its origin and the time it took.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The module, with the kernel [`ENTRY`].
    pub module: Arc<Module>,
    /// Origin of the module.
    pub origin: Origin,
    /// Time from the request to the loaded module.
    pub took: Duration,
}

/// Modules in memory, each with the number of its last lookup. The key is a query kernel's source or another kernel's
/// name.
#[derive(Debug, Default)]
struct ModuleCache {
    modules: HashMap<String, (Arc<Module>, u64)>,
    lookups: u64,
}

/// Modules of one device.
#[derive(Debug)]
pub struct KernelCache {
    device: Device,
    folder: CodeFolder,
    cache: Mutex<ModuleCache>,
    /// Slow paths for kernels without and with queued columns, and their keys.
    slow_paths: [OnceLock<Arc<Vec<u8>>>; 2],
    slow_keys: [OnceLock<String>; 2],
}

impl KernelCache {
    /// A cache for a device. Machine code is kept in `folder`, if there is one.
    ///
    /// # Errors
    /// The device's compiler is missing.
    pub fn new(device: &Device, folder: Option<PathBuf>) -> Result<Self, CudaError> {
        Ok(Self {
            folder: CodeFolder::new(device, folder)?,
            device: device.clone(),
            cache: Mutex::default(),
            slow_paths: [OnceLock::new(), OnceLock::new()],
            slow_keys: [OnceLock::new(), OnceLock::new()],
        })
    }

    /// The kernel's module, from memory, from the folder, or compiled.
    ///
    /// # Errors
    /// The compiler's error, or the driver's at loading. A folder that cannot be read or written is only logged.
    pub fn get(&self, kernel: &QueryKernel) -> Result<Loaded, CudaError> {
        let began = Instant::now();
        let loaded = |module, origin| Loaded {
            module,
            origin,
            took: began.elapsed(),
        };
        // In one process kernels differ by their own source alone, so the lookup leaves the headers out.
        if let Some(module) = self.cached_module(kernel.source()) {
            return Ok(loaded(module, Origin::Memory));
        }
        let own = kernel.source().to_owned();
        let units = self.units(kernel);
        let key = self.kernel_key(kernel, &units);
        let compile = || match self.device.is_host() {
            true => self.compile_and_link_on_host(kernel, &units[0]),
            false => self.compile_and_link(kernel, &units),
        };
        let (module, origin) = self.load_or_compile(own, &key, compile)?;
        Ok(loaded(module, origin))
    }

    /// The kernel's module, ready to be launched, unless it has to be compiled.
    ///
    /// Call this before any copy is enqueued: loading a module waits for copies in flight, and delays them.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn ready(&self, kernel: &QueryKernel) -> Result<Option<Loaded>, CudaError> {
        let began = Instant::now();
        let (module, origin) = match self.cached_module(kernel.source()) {
            Some(module) => (module, Origin::Memory),
            None => match self.load_from_folder(kernel.source(), &self.kernel_key(kernel, &self.units(kernel)))? {
                Some(module) => (module, Origin::Folder),
                None => return Ok(None),
            },
        };
        if origin != Origin::Memory {
            // The driver loads a function lazily, at the first query of more than its name.
            let pages = [PLACE_PAGES, PUBLISH_PAGES];
            for name in [ENTRY].iter().chain(pages.iter().filter(|_| kernel.is_paged())) {
                module.kernel(name)?.blocks_that_fit(BLOCK_THREADS, 0)?;
            }
        }
        Ok(Some(Loaded {
            module,
            origin,
            took: began.elapsed(),
        }))
    }

    /// Whether the kernel's machine code is in memory or in the folder.
    pub(crate) fn is_compiled(&self, kernel: &QueryKernel) -> bool {
        let in_memory = self.lock_cache().modules.contains_key(kernel.source());
        let in_folder = || self.folder.contains(&self.kernel_key(kernel, &self.units(kernel)));
        in_memory || in_folder()
    }

    /// A module from the folder, cached in memory under `name`. `None`: it is to be compiled.
    ///
    /// # Errors
    /// The device has too little memory, which a compiled one would need too.
    fn load_from_folder(&self, name: &str, key: &str) -> Result<Option<Arc<Module>>, CudaError> {
        let Some(code) = self.folder.read(key) else {
            return Ok(None);
        };
        match Module::load(&self.device, &code) {
            Ok(module) => Ok(Some(self.insert(name.to_owned(), module))),
            Err(e) if e.is_out_of_memory() => Err(e),
            Err(e) => {
                log::warn!("a kept kernel cannot be loaded, and is compiled again: {e}");
                Ok(None)
            }
        }
    }

    /// Translation units of a kernel. The code that no query changes, which takes longer to compile than a kernel, is
    /// compiled once and linked.
    fn units(&self, kernel: &QueryKernel) -> Vec<String> {
        match self.device.is_host() {
            true => vec![kernel.unit_to_link()],
            false => kernel.units_to_link(),
        }
    }

    /// The decoding kernel's module, with the kernel [`decode::ENTRY`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn decoding(&self) -> Result<Loaded, CudaError> {
        self.constant_kernel(decode::ENTRY, decode::translation_unit)
    }

    /// The module of a decompression kernel.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn decompressing(&self, kernel: ChunkKernel) -> Result<Loaded, CudaError> {
        self.constant_kernel(kernel.entry(), || kernel.translation_unit())
    }

    /// The module of the kernels around nvCOMP, [`decompress::library::PREPARE`] and [`decompress::library::TAKE`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn around_library(&self) -> Result<Loaded, CudaError> {
        self.constant_kernel(decompress::library::PREPARE, decompress::library_translation_unit)
    }

    /// The module of a kernel that no query changes.
    fn constant_kernel(&self, entry: &str, unit: impl Fn() -> String) -> Result<Loaded, CudaError> {
        let began = Instant::now();
        let (module, origin) = match self.cached_module(entry) {
            Some(module) => (module, Origin::Memory),
            None => {
                let unit = unit();
                let compile = || Ok(cuda::compile_for(&self.device, &unit, entry)?.cubin);
                self.load_or_compile(entry.to_owned(), &self.folder.key(&[&unit]), compile)?
            }
        };
        Ok(Loaded {
            module,
            origin,
            took: began.elapsed(),
        })
    }

    /// The module of a key from the folder, or compiled. It is cached in memory under `name`.
    fn load_or_compile(
        &self,
        name: String,
        key: &str,
        compile: impl Fn() -> Result<Vec<u8>, CudaError>,
    ) -> Result<(Arc<Module>, Origin), CudaError> {
        if let Some(module) = self.load_from_folder(&name, key)? {
            return Ok((module, Origin::Folder));
        }
        let code = compile()?;
        let module = Module::load(&self.device, &code)?;
        self.folder.write(key, &code);
        Ok((self.insert(name, module), Origin::Compiler))
    }

    /// Machine code of units, linked with the slow path. The driver links, and may be older than the compiler. If
    /// linking fails, the kernel is compiled as one unit, which only takes longer.
    fn compile_and_link(&self, kernel: &QueryKernel, units: &[String]) -> Result<Vec<u8>, CudaError> {
        let compile = |unit: &String| cuda::compile_kernels(unit, ENTRY, self.device.compute());
        // All units are compiled at once, and so is the slow path if it is missing. This thread compiles the first
        // unit.
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

    /// As [`compile_and_link`](Self::compile_and_link), for host threads. Some compilers leave a function out.
    fn compile_and_link_on_host(&self, kernel: &QueryKernel, unit: &str) -> Result<Vec<u8>, CudaError> {
        let (lanes, slow_path) = (self.device.host_lanes(), self.slow_path(kernel.is_queued())?);
        match cuda::compile_host_with(&lanes.linked_unit(unit), ENTRY, &slow_path) {
            Ok(compiled) => Ok(compiled.cubin),
            Err(e) => {
                log::warn!("a kernel cannot be linked, and is compiled whole: {e}");
                Ok(cuda::compile_for(&self.device, &kernel.translation_unit(), ENTRY)?.cubin)
            }
        }
    }

    /// The slow path's relocatable code, from memory, from the folder, or compiled. Two threads may compile it at once,
    /// which does no harm.
    fn slow_path(&self, queued: bool) -> Result<Arc<Vec<u8>>, CudaError> {
        let cached = &self.slow_paths[usize::from(queued)];
        if let Some(code) = cached.get() {
            return Ok(code.clone());
        }
        let text = slow_path(queued);
        let code = self.folder.get_or_compile(&[self.slow_unit_kind(), &text], || {
            if self.device.is_host() {
                return cuda::compile_host_unit(&self.device.host_lanes().unit(&text), "slow_path");
            }
            Ok(cuda::compile_kernels(&text, "slow path", self.device.compute())?.cubin)
        })?;
        Ok(cached.get_or_init(|| Arc::new(code)).clone())
    }

    /// Key of a kernel's linked machine code. Every unit's text is part of it: during development they change while the
    /// version stays.
    fn kernel_key(&self, kernel: &QueryKernel, units: &[String]) -> String {
        let queued = kernel.is_queued();
        let slow_path = self.slow_keys[usize::from(queued)]
            .get_or_init(|| self.folder.key(&[self.slow_unit_kind(), &slow_path(queued)]));
        let parts = [slow_path.as_str()].into_iter().chain(units.iter().map(String::as_str));
        self.folder.key(&parts.collect::<Vec<_>>())
    }

    /// How the slow path is compiled.
    fn slow_unit_kind(&self) -> &'static str {
        if self.device.is_host() { "unit" } else { "relocatable" }
    }

    fn lock_cache(&self) -> MutexGuard<'_, ModuleCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cached_module(&self, text: &str) -> Option<Arc<Module>> {
        let mut cache = self.lock_cache();
        cache.lookups += 1;
        let now = cache.lookups;
        let (module, last) = cache.modules.get_mut(text)?;
        *last = now;
        Some(module.clone())
    }

    /// Caches a module. If the cache is full, the module that was not asked for longest is dropped.
    fn insert(&self, text: String, module: Module) -> Arc<Module> {
        let module = Arc::new(module);
        let mut cache = self.lock_cache();
        cache.lookups += 1;
        let now = cache.lookups;
        if cache.modules.len() >= MAX_MODULES {
            let oldest = cache.modules.iter().min_by_key(|(_, (_, last))| *last);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                cache.modules.remove(&oldest);
            }
        }
        cache.modules.insert(text, (module.clone(), now));
        module
    }
}

fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
