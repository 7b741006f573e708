//! `Plain`: types that cross between host and device by their bytes.

use crate::abi;

/// A value that kernels take by its bytes: every bit pattern is valid, and it holds no references.
///
/// # Safety
/// The type is `repr(C)` or a primitive, and every bit pattern of it is valid.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($ty:ty),* $(,)?) => {
        $(
            // SAFETY: a primitive, or a `repr(C)` struct of integers from `abi`.
            unsafe impl Plain for $ty {}
        )*
    };
}
plain!(u8, u16, u32, u64, i32, i64, f64);
plain!(
    abi::IoStack,
    abi::ColumnDesc,
    abi::Extent,
    abi::SourceDesc,
    abi::QueueDesc,
    abi::LineWrites,
    abi::QueueState,
    abi::Status,
    abi::Stats
);
