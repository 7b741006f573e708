//! [`OrcStreamBuilder`], the rows of a file as an asynchronous stream of Arrow batches.
//!
//! - `source`: [`AsyncByteSource`], the bytes of a file that take time to come
//! - `object_store`: a file in an object store (feature `object_store`)
//! - `fetched_ranges`: the bytes of a stripe that have come
//! - `record_batch_stream`: a scan that tells its ranges ahead, and the stream of its batches

mod fetched_ranges;
#[cfg(feature = "object_store")]
mod object_store;
mod record_batch_stream;
mod source;

#[cfg(feature = "object_store")]
pub use self::object_store::ObjectStoreSource;
pub use record_batch_stream::{AsyncReader, OrcRecordBatchStream, OrcStreamBuilder};
pub use source::AsyncByteSource;
