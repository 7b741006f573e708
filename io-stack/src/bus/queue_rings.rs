//! `rings`: the controller's side of a queue pair in pinned memory.

use grampus_cuda::PinnedBuffer;
use grampus_driver::raw::{QueueRings, RingAddresses};

use crate::abi::{CqEntry, QueueDesc, SqEntry};

/// The controller's side of a queue pair in pinned memory; `None` if `desc` does not lie inside `memory`. The memory
/// must outlive the rings: the stack drops its controller first.
pub(crate) fn rings(desc: &QueueDesc, memory: &PinnedBuffer) -> Option<QueueRings> {
    let depth = 1u64 << desc.depth_log2;
    let inside = |at: u64, bytes: u64| at >= memory.address() && at + bytes <= memory.address() + memory.len() as u64;
    let all = inside(desc.sq, depth * size_of::<SqEntry>() as u64)
        && inside(desc.cq, depth * size_of::<CqEntry>() as u64)
        && inside(desc.sq_doorbell, 4)
        && inside(desc.cq_doorbell, 4);
    let aligned = [
        (desc.sq, 64),
        (desc.cq, 16),
        (desc.sq_doorbell, 4),
        (desc.cq_doorbell, 4),
    ];
    let aligned = aligned.iter().all(|(at, to)| at.is_multiple_of(*to));
    if !all || !aligned {
        return None;
    }
    let at = RingAddresses {
        sq: desc.sq as *const _,
        cq: desc.cq as *mut _,
        sq_doorbell: desc.sq_doorbell as *const _,
        cq_doorbell: desc.cq_doorbell as *const _,
    };
    // SAFETY: the checks ensure live pinned memory and alignment. The host writes completions only while the controller
    // rests.
    Some(unsafe { QueueRings::new(at, desc.depth_log2) })
}
