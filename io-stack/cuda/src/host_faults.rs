//! `HostFaults`: operations of a host-thread device that fail on purpose, memory that another process holds, and what
//! lives on the device. For tests: a GPU's driver fails in these places, and no test makes it do so.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{CudaError, OUT_OF_MEMORY};

/// Operations that can fail, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostOperation {
    /// Device memory is allocated.
    Allocation,
    /// Host memory is pinned, or a file's mapping is registered.
    Pin,
    /// Bytes are copied to or from the device, or set there.
    Copy,
    /// A kernel is launched.
    Launch,
    /// Code is loaded.
    Load,
    /// A stream or an event is made.
    Create,
}

impl HostOperation {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Allocation,
        Self::Pin,
        Self::Copy,
        Self::Launch,
        Self::Load,
        Self::Create,
    ];

    /// The driver's function whose failure this is.
    fn call(self) -> &'static str {
        match self {
            Self::Allocation => "cuMemAlloc",
            Self::Pin => "cuMemHostRegister",
            Self::Copy => "cuMemcpyAsync",
            Self::Launch => "cuLaunchKernel",
            Self::Load => "cuModuleLoadData",
            Self::Create => "cuStreamCreate",
        }
    }
}

/// Operations that fail.
#[derive(Debug, Clone, Copy)]
pub struct HostFault {
    /// The kind that fails.
    pub operation: HostOperation,
    /// The first one that fails, counted from 0 when the fault is set.
    pub first: u64,
    /// Operations that fail, one after the other.
    pub count: u64,
    /// The driver's number for the error.
    pub code: u32,
}

impl HostFault {
    /// The driver runs out of memory at one operation.
    pub fn out_of_memory(operation: HostOperation, first: u64) -> Self {
        Self {
            operation,
            first,
            count: 1,
            code: OUT_OF_MEMORY,
        }
    }
}

/// What lives on a device. Two that are equal: nothing was lost in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostUse {
    /// Allocations of device memory, and their bytes.
    pub buffers: u64,
    /// Bytes of device memory.
    pub bytes: u64,
    /// Pieces of pinned memory.
    pub pins: u64,
    /// Bytes of pinned memory.
    pub pinned_bytes: u64,
    /// Streams.
    pub streams: u64,
    /// Events.
    pub events: u64,
}

/// The faults of a host-thread device, and what lives on it.
#[derive(Debug, Default)]
pub struct HostFaults {
    /// By kind: operations since the fault was set.
    counts: [AtomicU64; HostOperation::ALL.len()],
    fault: Mutex<Option<HostFault>>,
    others_bytes: AtomicU64,
    used: Mutex<HostUse>,
}

impl HostFaults {
    /// Lets operations fail from now on; `None`: no more. Operations are counted from here.
    pub fn set(&self, fault: Option<HostFault>) {
        let mut known = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        *known = fault;
    }

    /// Operations of a kind since [`set`](Self::set).
    pub fn count(&self, operation: HostOperation) -> u64 {
        self.counts[operation as usize].load(Ordering::Relaxed)
    }

    /// Bytes of device memory that another process holds from now on. They may be more than are free: nothing is
    /// taken from the device's own buffers.
    pub fn hold(&self, bytes: u64) {
        self.others_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn held_bytes(&self) -> u64 {
        self.others_bytes.load(Ordering::Relaxed)
    }

    /// What lives on the device.
    pub fn in_use(&self) -> HostUse {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut HostUse)) {
        change(&mut self.used.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// An operation begins.
    ///
    /// # Errors
    /// It is one that fails.
    pub(crate) fn check(&self, operation: HostOperation) -> Result<(), CudaError> {
        // With the lock: `set` begins the count and the fault at once.
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let at = self.counts[operation as usize].fetch_add(1, Ordering::Relaxed);
        match *fault {
            Some(fault) if fault.operation == operation && at >= fault.first && at - fault.first < fault.count => {
                Err(CudaError::Call {
                    call: operation.call(),
                    code: fault.code,
                    text: "made to fail by a test".to_owned(),
                    detail: String::new(),
                })
            }
            _ => Ok(()),
        }
    }
}
