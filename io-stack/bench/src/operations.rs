//! Single operations of the protocol, taken by many warps at once: the time of a fence, a load of host memory, a pause.

use grampus_cuda::{Args, DeviceBuffer, PinnedBuffer};

use crate::error::BenchError;
use crate::report::Report;
use crate::setup::{BLOCK_THREADS, Setup};

/// Name of the figure, and its kernel.
const OPERATIONS: [(&str, &str); 7] = [
    ("host store, system fence", "store_host_fence_sys"),
    ("host store, device fence", "store_host_fence_gpu"),
    ("device store, system fence", "store_device_fence_sys"),
    ("device store, device fence", "store_device_fence_gpu"),
    ("acquire load of host memory, 32 lanes", "load_host_acquire"),
    ("load of host memory, one lane", "load_host_one_lane"),
    ("pause of 1000 ns", "pause_1000"),
];
/// Number of times that each warp repeats its operation.
const REPEATS: u32 = 50;

pub(crate) fn operations(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let bytes = (setup.blocks * BLOCK_THREADS * 4) as usize;
    let host = PinnedBuffer::new(&setup.device, bytes)?;
    let device = DeviceBuffer::filled(&setup.device, bytes, 0)?;
    let args = || Args::new().with(host.address()).with(device.address()).with(REPEATS);
    for (name, kernel) in OPERATIONS {
        for blocks in [1, 16.min(setup.blocks), setup.blocks] {
            let warps = blocks * BLOCK_THREADS / 32;
            let run = setup.time(kernel, blocks, args, 2)?;
            report
                .add(
                    format!("{name}, {warps} warps"),
                    run.ms * 1e3 / f64::from(REPEATS),
                    "µs",
                )
                .note(format!("{:.3} M/s", run.m_s(u64::from(warps * REPEATS))));
        }
    }
    Ok(())
}
