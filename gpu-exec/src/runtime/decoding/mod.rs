//! Decompression and decoding on the device, of bytes that were copied there.
//!
//! ```text
//! decode_context      stream, kernels, and nvCOMP's memory
//! decode_lane         a stream and memory for that; a query has several
//! chunk_decompressor  chunks, by the kernel of this crate or by nvCOMP
//! decode_kernel       launches of the decode kernel
//! ```

pub(crate) mod chunk_decompressor;
pub(crate) mod decode_context;
pub(crate) mod decode_kernel;
pub(crate) mod decode_lane;
