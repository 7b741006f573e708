//! The mirrors that cross between host and device by their bytes.

use grampus_cuda::Plain;

use super::{ColumnDesc, Extent, IoStack, LineWrites, QueueDesc, QueueState, SourceDesc, Stats, Status};

macro_rules! plain {
    ($($ty:ty),* $(,)?) => {
        $(
            // SAFETY: a `repr(C)` struct of integers.
            unsafe impl Plain for $ty {}
        )*
    };
}
plain!(
    IoStack, ColumnDesc, Extent, SourceDesc, QueueDesc, LineWrites, QueueState, Status, Stats
);
