// The decode kernel over random bytes, in buffers of exactly their whole words. Compiled with sanitizers, behind the
// decoding unit. Arguments: first seed, number of seeds.
namespace {
// A stream at a random byte of a buffer of whole words.
struct Bytes {
    u8* words;
    DecodeStream stream;
    explicit Bytes(u32 length) {
        u32 lead = below(8);
        size_t all = ((size_t)lead + length + 7) / 8 * 8;
        words = (u8*)malloc(all ? all : 1);
        u32 favour = below(3);
        for (size_t i = 0; i < all; i++) {
            u8 byte = (u8)next();
            words[i] = favour == 0 ? byte : favour == 1 ? (u8)(byte & 0x87) : (u8)(byte | 0x40);
        }
        stream.bytes = words + lead;
        stream.length = length;
        stream.skip = below(4) ? 0 : below(600);
    }
    ~Bytes() { free(words); }
};

bool one() {
    DecodeTask task = {};
    static const u32 widths[] = {1, 2, 4, 8};
    task.coding = 1 + below(6);
    task.secondary_coding = 1 + below(6);
    task.kind = 1 + below(5);
    task.scale = below(40);
    task.width = widths[below(4)];
    if (task.kind == DECODE_CODES) task.width = 4;
    if (task.kind == DECODE_TIMESTAMPS || task.kind == DECODE_DECIMALS) task.width = 8;
    if (task.coding == CODING_RAW && task.width < 4) task.width = 4;
    task.rows = 1 + below(below(4) ? 70 : 2000);
    task.skip_rows = below(3) ? 0 : below(500);
    Bytes present(below(400)), data(below(6000)), secondary(below(6000));
    if (below(2)) task.present = present.stream;
    task.data = data.stream;
    task.secondary = secondary.stream;
    task.epoch = next() >> below(64);
    task.table_length = below(50);
    // The table, too, is whole words.
    u64* table = (u64*)calloc(task.table_length + 1, 16);
    for (u32 i = 0; i < task.table_length; i++) table[2 * i] = (u64)((long long)i * 100000000 - 2000000000);
    task.table = (const u8*)table;
    task.values = (u8*)malloc((size_t)task.rows * task.width);
    task.valid = below(2) ? (u8*)malloc(task.rows) : nullptr;
    u32 failed = 0;
    DecodeLaunch launch = {};
    launch.failed = &failed;
    launch.jobs = launch.tasks = launch.job[0].count = 1;
    launch.job[0].tasks = &task;
    const void* argument = &launch;
    grampus_decode(&argument, 0, 1);
    free(table);
    free(task.values);
    free(task.valid);
    return failed == 0;
}
}  // namespace

int main(int, char** arguments) {
    u32 well = 0, seed = (u32)atoi(arguments[1]), seeds = (u32)atoi(arguments[2]);
    for (u32 i = 0; i < seeds; i++) {
        state = seed + i;
        well += one();
    }
    printf("%u decoded, %u errors\n", well, seeds - well);
}
