// The decompression kernel for Zstandard.
GRAMPUS_KERNEL_OF_SMALL_BLOCKS(grampus_decompress_zstd, grampus::DecompressLaunch, launch) {
    using namespace grampus;
    GRAMPUS_SHARED_BY_FEW_WARPS(ZstdState, state);
    decompress_chunks(launch, [&](const StoredChunk& chunk) {
        return chunk.codec == CODEC_ZSTD ? decompress_zstd(chunk, state) : ChunkResult{CHUNK_CORRUPT, 0};
    });
}
