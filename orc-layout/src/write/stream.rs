//! [`OutStream`], one stream's bytes as stored in the file: raw, or cut into compression chunks (ORC v1,
//! "Compression").

use std::io::{self, Write};

use crate::chunk::{self, HEADER_BYTES};
use crate::codec::Codec;
use crate::error::{LayoutError, Result};

/// Storage of a column's streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    /// Unchanged bytes: the file is not compressed.
    Raw,
    /// Chunks of `size_bytes` uncompressed bytes; original chunks if there is no codec.
    Chunks {
        /// Codec of each chunk; a chunk that shrinks by less than a tenth is stored as original.
        codec: Option<Codec>,
        /// Uncompressed bytes of every chunk but the last.
        size_bytes: usize,
    },
}

impl Storage {
    /// The same with other chunks, if there are chunks.
    pub(super) fn with_chunks_of(self, size_bytes: usize) -> Self {
        match self {
            Self::Raw => Self::Raw,
            Self::Chunks { codec, .. } => Self::Chunks { codec, size_bytes },
        }
    }
}

/// Size of the buffers that keep encoded bytes. A growing stream is never copied, and a reused stream keeps its memory.
const BUFFER_BYTES: usize = 1 << 20;

/// Bytes of a stream that is being written.
#[derive(Debug)]
pub(super) struct OutStream {
    storage: Storage,
    /// The beginning of an incomplete chunk; empty for raw streams.
    pending: Vec<u8>,
    /// Finished bytes; the buffers from `used` on are empty and wait to be used again.
    buffers: Vec<Vec<u8>>,
    used: usize,
    length: u64,
    scratch: Vec<u8>,
}

impl OutStream {
    pub(super) fn new(storage: Storage) -> Self {
        Self {
            storage,
            pending: Vec::new(),
            buffers: Vec::new(),
            used: 0,
            length: 0,
            scratch: Vec::new(),
        }
    }

    /// Appends encoded bytes.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let Storage::Chunks { size_bytes, .. } = self.storage else {
            self.append(bytes);
            return Ok(());
        };
        while !bytes.is_empty() {
            if self.pending.is_empty() && bytes.len() >= size_bytes {
                let (chunk, rest) = bytes.split_at(size_bytes);
                self.append_chunk(chunk)?;
                bytes = rest;
                continue;
            }
            let taken = bytes.len().min(size_bytes - self.pending.len());
            self.pending.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.pending.len() == size_bytes {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Appends the position of the next byte, as the row index counts it: the byte, or the chunk and the byte in it.
    pub(super) fn position(&self, positions: &mut Vec<u64>) {
        positions.push(self.length);
        if self.storage != Storage::Raw {
            positions.push(self.pending.len() as u64);
        }
    }

    /// Ends the last chunk. Nothing may be written afterwards until [`clear`](Self::clear).
    pub(super) fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.pending);
        let result = self.append_chunk(&chunk);
        self.pending = chunk;
        self.pending.clear();
        result
    }

    /// Stored bytes, without an incomplete chunk.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes held in memory, about.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.length as usize + self.pending.len()
    }

    /// Bytes held in memory, with the buffers that wait to be used again.
    pub(super) fn memory_size(&self) -> usize {
        let buffers: usize = self.buffers.iter().map(capacity_bytes).sum();
        buffers + capacity_bytes(&self.buffers) + self.pending.capacity() + self.scratch.capacity()
    }

    /// Storage of the bytes.
    pub(super) fn storage(&self) -> Storage {
        self.storage
    }

    /// Writes the stored bytes to `sink`.
    pub(super) fn write_to(&self, sink: &mut impl Write) -> io::Result<()> {
        debug_assert!(self.pending.is_empty());
        self.buffers[..self.used]
            .iter()
            .try_for_each(|buffer| sink.write_all(buffer))
    }

    /// Empties the stream; its memory stays for the next stripe.
    pub(super) fn clear(&mut self) {
        self.buffers[..self.used].iter_mut().for_each(Vec::clear);
        self.used = 0;
        self.length = 0;
        self.pending.clear();
    }

    fn append_chunk(&mut self, chunk: &[u8]) -> Result<()> {
        let Storage::Chunks { codec, .. } = self.storage else {
            self.append(chunk);
            return Ok(());
        };
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        if codec.is_none() {
            let header = chunk::ChunkHeader {
                length: chunk.len() as u32,
                original: true,
            };
            self.append(&header.to_bytes());
            self.append(chunk);
        } else {
            chunk::append_chunk(codec, chunk, &mut scratch).map_err(LayoutError::Write)?;
            self.append(&scratch);
        }
        self.scratch = scratch;
        Ok(())
    }

    fn append(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        while !bytes.is_empty() {
            if self.used == 0 || self.buffers[self.used - 1].len() >= BUFFER_BYTES {
                if self.used == self.buffers.len() {
                    self.buffers.push(Vec::new());
                }
                self.used += 1;
                // A stream that has filled a buffer will probably fill the next one, which is therefore allocated
                // whole.
                if self.used > 1 {
                    self.buffers[self.used - 1].reserve_exact(BUFFER_BYTES);
                }
            }
            let buffer = &mut self.buffers[self.used - 1];
            let taken = bytes.len().min(BUFFER_BYTES - buffer.len());
            buffer.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
        }
    }
}

/// Bytes that a list has allocated.
pub(super) fn capacity_bytes<T>(list: &Vec<T>) -> usize {
    list.capacity() * size_of::<T>()
}

/// A whole section (footer, metadata, index) in its stored form.
pub(super) fn encode_section(storage: Storage, bytes: &[u8]) -> Result<Vec<u8>> {
    let Storage::Chunks { codec, size_bytes } = storage else {
        return Ok(bytes.to_vec());
    };
    let mut out = Vec::with_capacity(bytes.len() / 2 + HEADER_BYTES);
    for chunk in bytes.chunks(size_bytes) {
        chunk::append_chunk(codec, chunk, &mut out).map_err(LayoutError::Write)?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_positions_name_the_chunk_and_the_byte_in_it() {
        let mut stream = OutStream::new(Storage::Chunks {
            codec: None,
            size_bytes: 64,
        });
        let mut positions = vec![];
        stream.position(&mut positions);
        stream.write(&[7; 100]).unwrap();
        stream.position(&mut positions);
        stream.write(&[7; 28]).unwrap();
        stream.position(&mut positions);
        assert_eq!(positions, [0, 0, 67, 36, 134, 0]);
        stream.write(&[8; 1]).unwrap();
        stream.flush().unwrap();
        let mut bytes = vec![];
        stream.write_to(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, stream.length());
        assert_eq!(bytes.len(), 128 + 1 + 3 * HEADER_BYTES);
        assert_eq!(bytes[..4], [129, 0, 0, 7]);
    }

    #[test]
    fn long_streams_span_buffers_and_restart_after_clear() {
        let mut stream = OutStream::new(Storage::Raw);
        for round in 0..2u8 {
            for value in 0..5u8 {
                stream.write(&vec![value + round; BUFFER_BYTES / 2 + 3]).unwrap();
            }
            let mut bytes = vec![];
            stream.write_to(&mut bytes).unwrap();
            assert_eq!(bytes.len(), 5 * (BUFFER_BYTES / 2 + 3));
            assert!(
                bytes
                    .iter()
                    .enumerate()
                    .all(|(i, &b)| b == (i / (BUFFER_BYTES / 2 + 3)) as u8 + round)
            );
            stream.clear();
        }
    }
}
