//! `DeviceFacts`: a GPU's properties, as the driver reports them.

/// What there is to know of a GPU without measuring.
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
    /// Of that, free now.
    pub free_bytes: u64,
    /// L2 cache, in bytes.
    pub l2_bytes: u64,
    /// Copy engines.
    pub copy_engines: u32,
    /// PCI address, `domain:bus:device.function`.
    pub pci: String,
    /// Whether the GPU can read the CPU's memory that was not registered (HMM, ATS).
    pub pageable_access: bool,
}
