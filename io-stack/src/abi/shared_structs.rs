//! `shared_structs!`: Rust's mirror of C++ structs, and the proof that both sides lay them out alike.
//!
//! For the structs that it declares, the macro writes
//! 1. the `#[repr(C)]` structs, with zeros as default values,
//! 2. their bytes as kernels read them ([`Bytes`]),
//! 3. a function `static_asserts`: size, alignment and offsets as C++ `static_assert`s.

use std::fmt::Write as _;

/// Declares `#[repr(C)]` structs with the names of their C++ twins in namespace `grampus`, and a function
/// `static_asserts` beside them.
#[macro_export]
macro_rules! shared_structs {
    ($($(#[$meta:meta])* $name:ident { $($field:ident : $ty:ty),* $(,)? })*) => {
        $(
            $(#[$meta])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $(pub $field: $ty),* }

            impl Default for $name {
                fn default() -> Self {
                    Self { $($field: <$ty as $crate::abi::Zero>::ZERO),* }
                }
            }

            impl $crate::abi::Zero for $name {
                const ZERO: Self = Self { $($field: <$ty as $crate::abi::Zero>::ZERO),* };
            }

            impl $crate::abi::Bytes for $name {
                fn write_to(&self, out: &mut [u8]) {
                    $(self.$field.write_to(&mut out[std::mem::offset_of!($name, $field)..][..size_of::<$ty>()]);)*
                }
            }
        )*

        /// C++ text that fails to compile unless each struct has Rust's size, alignment and offsets.
        #[allow(unreachable_pub)] // the macro cannot know whether its module is public
        pub fn static_asserts() -> String {
            let mut out = format!("// Generated from {}: both sides lay these structs out alike.\n", file!());
            $(
                $crate::abi::assert_struct(&mut out, stringify!($name), size_of::<$name>(), align_of::<$name>());
                $($crate::abi::assert_field(&mut out, stringify!($name), stringify!($field),
                    std::mem::offset_of!($name, $field), size_of::<$ty>());)*
            )*
            out
        }
    };
}

/// Types whose zero is a valid start value.
pub trait Zero: Sized {
    /// The zero.
    const ZERO: Self;
}
macro_rules! zero_is_zero {
    ($($ty:ty),*) => { $(impl Zero for $ty { const ZERO: Self = 0; })* };
}
zero_is_zero!(u8, u16, u32, u64, i32);
impl<T: Zero + Copy, const N: usize> Zero for [T; N] {
    const ZERO: Self = [T::ZERO; N];
}

/// A value as the bytes that device code reads; padding keeps what `out` holds.
pub trait Bytes {
    /// Writes the value to `out`, which has its length.
    fn write_to(&self, out: &mut [u8]);
}
macro_rules! little_endian {
    ($($ty:ty),*) => {
        $(impl Bytes for $ty {
            fn write_to(&self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
        })*
    };
}
little_endian!(u8, u16, u32, u64, i32);
impl<T: Bytes, const N: usize> Bytes for [T; N] {
    fn write_to(&self, out: &mut [u8]) {
        for (value, out) in self.iter().zip(out.chunks_exact_mut(size_of::<T>())) {
            value.write_to(out);
        }
    }
}

/// The bytes of a value as device code reads them, with zeros as padding.
pub fn bytes_of<T: Bytes>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; size_of::<T>()];
    value.write_to(&mut bytes);
    bytes
}

#[doc(hidden)] // for shared_structs
pub fn assert_struct(out: &mut String, name: &str, size: usize, align: usize) {
    let _ = writeln!(
        out,
        "static_assert(sizeof(grampus::{name}) == {size}, \"{name}: size\");"
    );
    let _ = writeln!(
        out,
        "static_assert(alignof(grampus::{name}) == {align}, \"{name}: alignment\");"
    );
}

#[doc(hidden)] // for shared_structs
pub fn assert_field(out: &mut String, name: &str, field: &str, offset: usize, size: usize) {
    let _ = writeln!(
        out,
        "static_assert(GRAMPUS_OFFSETOF(grampus::{name}, {field}) == {offset}, \"{name}::{field}: offset\");"
    );
    let _ = writeln!(
        out,
        "static_assert(sizeof(((grampus::{name}*)0)->{field}) == {size}, \"{name}::{field}: size\");"
    );
}
