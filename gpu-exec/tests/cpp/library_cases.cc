// The kernels around nvCOMP over random bytes that look like Zstandard frames, in buffers of exactly their words and
// bytes. Compiled with sanitizers, behind the unit of these kernels. In place of nvCOMP, the program states a result at
// random. Argument: the number of chunks.
namespace {
// Bytes of a frame whose header and blocks are mostly right. Returns the length.
u32 frame(u8* out, u32 space) {
    u32 at = 0, flags = below(4) ? 0x20 : below(256);
    for (u32 i = 0; i < 4; i++) out[at++] = (u8)(ZSTD_MAGIC >> 8 * i);
    out[at++] = (u8)flags;
    if ((flags & 0x20) == 0) out[at++] = (u8)below(256);
    out[at++] = (u8)space;
    u32 blocks = 1 + below(4);
    for (u32 k = 0; k < blocks; k++) {
        u32 type = below(9) ? below(3) : 3, size = below(9) ? below(20) : below(1 << 20);
        u32 header = (k + 1 == blocks) | type << 1 | size << 3;
        for (u32 i = 0; i < 3; i++) out[at++] = (u8)(header >> 8 * i);
        for (u32 i = 0; i < (type == 1 ? 1 : size < 20 ? size : 20); i++) out[at++] = (u8)below(256);
    }
    if (flags & 4) at += 4;
    u32 wrong = below(8);
    return wrong == 0 ? below(at + 1) : wrong == 1 ? at + below(3) : at;
}
}  // namespace

int main(int, char** arguments) {
    u32 cases = (u32)atoi(arguments[1]), shown = 0, hidden = 0, taken = 0;
    for (u32 i = 0; i < cases; i++) {
        static u8 text[256];
        u32 space = 1 + below(255), length = frame(text, space), lead = below(8);
        if (length == 0) continue;
        size_t all = ((size_t)lead + length + 7) / 8 * 8;
        u8 *words = (u8*)malloc(all), *out = (u8*)malloc(space);
        memset(words, 0xA5, all);
        memcpy(words + lead, text, length);
        u32 codec = below(5) ? CODEC_ZSTD : CODEC_DEFLATE;
        StoredChunk chunk = {words + lead, out, length, space, codec, 6};
        LibraryLaunch launch = {};
        u32 failed = 0, status;
        u64 input, input_bytes, allowed, output_bytes, output;
        ChunkResult result;
        launch.failed = &failed;
        launch.results = &result;
        launch.inputs = &input;
        launch.input_bytes = &input_bytes;
        launch.spaces = &allowed;
        launch.output_bytes = &output_bytes;
        launch.outputs = &output;
        launch.statuses = &status;
        launch.stored_stride = (length + 15) / 16 * 16;
        launch.decompressed_stride = (space + 15) / 16 * 16;
        launch.stored = (u8*)malloc(launch.stored_stride);
        launch.decompressed = (u8*)malloc(launch.decompressed_stride);
        launch.jobs = launch.chunks = launch.job[0].count = 1;
        launch.job[0].chunks = &chunk;
        const void* argument = &launch;
        grampus_prepare_chunks(&argument, 0, 1);
        bool is_shown = input_bytes == length && memcmp((u8*)input, text, length) == 0;
        if (!is_shown && (input_bytes != ZSTD_STAND_IN_BYTES || allowed == space || codec != CODEC_ZSTD)) {
            printf("case %u: a chunk is shown in part\n", i);
            return 1;
        }
        (is_shown ? shown : hidden)++;
        launch.called = below(8) != 0;
        bool is_done = below(4) != 0;
        if (is_done) {
            status = below(4) == 0;
            output_bytes = is_shown ? (below(4) ? space : below(1 << 20)) : 1;
            memset((u8*)output, 0x5A, is_shown ? space : 1);
        }
        grampus_take_chunks(&argument, 0, 1);
        bool good = is_shown && launch.called && is_done && status == 0 && output_bytes == space;
        if ((failed == 0) != good || (good && (result.status != CHUNK_OK || out[space - 1] != 0x5A))) {
            printf("case %u: `failed` is %u\n", i, failed);
            return 1;
        }
        taken += good;
        free(launch.decompressed);
        free(launch.stored);
        free(words);
        free(out);
    }
    printf("%u shown, %u hidden, %u taken\n", shown, hidden, taken);
    return shown == 0 || hidden == 0 || taken == 0;
}
