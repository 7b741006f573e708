// The decompression kernel for deflate.
GRAMPUS_KERNEL_OF_SMALL_BLOCKS(grampus_decompress_deflate, grampus::DecompressLaunch, launch) {
    using namespace grampus;
    GRAMPUS_SHARED_BY_FEW_WARPS(DeflateState, state);
    decompress_chunks(launch, [&](const StoredChunk& chunk) {
        return chunk.codec == CODEC_DEFLATE ? decompress_deflate(chunk, state) : ChunkResult{CHUNK_CORRUPT, 0};
    });
}
