//! `Device`: one GPU with its primary context, or threads of this machine in its place.
//!
//! **Invariant:** nothing in this file allocates device memory.

use std::sync::Arc;

use cudarc::driver::sys;
use cudarc::driver::sys::CUdevice_attribute as Attribute;

use crate::call::check;
use crate::device_facts::DeviceFacts;
use crate::driver::{driver_version, name_of, no_gpu, ordinal_of, probe, shown, uuid_of};
use crate::error::CudaError;
use crate::gate::Gate;
use crate::host_faults::{HostFaults, HostOperation};
use crate::host_lanes::HostLanes;
use crate::host_machine::HostMachine;

/// Shared memory of a block of host threads (target_host.cuh, `GRAMPUS_SHARED_BY_BLOCK`): that of an H200's.
const HOST_BLOCK_SHARED_BYTES: u64 = 232_448;

/// Bytes of stack of a thread, for the longest chain of calls. Compiler and driver do not know the chain, since
/// the slow path is called by address (`far_call`). The driver's default is 1,024 bytes, and reads by command need more
/// (docs/experiments/0041). Tests compute the longest chain. When a kernel needs it, the driver sets aside as much for
/// each thread that the device can run: 1.1 GB on an H200.
pub const STACK_BYTES: usize = 4096;

#[derive(Debug)]
struct Context {
    ordinal: sys::CUdevice,
    context: sys::CUcontext,
    version: (u32, u32),
    gate: Arc<Gate>,
}

// SAFETY: a primary context may be used and made current from any thread (CUDA Driver API, "Primary Context
// Management").
unsafe impl Send for Context {}
// SAFETY: as for `Send`; the fields are never written after construction.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once, in `Device::open`. Nothing made in the context outlives the handle: all of it holds a
        // `Device`.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.ordinal) };
    }
}

#[derive(Debug)]
enum Inner {
    Gpu(Context),
    Host(HostMachine),
}

/// A GPU with its primary context, or threads of this machine that run the same kernels. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Device(Arc<Inner>);

impl Device {
    /// Opens the GPU.
    ///
    /// # Errors
    /// [`CudaError::NoDriver`] or [`CudaError::NoGpu`] without one; a failed call otherwise.
    pub fn open(ordinal: u32) -> Result<Self, CudaError> {
        let count = probe()?;
        if ordinal >= count {
            return Err(no_gpu(&ordinal.to_string(), count));
        }
        let version = driver_version()?;
        let mut device = 0;
        // SAFETY: initialised by `probe`; the ordinal is below the count.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal as i32) })?;
        let mut context = std::ptr::null_mut();
        // SAFETY: a valid device; released in `Context::drop`.
        check("cuDevicePrimaryCtxRetain", unsafe {
            sys::cuDevicePrimaryCtxRetain(&mut context, device)
        })?;
        let context = Context {
            ordinal: device,
            context,
            version,
            gate: Gate::of_gpu(device),
        };
        let device = Self(Arc::new(Inner::Gpu(context)));
        device.bind()?;
        // SAFETY: a context is current.
        check("cuCtxSetLimit", unsafe {
            sys::cuCtxSetLimit(sys::CUlimit_enum::CU_LIMIT_STACK_SIZE, STACK_BYTES)
        })?;
        Ok(device)
    }

    /// Opens the GPU with this UUID.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_uuid(uuid: [u8; 16]) -> Result<Self, CudaError> {
        Self::open(ordinal_of(uuid)?)
    }

    /// Threads of this machine as a device. At most `memory_bytes` of ordinary memory serve as device memory. The
    /// host's C++ compiler compiles the kernels ([`compile_for`](crate::compile_for)), and `threads` threads run them
    /// as warps of one lane. For tests and for looking into kernels: nothing about it is fast.
    pub fn host(threads: u32, memory_bytes: u64) -> Self {
        Self::faulty_host(threads, memory_bytes, Arc::default())
    }

    /// As [`host`](Self::host), with operations that fail when `faults` says so.
    pub fn faulty_host(threads: u32, memory_bytes: u64, faults: Arc<HostFaults>) -> Self {
        Self::host_of_lanes(threads, HostLanes::One, memory_bytes, faults)
    }

    /// As [`faulty_host`](Self::faulty_host), with warps of `lanes`. 32 lanes take some hundred times as long as one.
    pub fn host_of_lanes(threads: u32, lanes: HostLanes, memory_bytes: u64, faults: Arc<HostFaults>) -> Self {
        let machine = HostMachine::new(threads.max(1), lanes, memory_bytes, faults);
        Self(Arc::new(Inner::Host(machine)))
    }

    /// Whether kernels run on threads of this machine.
    pub fn is_host(&self) -> bool {
        self.as_host().is_some()
    }

    pub(crate) fn as_host(&self) -> Option<&HostMachine> {
        match &*self.0 {
            Inner::Host(machine) => Some(machine),
            Inner::Gpu(_) => None,
        }
    }

    /// An operation begins. On host threads it may be one that fails.
    pub(crate) fn begins(&self, operation: HostOperation) -> Result<(), CudaError> {
        self.as_host()
            .map_or(Ok(()), |machine| machine.faults().check(operation))
    }

    /// Lanes of a warp, if kernels run on threads of this machine.
    pub fn host_lanes(&self) -> HostLanes {
        self.as_host().map(|machine| machine.lanes).unwrap_or_default()
    }

    /// Keeps apart kernels that wait for the host and calls of the driver that wait for kernels.
    pub(crate) fn gate(&self) -> &Arc<Gate> {
        match &*self.0 {
            Inner::Gpu(gpu) => &gpu.gate,
            Inner::Host(machine) => machine.gate(),
        }
    }

    /// Whether kernels that wait for the host ([`Kernel::launch_waiting`](crate::Kernel::launch_waiting)) are in the
    /// way of a call of the driver, which the next such launch would wait for.
    pub fn is_gate_wanted(&self) -> bool {
        self.gate().is_wanted()
    }

    /// Gives back what was dropped while kernels waited for the host, unless another one runs.
    pub fn settle(&self) {
        self.gate().settle();
    }

    /// Makes the context current on this thread.
    pub(crate) fn bind(&self) -> Result<(), CudaError> {
        match &*self.0 {
            // SAFETY: the context is retained as long as `self`.
            Inner::Gpu(gpu) => check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(gpu.context) }),
            Inner::Host(_) => Ok(()),
        }
    }

    /// The driver's CUDA version; 0.0 for host threads.
    pub fn version(&self) -> (u32, u32) {
        match &*self.0 {
            Inner::Gpu(gpu) => gpu.version,
            Inner::Host(_) => (0, 0),
        }
    }

    fn attribute(&self, attribute: Attribute) -> u64 {
        let Inner::Gpu(gpu) = &*self.0 else { return 0 };
        let mut value = 0;
        // SAFETY: a valid device; an attribute that the driver does not know gives an error and leaves 0.
        let _ = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, gpu.ordinal) };
        value.max(0) as u64
    }

    /// Compute capability.
    pub fn compute(&self) -> (u32, u32) {
        (
            self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) as u32,
            self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) as u32,
        )
    }

    /// Number of streaming multiprocessors, or of host threads.
    pub fn multiprocessors(&self) -> u32 {
        if let Some(machine) = self.as_host() {
            return machine.threads();
        }
        self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) as u32
    }

    /// Bytes of shared memory that a block can have, if its kernel asks for them.
    pub fn block_shared_bytes(&self) -> u64 {
        match self.is_host() {
            true => HOST_BLOCK_SHARED_BYTES,
            false => self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        }
    }

    /// Bytes of device memory that no process holds.
    ///
    /// # Errors
    /// A failed call.
    pub fn free_bytes(&self) -> Result<u64, CudaError> {
        match self.as_host() {
            Some(machine) => Ok(machine.free_bytes()),
            None => self.memory().map(|(free, _)| free),
        }
    }

    /// Free bytes of a GPU, and all of them.
    fn memory(&self) -> Result<(u64, u64), CudaError> {
        self.bind()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is current; both are writable.
        check("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// The driver's facts about the device.
    ///
    /// # Errors
    /// A failed call.
    pub fn facts(&self) -> Result<DeviceFacts, CudaError> {
        let gpu = match &*self.0 {
            Inner::Gpu(gpu) => gpu,
            Inner::Host(machine) => return Ok(machine.facts()),
        };
        let (free_bytes, memory_bytes) = self.memory()?;
        let mut pci = [0u8; 32];
        // SAFETY: the buffer is as long as the call says.
        check("cuDeviceGetPCIBusId", unsafe {
            sys::cuDeviceGetPCIBusId(pci.as_mut_ptr().cast(), 32, gpu.ordinal)
        })?;
        Ok(DeviceFacts {
            name: name_of(gpu.ordinal as u32)?,
            compute: self.compute(),
            multiprocessors: self.multiprocessors(),
            memory_bytes,
            free_bytes,
            l2_bytes: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
            copy_engines: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT) as u32,
            pci: until_zero(&pci),
            uuid: shown(uuid_of(gpu.ordinal as u32)?),
            pageable_access: self.attribute(Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) != 0,
        })
    }
}

fn until_zero(bytes: &[u8]) -> String {
    let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}
