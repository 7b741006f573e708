// The decompression kernel for Snappy and LZ4.
GRAMPUS_KERNEL(grampus_decompress, grampus::DecompressLaunch, launch) {
    using namespace grampus;
    GRAMPUS_SHARED_BY_WARP(ElementBatch, batch);
    decompress_chunks(launch, [&](const StoredChunk& chunk) { return decompress_elements(chunk, batch); });
}
