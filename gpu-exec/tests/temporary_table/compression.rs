//! Compressed streams of a [`Table`](super::Table): the stored columns of its files once more, in chunks.

use std::io::Write;
use std::sync::Arc;

use grampus_gpu_exec::input::{FileVersion, Placement};
use grampus_orc_layout::codec::{Codec, Compression};
use grampus_orc_layout::encoded_chunk::{EncodedChunk, EncodedChunks};
use grampus_orc_layout::encoded_column::EncodedStream;

use super::{Kind, Table};

pub(crate) const CODECS: [Codec; 4] = [Codec::Snappy, Codec::Lz4, Codec::Zstd, Codec::Zlib];

fn compress(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    match codec {
        Codec::Snappy => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
        Codec::Lz4 => lz4_flex::block::compress(bytes),
        Codec::Zstd => zstd::bulk::compress(bytes, 3).unwrap(),
        Codec::Zlib => {
            let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
            let mut out = vec![0; compressor.deflate_compress_bound(bytes.len())];
            let length = compressor.deflate_compress(bytes, &mut out).unwrap();
            out.truncate(length);
            out
        }
        // Nothing decompresses these: the test's decoder knows the values.
        Codec::Lzo => bytes.to_vec(),
        other => panic!("no test has chunks of {other:?}"),
    }
}

/// Where a chunk lies in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkPlace {
    pub(crate) stripe: usize,
    pub(crate) column: usize,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) original: bool,
}

/// Puts the streams of all stored columns into chunks of `chunk_bytes` bytes. The n-th chunks stay original, if n is
/// not 0. Returns the chunks.
pub(crate) fn compress_table(table: &mut Table, codec: Codec, chunk_bytes: usize, originals: usize) -> Vec<ChunkPlace> {
    let mut places = Vec::new();
    let mut stored = table.decoder.stored.lock().unwrap();
    let mut keys: Vec<(usize, usize)> = stored.keys().copied().collect();
    keys.sort_unstable();
    for key @ (stripe, column) in keys {
        let at = &mut table.input.stripes[stripe];
        at.compression = Some(Compression {
            codec,
            block_size_bytes: chunk_bytes as u64,
        });
        let path = table.input.files[at.file].path.clone();
        let mut file = std::fs::read(&path).unwrap();
        let mut encoded = (*stored[&key]).clone();
        let mut stored_bytes = 0;
        let mut store = |stream: &mut EncodedStream| {
            let bytes = file[stream.offset as usize..][..stream.length as usize].to_vec();
            let (mut chunks, mut start) = (Vec::new(), 0);
            stream.offset = file.len() as u64;
            for (number, chunk) in bytes.chunks(chunk_bytes).enumerate() {
                let original = originals > 0 && number % originals == originals - 1;
                let body = if original {
                    chunk.to_vec()
                } else {
                    compress(codec, chunk)
                };
                file.extend([0x5A; 3]); // the header, which a device does not read
                let chunk_at = EncodedChunk {
                    offset: file.len() as u64,
                    length: body.len() as u32,
                    original,
                    start,
                };
                places.push(ChunkPlace {
                    stripe,
                    column,
                    offset: chunk_at.offset,
                    length: chunk_at.length,
                    original,
                });
                chunks.push(chunk_at);
                file.extend(&body);
                stored_bytes += 3 + body.len() as u64;
                start += chunk.len() as u64;
            }
            stream.chunks = Some(EncodedChunks {
                codec,
                bytes: start,
                chunks,
            });
        };
        encoded.present.iter_mut().for_each(&mut store);
        store(&mut encoded.data);
        stored.insert(key, Arc::new(encoded));
        at.columns[column] = Placement::Decoded {
            stored_bytes,
            on_device: true,
            chunk_bytes: (table.kinds[column] == Kind::Plain).then_some(chunk_bytes as u64),
        };
        std::fs::File::create(&path).unwrap().write_all(&file).unwrap();
    }
    drop(stored);
    new_versions(table);
    places
}

/// Overwrites the bytes of chunks.
pub(crate) fn damage(table: &mut Table, chunks: &[ChunkPlace]) {
    for chunk in chunks {
        let path = table.path(table.input.stripes[chunk.stripe].file);
        let mut file = std::fs::read(&path).unwrap();
        file[chunk.offset as usize..][..chunk.length as usize].fill(0xFF);
        std::fs::write(&path, file).unwrap();
    }
    new_versions(table);
}

fn new_versions(table: &mut Table) {
    for file in &mut table.input.files {
        *file = FileVersion::of(&file.path).unwrap();
    }
}
