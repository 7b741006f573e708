//! `Compiled`: machine code of one unit, and the registers of its kernels.

/// The registers of one kernel.
#[derive(Debug, Clone, serde::Serialize)]
pub struct KernelUse {
    /// The kernel's name.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
}

/// Machine code of one unit.
#[derive(Debug)]
pub struct Compiled {
    /// For [`Module::load`](crate::Module::load).
    pub cubin: Vec<u8>,
    /// The kernels, as ptxas names them.
    pub kernels: Vec<KernelUse>,
}
