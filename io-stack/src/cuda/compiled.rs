//! `Compiled`: machine code of one unit, and what each of its kernels takes.

/// What one kernel takes.
#[derive(Debug, Clone, serde::Serialize)]
pub struct KernelUse {
    /// Its name.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
}

/// Machine code and what it took.
#[derive(Debug)]
pub struct Compiled {
    /// For [`Module::load`](super::Module::load).
    pub cubin: Vec<u8>,
    /// The kernels, as ptxas names them.
    pub kernels: Vec<KernelUse>,
}
