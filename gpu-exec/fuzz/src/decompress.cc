// The device's decompressors, with one lane, as a C function.
#include "decompress.cuh"
#include "deflate.cuh"
#include "zstd.cuh"

namespace grampus_host {
void step(const char*) {}
grampus::u64 now_ns() { return 0; }
void pause_ns(grampus::u32) {}
int mutant = 0;
__thread grampus::u32 warp, warps;
}  // namespace grampus_host

// Returns the status, and in `*bytes` how many bytes came out.
extern "C" grampus::u32 grampus_decompress_chunk(const grampus::u8* from, grampus::u32 length, grampus::u32 codec,
                                                 grampus::u8* to, grampus::u32 space, grampus::u32* bytes) {
    grampus::StoredChunk chunk = {from, to, length, space, codec, 0};
    grampus::ElementBatch batch;
    static __thread grampus::DeflateState deflate;
    static __thread grampus::ZstdState zstd;
    grampus::ChunkResult result;
    switch (codec) {
    case grampus::CODEC_DEFLATE: result = grampus::decompress_deflate(chunk, deflate); break;
    case grampus::CODEC_ZSTD: result = grampus::decompress_zstd(chunk, zstd); break;
    default: result = grampus::decompress_elements(chunk, batch);
    }
    *bytes = result.bytes;
    return result.status;
}
