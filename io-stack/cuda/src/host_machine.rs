//! `HostMachine`: threads of this machine in a GPU's place, with memory and launches.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::device_facts::DeviceFacts;
use crate::error::{CudaError, OUT_OF_MEMORY};
use crate::gate::Gate;
use crate::host_faults::{HostFaults, HostOperation};
use crate::host_kernel::HostKernel;
use crate::host_lanes::HostLanes;
use crate::host_work::HostWork;

/// Alignment of all allocations: a GPU's driver aligns large ones at least so.
const PAGE_BYTES: usize = 4096;

/// Device memory made of ordinary memory, its use, and the running launches.
#[derive(Debug)]
pub(crate) struct HostMachine {
    threads: u32,
    pub(crate) lanes: HostLanes,
    memory_bytes: u64,
    used_bytes: AtomicU64,
    /// Launches in flight, and the threads that wait for their end.
    running: Arc<Running>,
    gate: Arc<Gate>,
    faults: Arc<HostFaults>,
    /// The driver's lock: held by calls that wait for kernels, and by each start of a copy.
    driver: Mutex<()>,
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
    pub(crate) fn new(threads: u32, lanes: HostLanes, memory_bytes: u64, faults: Arc<HostFaults>) -> Self {
        Self {
            threads,
            lanes,
            memory_bytes,
            used_bytes: AtomicU64::new(0),
            running: Arc::default(),
            gate: Arc::default(),
            faults,
            driver: Mutex::default(),
        }
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(crate) fn faults(&self) -> &HostFaults {
        &self.faults
    }

    /// A call of the driver begins. Like the driver, it waits while another one waits for kernels.
    pub(crate) fn call(&self) -> MutexGuard<'_, ()> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call begins that waits until no kernel runs, as the driver may. Other calls wait meanwhile.
    pub(crate) fn call_alone(&self) -> MutexGuard<'_, ()> {
        let call = self.call();
        self.wait_idle();
        call
    }

    pub(crate) fn threads(&self) -> u32 {
        self.threads
    }

    pub(crate) fn facts(&self) -> DeviceFacts {
        DeviceFacts {
            name: format!("{} host threads", self.threads),
            compute: (0, 0),
            multiprocessors: self.threads,
            memory_bytes: self.memory_bytes,
            free_bytes: self.free_bytes(),
            l2_bytes: 0,
            copy_engines: 0,
            pci: String::new(),
            uuid: String::new(),
            pageable_access: true,
        }
    }

    /// Bytes of device memory that no process holds.
    pub(crate) fn free_bytes(&self) -> u64 {
        let used = self.used_bytes.load(Ordering::Relaxed);
        self.memory_bytes
            .saturating_sub(used.saturating_add(self.faults.held_bytes()))
    }

    /// Allocates device memory, not initialised.
    pub(crate) fn allocate(&self, len: usize) -> Result<u64, CudaError> {
        let _call = self.call_alone();
        self.faults.check(HostOperation::Allocation)?;
        let bytes = rounded(len) as u64;
        let bound = self.memory_bytes.saturating_sub(self.faults.held_bytes());
        let room = |used: u64| used.checked_add(bytes).filter(|all| *all <= bound);
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
        self.faults
            .note(|all| (all.buffers, all.bytes) = (all.buffers + 1, all.bytes + bytes));
        Ok(at as u64)
    }

    /// Frees memory that [`allocate`](Self::allocate) gave for this length.
    pub(crate) fn free(&self, at: u64, len: usize) {
        let _call = self.call_alone();
        // SAFETY: allocated with this layout; freed once, by `DeviceBuffer`'s drop.
        unsafe { dealloc(at as *mut u8, layout(len)) };
        let bytes = rounded(len) as u64;
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.faults
            .note(|all| (all.buffers, all.bytes) = (all.buffers - 1, all.bytes - bytes));
    }

    /// Allocates whole zeroed pages in place of pinned memory. `len` is a multiple of a page and not 0.
    pub(crate) fn pages(&self, len: usize) -> Result<NonNull<u8>, CudaError> {
        let _call = self.call_alone();
        self.faults.check(HostOperation::Pin)?;
        // SAFETY: the length is not 0.
        let pages = NonNull::new(unsafe { alloc_zeroed(layout(len)) });
        let pages = pages.ok_or_else(|| out_of_memory("cuMemHostAlloc", len))?;
        self.pinned(len);
        Ok(pages)
    }

    /// Frees what [`pages`](Self::pages) gave for this length.
    pub(crate) fn free_pages(&self, at: NonNull<u8>, len: usize) {
        let _call = self.call_alone();
        // SAFETY: allocated with this layout; freed once, by `PinnedBuffer`'s drop.
        unsafe { dealloc(at.as_ptr(), layout(len)) };
        self.unpinned(len);
    }

    /// Host memory is pinned from now on.
    pub(crate) fn pinned(&self, len: usize) {
        let bytes = len as u64;
        self.faults
            .note(|all| (all.pins, all.pinned_bytes) = (all.pins + 1, all.pinned_bytes + bytes));
    }

    /// Host memory is no longer pinned.
    pub(crate) fn unpinned(&self, len: usize) {
        let bytes = len as u64;
        self.faults
            .note(|all| (all.pins, all.pinned_bytes) = (all.pins - 1, all.pinned_bytes - bytes));
    }

    /// Returns when no launch is in flight. Every launch ends: its waits are bounded.
    fn wait_idle(&self) {
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
    pub(crate) fn launch(
        &self,
        kernel: HostKernel,
        warps: u32,
        arguments: Vec<Box<[u128]>>,
    ) -> Result<Arc<HostWork>, CudaError> {
        self.faults.check(HostOperation::Launch)?;
        let work = Arc::new(HostWork::default());
        let (done, running, threads) = (work.clone(), self.running.clone(), self.threads.min(warps.max(1)));
        running.add();
        let body = move || {
            std::thread::scope(|scope| {
                for first in 0..threads {
                    let (kernel, arguments) = (&kernel, &arguments);
                    let share = move || kernel.call(arguments, first, threads, warps);
                    if first + 1 == threads || std::thread::Builder::new().spawn_scoped(scope, share).is_err() {
                        share(); // on this thread, if no other can be started
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
    // A page's alignment is a power of two. Lengths near `isize::MAX` fail earlier, in `allocate`'s check of the
    // memory.
    Layout::from_size_align(rounded(len), PAGE_BYTES).unwrap_or(Layout::new::<[u128; 256]>())
}

fn out_of_memory(call: &'static str, len: usize) -> CudaError {
    CudaError::Call {
        call,
        code: OUT_OF_MEMORY,
        text: "out of memory".to_owned(),
        detail: format!(" ({len} bytes)"),
    }
}
