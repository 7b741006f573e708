//! Mirrors of the structs that device code and host share, one file for each header of `device/`.
//!
//! The headers say what the fields mean. docs/PROTOCOL.md says which side writes them when. Device pointers are `u64`
//! here.
//!
//! | file | header |
//! | --- | --- |
//! | `nvme` | `nvme.h`: submission and completion entries |
//! | `status` | `status.h`: the status word and the counters |
//! | `queue` | `queue.h`: queue pairs |
//! | `cache` | `cache.h`: the cache, and the line size of `types.h` |
//! | `column` | `column.h`: extents, columns, storages |
//! | `io_stack` | `io_stack.h`: the parameter of kernels |
//! | `plain_structs` | those that kernels take or leave as bytes |
//! | `shared_structs` | the macro that declares a mirror |
//!
//! **Invariant:** a mismatch between mirror and header fails the compile. [`static_asserts`] stands in each unit that
//! has all headers, for the GPU and for g++. It also stands in the unit that all others are linked with
//! ([`slow_path`](crate::device_headers::slow_path)).

mod cache;
mod column;
mod io_stack;
mod nvme;
#[allow(unsafe_code)]
mod plain_structs;
mod queue;
mod shared_structs;
mod status;

pub use cache::{CacheDesc, CacheSet, LINE_BYTES, LineWrites, WAYS};
pub use column::{ColumnDesc, Extent, SOURCE_WRITABLE, SourceDesc};
pub use io_stack::IoStack;
pub use nvme::{CqEntry, SqEntry};
pub use queue::{CommandRecord, DoorbellGroup, FREE_RING_EMPTY, QUEUES_PER_GROUP, QueueDesc, QueueState};
pub use shared_structs::{Bytes, Zero, assert_field, assert_struct, bytes_of};
pub use status::{Stats, Status};

/// C++ text that fails to compile unless all mirrors have their headers' layout.
pub fn static_asserts() -> String {
    [
        nvme::static_asserts(),
        status::static_asserts(),
        queue::static_asserts(),
        cache::static_asserts(),
        column::static_asserts(),
        io_stack::static_asserts(),
    ]
    .concat()
}
