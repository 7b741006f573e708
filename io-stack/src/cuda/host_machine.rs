//! Threads of this machine in a GPU's place: its memory, its idea of "idle", and launches on threads. Compiling kernels for
//! it is host_compile.rs's business, the order of work in a stream launch.rs's.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use libloading::Library;

use super::{CudaError, DeviceFacts};

/// Alignment of what is given out: a GPU's driver aligns large pieces at least so.
const PAGE_BYTES: usize = 4096;

/// Device memory that is ordinary memory, and how much of it is given out.
#[derive(Debug)]
pub(super) struct HostMachine {
    threads: u32,
    memory_bytes: u64,
    used_bytes: AtomicU64,
    /// Launches under way, and who waits for there being none.
    running: Arc<Running>,
}

#[derive(Debug, Default)]
struct Running {
    launches: Mutex<usize>,
    changed: Condvar,
}

impl Running {
    fn launches(&self) -> MutexGuard<'_, usize> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self) {
        *self.launches() += 1;
    }

    fn remove(&self) {
        *self.launches() -= 1;
        self.changed.notify_all();
    }
}

impl HostMachine {
    pub(super) fn new(threads: u32, memory_bytes: u64) -> Self {
        Self {
            threads,
            memory_bytes,
            used_bytes: AtomicU64::new(0),
            running: Arc::default(),
        }
    }

    pub(super) fn threads(&self) -> u32 {
        self.threads
    }

    pub(super) fn facts(&self) -> DeviceFacts {
        let used = self.used_bytes.load(Ordering::Relaxed);
        DeviceFacts {
            name: format!("{} host threads", self.threads),
            compute: (0, 0),
            multiprocessors: self.threads,
            memory_bytes: self.memory_bytes,
            free_bytes: self.memory_bytes.saturating_sub(used),
            l2_bytes: 0,
            copy_engines: 0,
            pci: String::new(),
            pageable_access: true,
        }
    }

    /// Memory of the device, not initialised.
    pub(super) fn allocate(&self, len: usize) -> Result<u64, CudaError> {
        let bytes = rounded(len) as u64;
        let room = |used: u64| used.checked_add(bytes).filter(|all| *all <= self.memory_bytes);
        if self
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
            .is_err()
        {
            return Err(out_of_memory("cuMemAlloc", len));
        }
        // SAFETY: the length is not 0.
        let at = unsafe { alloc(layout(len)) };
        if at.is_null() {
            self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(out_of_memory("cuMemAlloc", len));
        }
        Ok(at as u64)
    }

    /// Gives memory back that [`allocate`](Self::allocate) gave for this length, once no kernel runs: as the driver does.
    pub(super) fn free(&self, at: u64, len: usize) {
        self.wait_idle();
        // SAFETY: allocated with this layout; given back once, by `DeviceBuffer`'s drop.
        unsafe { dealloc(at as *mut u8, layout(len)) };
        self.used_bytes.fetch_sub(rounded(len) as u64, Ordering::Relaxed);
    }

    /// Returns when no launch is under way. Launches end: what they wait for has bounds.
    pub(super) fn wait_idle(&self) {
        let mut launches = self.running.launches();
        while *launches > 0 {
            launches = self
                .running
                .changed
                .wait(launches)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Starts `warps` calls of the kernel on the machine's threads. `arguments` are 16-byte aligned copies.
    pub(super) fn launch(
        &self,
        kernel: HostKernel,
        warps: u32,
        arguments: Vec<Box<[u128]>>,
    ) -> Result<Arc<Work>, CudaError> {
        let work = Arc::new(Work::default());
        let (done, running, threads) = (work.clone(), self.running.clone(), self.threads.min(warps.max(1)));
        running.add();
        let body = move || {
            std::thread::scope(|scope| {
                for first in 0..threads {
                    let (kernel, arguments) = (&kernel, &arguments);
                    let share = move || kernel.call(arguments, first, threads, warps);
                    if first + 1 == threads || std::thread::Builder::new().spawn_scoped(scope, share).is_err() {
                        share(); // here, where no thread can be had
                    }
                }
            });
            drop(kernel);
            done.finish();
            running.remove();
        };
        let started = std::thread::Builder::new().name("host-kernel".to_owned()).spawn(body);
        started.map(|_| work).map_err(|e| {
            self.running.remove();
            CudaError::Call {
                call: "cuLaunchKernel",
                code: cudarc::driver::sys::CUresult::CUDA_ERROR_LAUNCH_FAILED as u32,
                text: e.to_string(),
                detail: String::new(),
            }
        })
    }
}

fn rounded(len: usize) -> usize {
    len.max(1).next_multiple_of(PAGE_BYTES)
}

fn layout(len: usize) -> Layout {
    // A page's alignment is a power of two, and lengths near `isize::MAX` fail in `allocate`'s check against the memory there is.
    Layout::from_size_align(rounded(len), PAGE_BYTES).unwrap_or(Layout::new::<[u128; 256]>())
}

fn out_of_memory(call: &'static str, len: usize) -> CudaError {
    CudaError::Call {
        call,
        code: cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32,
        text: "out of memory".to_owned(),
        detail: format!(" ({len} bytes)"),
    }
}

/// Whole zeroed pages for what stands for pinned memory. `len` is a multiple of a page and not 0.
pub(super) fn pages(len: usize) -> Result<NonNull<u8>, CudaError> {
    // SAFETY: the length is not 0.
    NonNull::new(unsafe { alloc_zeroed(layout(len)) }).ok_or_else(|| out_of_memory("cuMemHostAlloc", len))
}

/// Gives back what [`pages`] gave for this length.
pub(super) fn free_pages(at: NonNull<u8>, len: usize) {
    // SAFETY: allocated with this layout; given back once, by `PinnedBuffer`'s drop.
    unsafe { dealloc(at.as_ptr(), layout(len)) };
}

/// Work in a stream: done, or not yet.
#[derive(Debug, Default)]
pub(super) struct Work {
    finished: OnceLock<Instant>,
    waiting: Mutex<()>,
    changed: Condvar,
}

impl Work {
    fn finish(&self) {
        let _ = self.finished.set(Instant::now());
        drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// When it was done; `None`: it is not.
    pub(super) fn finished(&self) -> Option<Instant> {
        self.finished.get().copied()
    }

    /// Waits until it is done.
    pub(super) fn wait(&self) -> Instant {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(at) = self.finished() {
                return at;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What `GRAMPUS_KERNEL` (target.cuh) declares for host threads.
type Entry = unsafe extern "C" fn(*const *const u128, u32, u32);

/// A kernel of a loaded library.
#[derive(Debug, Clone)]
pub(super) struct HostKernel {
    /// Keeps the code where it is.
    _library: Arc<Library>,
    entry: Entry,
    /// Bytes of its one parameter.
    pub(super) parameter_bytes: u64,
}

impl HostKernel {
    /// Looks the kernel up; `None`: there is none of that name.
    pub(super) fn find(library: &Arc<Library>, name: &str) -> Option<Self> {
        // SAFETY: our own text defines both, with these types (`GRAMPUS_KERNEL`).
        let entry: Entry = *unsafe { library.get::<Entry>(name) }.ok()?;
        let bytes_name = format!("{name}_parameter_bytes");
        // SAFETY: as above.
        let bytes = unsafe { library.get::<unsafe extern "C" fn() -> u64>(bytes_name) }.ok()?;
        Some(Self {
            _library: library.clone(),
            entry,
            // SAFETY: as above; it returns a constant.
            parameter_bytes: unsafe { bytes() },
        })
    }

    fn call(&self, arguments: &[Box<[u128]>], first: u32, step: u32, warps: u32) {
        let pointers: Vec<*const u128> = arguments.iter().map(|a| a.as_ptr()).collect();
        let mut warp = first;
        while warp < warps {
            // SAFETY: the kernel takes one parameter of the size checked at the launch. What the addresses in it point at is the
            // launcher's to see to, as on a GPU; memory that a running launch may use is not freed (`wait_idle`).
            unsafe { (self.entry)(pointers.as_ptr(), warp, warps) };
            warp = match warp.checked_add(step) {
                Some(next) => next,
                None => return,
            };
        }
    }
}
