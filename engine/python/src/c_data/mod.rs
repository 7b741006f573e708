//! Arrow's C data interface: columns of another library, checked, and streams of ours.
//!
//! | file | contents |
//! | --- | --- |
//! | `schema` | a schema into and out of Rust |
//! | `array` | an array into Rust, without a copy of its buffers |
//! | `stream` | streams of batches, of ours and of other libraries |
//!
//! The structs are those of `arrow::ffi`, which also exports schemas and arrays. What comes in is read here: arrow's
//! importers panic if parts are missing, and read offsets at addresses that may be unaligned.
//!
//! Specification: Apache Arrow, "The Arrow C data interface" and "The Arrow C stream interface".
//!
//! **Invariant:** the crate's `unsafe` code lies here. A struct has one owner, and its `release` is called once.

mod array;
pub(crate) mod schema;
pub(crate) mod stream;
