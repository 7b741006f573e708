//! Arrow's C data interface: the structs, and their translation from and to arrow's Rust types.
//!
//! | file | contents |
//! | --- | --- |
//! | `format` | `DataType` as a format string, and back |
//! | `schema` | `CSchema`: a field or a schema |
//! | `array` | `CArray`: the structs of an array's buffers |
//! | `array_export`, `array_import` | arrays out of and into Rust, without copies of their buffers |
//! | `stream` | `CStream`: a schema and batches by call |
//!
//! Specification: Apache Arrow, "The Arrow C data interface" and "The Arrow C stream interface".
//!
//! **Invariant:** the crate's `unsafe` code lies here. A struct has one owner, and its `release` is called once.

pub(crate) mod array;
pub(crate) mod array_export;
pub(crate) mod array_import;
pub(crate) mod format;
pub(crate) mod schema;
pub(crate) mod stream;
