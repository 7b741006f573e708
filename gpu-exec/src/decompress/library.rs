//! `LibraryCalls`: chunks that nvCOMP decompresses, batch by batch in one stream.
//!
//! 1. A kernel copies a batch's stored bytes to nvCOMP's workspace and writes nvCOMP's arrays.
//! 2. nvCOMP decompresses there.
//! 3. A kernel checks statuses and lengths, and copies what came out to the chunks' targets.
//!
//! A chunk that fails sets the launch's word `failed`, as in the decompression kernel. If nvCOMP refuses a batch, or if
//! it has no memory, all chunks of the batch fail.

use std::sync::Arc;

use grampus_cuda::{Args, CudaError, Device, DeviceBuffer, Module, Nvcomp, NvcompBatch, Stream};
use grampus_io_stack::abi::bytes_of;

use super::chunk_table::{ChunkTable, LaunchJobs, launches};
use super::library_memory::{BatchShape, LibraryMemory, Workspace};
use crate::abi::decompress::ChunkResult;
use crate::abi::library_chunks::LibraryLaunch;
use crate::codegen::{BLOCK_THREADS, GPU_LANES};
use crate::options::nvcomp_codec;

/// The kernels' `extern "C"` names.
pub const PREPARE: &str = "grampus_prepare_chunks";
/// As above.
pub const TAKE: &str = "grampus_take_chunks";
/// Blocks on a multiprocessor: the kernels' registers are bounded for so many.
const BLOCKS_EACH: u32 = 4;

/// nvCOMP with a workspace for one codec.
#[derive(Debug)]
pub(crate) struct LibraryCalls<'a> {
    library: &'a Nvcomp,
    device: &'a Device,
    /// `None`: the device has no memory for a single chunk.
    workspace: Option<Workspace>,
}

impl<'a> LibraryCalls<'a> {
    /// Calls for chunks like those of `tables`, which have one codec.
    pub(crate) fn new(
        library: &'a Nvcomp,
        device: &'a Device,
        memory: &LibraryMemory,
        tables: &[ChunkTable],
    ) -> Result<Option<Self>, CudaError> {
        let Some(codec) = tables.first().and_then(|first| nvcomp_codec(first.codec)) else {
            return Ok(None);
        };
        let most = |value: fn(&ChunkTable) -> u32| tables.iter().map(value).max().unwrap_or(0);
        let shape = BatchShape {
            codec,
            max_stored_bytes: most(|table| table.max_stored_bytes),
            max_bytes: most(|table| table.max_bytes),
        };
        let chunks = tables.iter().map(|table| table.compressed).sum();
        let workspace = memory.workspace(device, library, shape, chunks)?;
        if workspace.is_none() {
            log::warn!("too little device memory for nvCOMP: the CPU decompresses");
        }
        Ok(Some(Self {
            library,
            device,
            workspace,
        }))
    }

    /// Decompresses tables of compressed chunks, each an address and a number, in the stream's order. `module`: the
    /// kernels [`PREPARE`] and [`TAKE`]. `results`: address of a [`ChunkResult`] for each chunk, or 0.
    pub(crate) fn decompress(
        &self,
        stream: &Stream,
        module: &Module,
        tables: impl IntoIterator<Item = (u64, usize)>,
        failed: u64,
        results: u64,
    ) -> Result<(), CudaError> {
        let max_chunks = self.workspace.as_ref().map_or(usize::MAX, |workspace| workspace.chunks);
        let mut done = 0;
        for batch in launches(tables, max_chunks) {
            let mut launch = self.parameter(&batch);
            launch.failed = failed;
            if results != 0 {
                launch.results = results + done * size_of::<ChunkResult>() as u64;
            }
            if let Some(workspace) = &self.workspace {
                self.launch(stream, module, PREPARE, &launch)?;
                match self.library.decompress(stream, &described(workspace, &batch)) {
                    Ok(()) => launch.called = 1,
                    Err(e) => log::warn!(
                        "nvCOMP refused {} chunks, which the CPU decompresses: {e}",
                        batch.chunks
                    ),
                }
            }
            self.launch(stream, module, TAKE, &launch)?;
            done += u64::from(batch.chunks);
        }
        Ok(())
    }

    /// The memory in which nvCOMP works. It must live until the stream has decompressed everything.
    pub(crate) fn memory(&self) -> Option<Arc<DeviceBuffer>> {
        self.workspace.as_ref().map(|workspace| workspace.buffer.clone())
    }

    fn parameter(&self, batch: &LaunchJobs) -> LibraryLaunch {
        let mut launch = LibraryLaunch {
            jobs: batch.jobs.len() as u32,
            chunks: batch.chunks,
            job: batch.array(),
            ..LibraryLaunch::default()
        };
        if let Some(Workspace { buffer, layout, .. }) = &self.workspace {
            let at = |offset: usize| buffer.address() + offset as u64;
            launch.inputs = at(layout.inputs);
            launch.input_bytes = at(layout.input_bytes);
            launch.spaces = at(layout.spaces);
            launch.output_bytes = at(layout.output_bytes);
            launch.outputs = at(layout.outputs);
            launch.statuses = at(layout.statuses);
            launch.stored = at(layout.stored);
            launch.decompressed = at(layout.decompressed);
            launch.stored_stride = layout.stored_stride;
            launch.decompressed_stride = layout.decompressed_stride;
        }
        launch
    }

    fn launch(&self, stream: &Stream, module: &Module, name: &str, launch: &LibraryLaunch) -> Result<(), CudaError> {
        let most = self.device.multiprocessors().max(1) * BLOCKS_EACH;
        let blocks = launch.chunks.div_ceil(BLOCK_THREADS / GPU_LANES).clamp(1, most);
        let mut args = Args::new().with_bytes(&bytes_of(launch));
        module.kernel(name)?.launch(stream, blocks, BLOCK_THREADS, &mut args)
    }
}

fn described<'a>(workspace: &'a Workspace, batch: &LaunchJobs) -> NvcompBatch<'a> {
    let layout = &workspace.layout;
    NvcompBatch {
        codec: workspace.codec,
        chunks: batch.chunks as usize,
        memory: &workspace.buffer,
        inputs: layout.inputs,
        input_bytes: layout.input_bytes,
        spaces: layout.spaces,
        output_bytes: layout.output_bytes,
        outputs: layout.outputs,
        statuses: layout.statuses,
        scratch: layout.scratch,
    }
}
