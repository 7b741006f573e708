//! Mirrors of the device headers: the structs that kernels and host share, as bytes.
//!
//! ```text
//! query           device/query.h: the parameter of a query kernel
//! paging          device/pages.h: columns of which only some pages are in device memory
//! decode          device/decode.h: the parameter of the decoding kernel, and its tasks
//! decompress      device/decompress.h: the parameter of the decompression kernel, and its chunks
//! library_chunks  device/library_chunks.h: the parameter of the kernels around a library that decompresses
//! ```

pub mod decode;
pub mod decompress;
pub mod library_chunks;
pub mod paging;
pub mod query;
