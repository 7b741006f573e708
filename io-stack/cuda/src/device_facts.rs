//! `DeviceFacts`: a GPU's properties, as the driver reports them.

/// A GPU's properties, known without measuring.
#[derive(Debug, Clone, serde::Serialize)]
pub struct DeviceFacts {
    /// Marketing name.
    pub name: String,
    /// Compute capability.
    pub compute: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Device memory, in bytes.
    pub memory_bytes: u64,
    /// Free device memory at the time of the call.
    pub free_bytes: u64,
    /// L2 cache, in bytes.
    pub l2_bytes: u64,
    /// Copy engines.
    pub copy_engines: u32,
    /// PCI address, `domain:bus:device.function`.
    pub pci: String,
    /// UUID, as `nvidia-smi -L` prints it behind `GPU-`.
    pub uuid: String,
    /// Whether the GPU can read unregistered memory of the CPU (HMM, ATS).
    pub pageable_access: bool,
}
