//! `Plain`: types that cross between host and device by their bytes.

/// A value that kernels take by its bytes: every bit pattern is valid, and it holds no references.
///
/// # Safety
/// The type is `repr(C)` or a primitive, and every bit pattern of it is valid.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($ty:ty),* $(,)?) => {
        $(
            // SAFETY: a primitive.
            unsafe impl Plain for $ty {}
        )*
    };
}
plain!(u8, u16, u32, u64, i32, i64, f64);
