//! `DecodeLane`: a stream in which a query's columns are decoded, with the memory for that. A query has several, which
//! take turns: while the last warps of one launch are busy, the next one's begin.

use grampus_cuda::{CudaError, Device, Stream};

use crate::decompress::library_memory::LibraryMemory;

/// Lanes of a query. A launch of a part of the staging buffer fills a third of an H100's warps or more.
const LANES: usize = 4;
/// The same on host threads, so that tests have several.
const LANES_ON_HOST_THREADS: usize = 2;

/// The stream and the memory.
#[derive(Debug)]
pub(crate) struct DecodeLane {
    pub(crate) stream: Stream,
    /// Memory in which nvCOMP works.
    pub(crate) library_memory: LibraryMemory,
}

impl DecodeLane {
    /// The lanes of a query, in which nvCOMP works with so many bytes together, at most.
    pub(crate) fn all(device: &Device, library_bytes: usize) -> Result<Vec<Self>, CudaError> {
        let lanes = match device.is_host() {
            true => LANES_ON_HOST_THREADS,
            false => LANES,
        };
        let lane = |_| {
            Ok(Self {
                stream: Stream::new(device)?,
                library_memory: LibraryMemory::new(library_bytes / lanes),
            })
        };
        (0..lanes).map(lane).collect()
    }
}
