//! `ChunkTable`: a table of chunks in device memory, as the host knows it.

use grampus_orc_layout::codec::Codec;

use crate::abi::decompress::{
    CODEC_DEFLATE, CODEC_LZ4, CODEC_SNAPPY, CODEC_UNKNOWN, CODEC_ZSTD, ChunkJob, DECOMPRESS_JOBS, StoredChunk,
};

/// The chunks of one batch of stored bytes: the compressed ones, then the original ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkTable {
    /// Codec of the compressed chunks.
    pub codec: Codec,
    /// Device address of the table.
    pub address: u64,
    /// Compressed chunks.
    pub compressed: usize,
    /// Original chunks, behind the compressed ones.
    pub originals: usize,
    /// Stored bytes of a compressed chunk, at most.
    pub max_stored_bytes: u32,
    /// Bytes that come out of a compressed chunk, at most.
    pub max_bytes: u32,
}

impl ChunkTable {
    /// An empty table.
    pub fn new(codec: Codec, address: u64) -> Self {
        Self {
            codec,
            address,
            compressed: 0,
            originals: 0,
            max_stored_bytes: 0,
            max_bytes: 0,
        }
    }

    /// Counts a chunk.
    pub fn add(&mut self, original: bool, stored_bytes: u32, bytes: u32) {
        if original {
            self.originals += 1;
            return;
        }
        self.compressed += 1;
        self.max_stored_bytes = self.max_stored_bytes.max(stored_bytes);
        self.max_bytes = self.max_bytes.max(bytes);
    }

    /// All chunks: address and number.
    pub(crate) fn all(&self) -> (u64, usize) {
        (self.address, self.compressed + self.originals)
    }

    /// The compressed chunks: address and number.
    pub(crate) fn compressed(&self) -> (u64, usize) {
        (self.address, self.compressed)
    }

    /// The original chunks: address and number.
    pub(crate) fn originals(&self) -> (u64, usize) {
        (self.address + bytes_of(self.compressed), self.originals)
    }
}

fn bytes_of(chunks: usize) -> u64 {
    (chunks * size_of::<StoredChunk>()) as u64
}

/// A codec's number for kernels.
pub fn codec_number(codec: Codec) -> u32 {
    match codec {
        Codec::Snappy => CODEC_SNAPPY,
        Codec::Lz4 => CODEC_LZ4,
        Codec::Zstd => CODEC_ZSTD,
        Codec::Zlib => CODEC_DEFLATE,
        _ => CODEC_UNKNOWN,
    }
}

/// The jobs of one launch, and the number of their chunks.
pub(crate) struct LaunchJobs {
    pub(crate) jobs: Vec<ChunkJob>,
    pub(crate) chunks: u32,
}

impl LaunchJobs {
    /// The jobs as an array of a launch's parameter.
    pub(crate) fn array(&self) -> [ChunkJob; DECOMPRESS_JOBS] {
        let mut array = [ChunkJob::default(); DECOMPRESS_JOBS];
        array.iter_mut().zip(&self.jobs).for_each(|(to, job)| *to = *job);
        array
    }
}

/// Divides tables, each an address and a number of chunks, into launches of at most `max_chunks` chunks.
pub(crate) fn launches(tables: impl IntoIterator<Item = (u64, usize)>, max_chunks: usize) -> Vec<LaunchJobs> {
    let max_chunks = max_chunks.clamp(1, u32::MAX as usize);
    let mut launches: Vec<LaunchJobs> = Vec::new();
    for (mut address, mut left) in tables {
        while left > 0 {
            let space = |launch: &LaunchJobs| match launch.jobs.len() < DECOMPRESS_JOBS {
                true => max_chunks - launch.chunks as usize,
                false => 0,
            };
            if launches.last().is_none_or(|launch| space(launch) == 0) {
                launches.push(LaunchJobs {
                    jobs: Vec::new(),
                    chunks: 0,
                });
            }
            let Some(launch) = launches.last_mut() else { break };
            let count = left.min(space(launch));
            launch.jobs.push(ChunkJob {
                chunks: address,
                first: launch.chunks,
                count: count as u32,
            });
            launch.chunks += count as u32;
            left -= count;
            address += bytes_of(count);
        }
    }
    launches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_divided_into_launches_of_so_many_chunks_and_jobs() {
        let shown = |launches: &[LaunchJobs]| -> Vec<Vec<(u64, u32, u32)>> {
            let job = |job: &ChunkJob| (job.chunks, job.first, job.count);
            launches.iter().map(|l| l.jobs.iter().map(job).collect()).collect()
        };
        let divided = launches([(1000, 5), (5000, 0), (9000, 3)], 4);
        let expected = [vec![(1000, 0, 4)], vec![(1000 + 4 * 32, 0, 1), (9000, 1, 3)]];
        assert_eq!(shown(&divided), expected);
        assert_eq!(divided.iter().map(|l| l.chunks).collect::<Vec<_>>(), [4, 4]);
        let many = launches((0..300).map(|at| (at, 1)), usize::MAX);
        let jobs: Vec<usize> = many.iter().map(|launch| launch.jobs.len()).collect();
        assert_eq!(jobs, [DECOMPRESS_JOBS, DECOMPRESS_JOBS, 300 - 2 * DECOMPRESS_JOBS]);
        assert!(launches([], 4).is_empty());
    }

    #[test]
    fn table_has_its_compressed_chunks_before_the_original_ones() {
        let mut table = ChunkTable::new(Codec::Zstd, 640);
        for (original, stored, bytes) in [(true, 900, 900), (false, 10, 70), (false, 20, 60)] {
            table.add(original, stored, bytes);
        }
        assert_eq!((table.max_stored_bytes, table.max_bytes), (20, 70));
        assert_eq!((table.all(), table.compressed()), ((640, 3), (640, 2)));
        assert_eq!(table.originals(), (640 + 2 * 32, 1));
    }
}
