// The decompression kernel DECOMPRESS over the chunks of a file, in buffers of exactly their words and bytes. Compiled
// with sanitizers, behind the kernel's unit. Arguments: the file, and the number of times that each chunk is changed at
// random and decompressed again.
namespace {
// Decompresses `length` bytes to `out`, which has `space` bytes.
ChunkResult decompress_once(const u8* stored, u32 length, u32 codec, u8* out, u32 space) {
    u32 lead = below(8);
    size_t all = ((size_t)lead + length + 7) / 8 * 8;
    u8* words = (u8*)malloc(all ? all : 1);
    memset(words, 0xA5, all);
    memcpy(words + lead, stored, length);
    StoredChunk chunk = {words + lead, out, length, space, codec, 6};
    u32 failed = 0;
    ChunkResult result;
    DecompressLaunch launch = {};
    launch.failed = &failed;
    launch.results = &result;
    launch.jobs = launch.chunks = launch.job[0].count = 1;
    launch.job[0].chunks = &chunk;
    const void* argument = &launch;
    DECOMPRESS(&argument, 0, 1);
    if (failed != (result.status == CHUNK_OK && result.bytes == space ? 0u : 7u)) {
        printf("`failed` is %u after status %u\n", failed, result.status);
        exit(1);
    }
    free(words);
    return result;
}
}  // namespace

int main(int, char** arguments) {
    FILE* file = fopen(arguments[1], "rb");
    u32 mutations = (u32)atoi(arguments[2]), head[4], good = 0, refused = 0, mutants = 0;
    while (file && fread(head, 4, 4, file) == 4) {
        u32 length = head[0], codec = head[1], space = head[2], wanted = head[3];
        u8* stored = (u8*)malloc(length + 1);
        u8* expected = (u8*)malloc(wanted == ~0u ? 1 : wanted + 1);
        if (fread(stored, 1, length, file) != length) return 1;
        if (wanted != ~0u && fread(expected, 1, wanted, file) != wanted) return 1;
        u32 lead = below(8);
        u8* buffer = (u8*)malloc(lead + space);
        u8* out = buffer + lead;
        ChunkResult result = decompress_once(stored, length, codec, out, space);
        bool is_good = result.status == CHUNK_OK;
        // The library zstd takes streams of which bits are left.
        bool is_stricter = codec == CODEC_ZSTD && result.status == CHUNK_CORRUPT;
        if ((is_good != (wanted != ~0u) && !is_stricter) ||
            (is_good && (result.bytes != wanted || memcmp(out, expected, wanted)))) {
            printf("chunk %u: status %u, %u bytes, expected %u\n", good + refused, result.status, result.bytes, wanted);
            return 1;
        }
        (is_good ? good : refused)++;
        for (u32 i = 0; i < mutations && length > 0; i++, mutants++) {
            u32 at = below(length);
            u8 before = stored[at];
            stored[at] = below(2) ? (u8)below(256) : (u8)(before ^ 1u << below(8));
            decompress_once(stored, below(4) ? length : below(length + 1), codec, out, space);
            if (below(3)) stored[at] = before;
        }
        free(buffer);
        free(stored);
        free(expected);
    }
    printf("%u decompressed, %u refused, %u mutants\n", good, refused, mutants);
    return good == 0 || refused == 0;
}
