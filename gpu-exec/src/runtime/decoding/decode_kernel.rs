//! `DecodeKernel`: the decode kernel and its launches.

use std::sync::Arc;
use std::time::Duration;

use grampus_cuda::{Args, CudaError, Module};
use grampus_io_stack::abi::bytes_of;

use crate::abi::decode::{DECODE_JOBS, DecodeJob, DecodeLaunch};
use crate::codegen::BLOCK_THREADS;
use crate::decode;
use crate::kernel_cache::Origin;
use crate::runtime::decoding::decode_context::DecodeContext;

/// The kernel, loaded.
#[derive(Debug, Clone)]
pub(crate) struct DecodeKernel {
    module: Arc<Module>,
    /// Time to load or compile the kernel, if it was not in memory.
    pub(crate) compile: Duration,
}

/// Tasks in device memory: their address and number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodeTasks {
    pub(crate) address: u64,
    pub(crate) count: u32,
}

impl DecodeKernel {
    pub(crate) fn new(context: &DecodeContext<'_>) -> Result<Self, CudaError> {
        let loaded = context.kernels.decoding()?;
        Ok(Self {
            module: loaded.module,
            compile: match loaded.origin {
                Origin::Memory => Duration::ZERO,
                Origin::Folder | Origin::Compiler => loaded.took,
            },
        })
    }

    /// Decodes, in the order of the stream. `failed`: device address of the word in which the label of a task is noted
    /// whose streams are invalid.
    pub(crate) fn launch(
        &self,
        context: &DecodeContext<'_>,
        tasks: impl IntoIterator<Item = DecodeTasks>,
        failed: u64,
    ) -> Result<(), CudaError> {
        let tasks: Vec<DecodeTasks> = tasks.into_iter().filter(|tasks| tasks.count > 0).collect();
        let kernel = self.module.kernel(decode::ENTRY)?;
        for tasks in tasks.chunks(DECODE_JOBS) {
            let mut launch = DecodeLaunch {
                failed,
                ..DecodeLaunch::default()
            };
            for (tasks, job) in tasks.iter().zip(&mut launch.job) {
                *job = DecodeJob {
                    tasks: tasks.address,
                    first: launch.tasks,
                    count: tasks.count,
                };
                launch.tasks += tasks.count;
                launch.jobs += 1;
            }
            let blocks = context.blocks_of_warps(&kernel, BLOCK_THREADS, launch.tasks)?;
            let mut args = Args::new().with_bytes(&bytes_of(&launch));
            kernel.launch(context.stream, blocks, BLOCK_THREADS, &mut args)?;
        }
        Ok(())
    }
}
