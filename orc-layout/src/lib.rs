//! Layout of ORC files: from the bytes of a file to *where everything is*, and from those places to Arrow values.
//!
//! This crate opens no file, starts no thread and talks to no device. Callers hand it bytes ([`source::ByteSource`]);
//! the crate answers with offsets, plans and arrays. A read request travels through the modules in this order:
//!
//! ```text
//! metadata_reader  the requests that read metadata through a source, in this order:
//!   tail             the last bytes of the file: postscript, footer, metadata      -> FileTail
//!   stripe           one stripe's footer: streams with absolute offsets, encodings -> StripeLayout
//!   index            one column's row index and bloom filters in a stripe          -> ColumnIndex
//!   positions        the row index's numbers by stream                             -> ColumnPositions
//! access           how a column is read: direct, or decoded from entry points; the bytes that rows cost
//! decode           streams -> values for exactly the selected rows                 -> arrow arrays
//! encoded_chunk    compression chunks, for a decompressor on a device             -> EncodedChunks
//! encoded_column   the same streams and entry points, for a decoder on a device    -> EncodedColumn
//! report           all metadata of a file, as a tree and as tables                 -> FileReport
//! arrow_reader     columns, rows and filters -> record batches, over a source
//! async_reader     the same over a source whose bytes take time to come (feature `async`)
//! write            arrow arrays -> an ORC file laid out for on-demand reading
//!
//! below them: codec and chunk (compression), schema, text_type, statistics, bloom, selection, row_selector, source,
//!             file_source, streams, postscript, proto and wire (protobuf), read_options, calendar, writer_zone,
//!             decimal_text, error
//! ```
//!
//! **Invariant:** no input, however corrupt, makes this crate panic or loop for ever; it returns a [`LayoutError`] with
//! file, place and advice. Allocations are bounded by the file's claims, which a compression bomb can still push beyond
//! 1 GiB in one read.
#![forbid(unsafe_code)]

pub mod access;
pub mod arrow_reader;
#[cfg(feature = "async")]
pub mod async_reader;
pub mod bloom;
mod calendar;
pub mod chunk;
pub mod codec;
mod decimal_text;
pub mod decode;
pub mod encoded_chunk;
pub mod encoded_column;
pub mod error;
#[cfg(any(unix, windows))]
pub mod file_source;
pub mod index;
pub mod metadata_reader;
pub mod positions;
mod postscript;
pub mod proto;
pub mod read_options;
pub mod report;
pub mod row_selector;
pub mod schema;
pub mod selection;
pub mod source;
pub mod statistics;
pub mod streams;
pub mod stripe;
pub mod tail;
pub mod text_type;
mod wire;
pub mod write;
pub mod writer_zone;

pub use error::{LayoutError, Result};

/// The examples of README.md, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
