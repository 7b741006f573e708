//! Rust's mirror of the structs that device code and host share (`device/*.h`), and the proof that both sides agree.
//!
//! [`static_asserts`] writes size, alignment and field offsets as C++ `static_assert`s; the text goes into every
//! translation unit that holds everything, for the GPU and for g++, and into the unit that all others are linked with
//! ([`slow_path`](crate::device::slow_path)), so a mismatch fails the compile. What the fields mean stands in the headers;
//! who writes them when, in docs/PROTOCOL.md. Device pointers are `u64` here.
#![allow(missing_docs)] // fields are documented where they are declared first: in device/*.h

use std::fmt::Write as _;

/// Declares `#[repr(C)]` structs with the names of their C++ twins (in namespace `grampus`), collects their asserts in a function
/// `static_asserts` beside them, and lets them be written as the bytes that kernels take.
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
                    Self { $($field: <$ty as $crate::layout::Zero>::ZERO),* }
                }
            }

            impl $crate::layout::Zero for $name {
                const ZERO: Self = Self { $($field: <$ty as $crate::layout::Zero>::ZERO),* };
            }

            impl $crate::layout::Bytes for $name {
                fn write_to(&self, out: &mut [u8]) {
                    $(self.$field.write_to(&mut out[std::mem::offset_of!($name, $field)..][..size_of::<$ty>()]);)*
                }
            }
        )*

        /// C++ text that fails to compile unless each struct has Rust's size, alignment and offsets.
        pub fn static_asserts() -> String {
            let mut out = format!("// Generated from {}: both sides lay these structs out alike.\n", file!());
            $(
                $crate::layout::assert_struct(&mut out, stringify!($name), size_of::<$name>(), align_of::<$name>());
                $($crate::layout::assert_field(&mut out, stringify!($name), stringify!($field),
                    std::mem::offset_of!($name, $field), size_of::<$ty>());)*
            )*
            out
        }
    };
}

/// Types whose zero is a valid start value.
pub trait Zero: Sized {
    const ZERO: Self;
}
macro_rules! zero_is_zero {
    ($($ty:ty),*) => { $(impl Zero for $ty { const ZERO: Self = 0; })* };
}
zero_is_zero!(u8, u16, u32, u64, i32);
impl<T: Zero + Copy, const N: usize> Zero for [T; N] {
    const ZERO: Self = [T::ZERO; N];
}

/// A value as the bytes that device code sees; padding is left as it is.
pub trait Bytes {
    /// Writes it; `out` is as long as the value.
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

/// A value's bytes as device code reads them, padding zero.
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

crate::shared_structs! {
    #[repr(align(64))]
    SqEntry {
        opc: u8, flags: u8, cid: u16, nsid: u32, cdw2: u32, cdw3: u32, mptr: u64, prp1: u64, prp2: u64,
        cdw10: u32, cdw11: u32, cdw12: u32, cdw13: u32, cdw14: u32, cdw15: u32,
    }
    #[repr(align(16))]
    CqEntry { dw0: u32, dw1: u32, sqhd: u16, sqid: u16, cid_psf: u32 }
    #[repr(align(64))]
    Status {
        code: u32, nvme_status: u32, queue: u32, cid: u32, lba: u64, line: u64, bytes: u32, nsid: u32,
        waited_ns: u64, pad0: u64, pad1: u64,
    }
    #[repr(align(64))]
    Stats {
        commands: u64, command_bytes: u64, completions: u64, stale_completions: u64, bounce_bytes: u64,
        mapped_fill_bytes: u64, installs: u64, evictions: u64, full_sets: u64, validation_failures: u64,
        doorbells: u64, failed_commands: u64, pad: [u64; 4],
    }
    #[repr(align(64))]
    DoorbellGroup { word: [u32; 16] }
    #[repr(align(64))]
    QueueState {
        credits: i32, pad0: [u32; 15], pop_ticket: u32, pad1: [u32; 15], push_ticket: u32, pad2: [u32; 15],
        sq_ticket: u32, pad3: [u32; 15], sq_lock: u32, sq_tail: u32, pad4: [u32; 14],
        cq_lock: u32, cq_head: u32, cq_rung: u32, pad5: [u32; 13],
    }
    #[repr(align(16))]
    CommandRecord {
        state: u32, kind: u32, slot: u32, lines: u32, sectors: u32, bytes: u32, lba: u64, result: u32, nsid: u32,
        target: u64, entry: [u64; 8],
    }
    #[repr(align(16))]
    QueueDesc {
        sq: u64, cq: u64, sq_doorbell: u64, cq_doorbell: u64, state: u64, marks: u64, free_ring: u64, commands: u64,
        bounce: u64, bounce_bus: u64, data_bus: u64, bounce_bytes: u32, depth_log2: u32, qid: u32, flags: u32,
    }
    CacheSet { lock: u32, hand: u32 }
    #[repr(align(16))]
    CacheDesc {
        data: u64, tags: u64, state: u64, requested: u64, sets: u64, set_count: u32, groups: u32, group_log2: u32,
        sector_log2: u32, ways: u32, zero: u32,
    }
    #[repr(align(16))]
    Extent {
        first_row: u64, rows: u64, first_line: u64, storage_byte: u64, mapped: u64, first_byte: u32, source: u32,
    }
    #[repr(align(16))]
    ColumnDesc { extents: u64, extent_count: u32, value_bytes: u32 }
    #[repr(align(16))]
    SourceDesc {
        blocks: u64, nsid: u32, lba_log2: u32, first_queue: u32, queue_count: u32, max_lines: u32, pad0: u32,
    }
    #[repr(align(16))]
    IoStack {
        status: u64, stats: u64, host_abort: u64, queues: u64, sources: u64, timeout_ns: u64, queue_count: u32,
        source_count: u32, servers: u32, pad0: u32, cache: CacheDesc,
    }
}
