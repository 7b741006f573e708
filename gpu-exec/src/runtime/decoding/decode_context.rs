//! `DecodeContext`: stream, kernels and memory for decompression and decoding.

use grampus_cuda::{CudaError, Device, Kernel, Stream};

use crate::codegen::GPU_LANES;
use crate::decompress::library_memory::LibraryMemory;
use crate::kernel_cache::KernelCache;
use crate::options::Decompression;

/// The part of a query's resources that decodes. All work is in the order of one stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodeContext<'a> {
    pub(crate) device: &'a Device,
    pub(crate) stream: &'a Stream,
    pub(crate) kernels: &'a KernelCache,
    /// Memory in which nvCOMP works.
    pub(crate) library_memory: &'a LibraryMemory,
    pub(crate) decompression: Decompression<'a>,
}

impl DecodeContext<'_> {
    /// Blocks of a launch of which each warp takes one of so many tasks after the other: no more than run at once.
    pub(crate) fn blocks_of_warps(&self, kernel: &Kernel<'_>, threads: u32, tasks: u32) -> Result<u32, CudaError> {
        let most = self.device.multiprocessors().max(1) * kernel.blocks_that_fit(threads, 0)?;
        Ok(tasks.div_ceil(threads / GPU_LANES).clamp(1, most))
    }
}
