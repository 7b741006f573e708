//! Fuzzing of both sides of NVMe's queues: the driver against a controller of any bytes, and the software controller
//! against a host of any bytes. Neither may panic, hang, or lose memory. `driver/tests/two_sided.rs` does the same by
//! random numbers.

mod bytes;
mod fuzzed_controller;
mod fuzzed_host;
mod seed_files;

use std::sync::{Arc, OnceLock};

use grampus_driver::host::{DmaMemory, MappedMemory};
use grampus_driver::raw::SharedMemory;

pub use fuzzed_controller::any_controller;
pub use fuzzed_host::any_host;
pub use seed_files::write_seeds;

const MEMORY_BYTES: usize = 512 << 10;
/// Bus address of the memory that host and controller share.
const BUS: u64 = 0x4_0000_0000;

/// The memory of all inputs, zeroed. A driver leaves buffers to a controller that does not let itself be disabled: with
/// memory of their own, inputs would add up.
///
/// # Panics
/// If the system has none.
fn memory() -> Arc<MappedMemory> {
    static MEMORY: OnceLock<Arc<MappedMemory>> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| {
        let memory = SharedMemory::anonymous(MEMORY_BYTES).expect("memory");
        Arc::new(MappedMemory::linear(memory, BUS))
    });
    memory.memory().write(0, &[0; MEMORY_BYTES]);
    memory.clone()
}

/// The place of bytes at a bus address; `None`: they lie outside the memory.
fn offset_of(bus: u64, length: usize) -> Option<usize> {
    let offset = usize::try_from(bus.checked_sub(BUS)?).ok()?;
    (offset.checked_add(length)? <= MEMORY_BYTES).then_some(offset)
}
