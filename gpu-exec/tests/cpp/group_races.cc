// The group tables, filled by several threads at once. Each thread is a warp, of one lane or of 32. ThreadSanitizer
// watches them, and the groups are compared with sums that one thread makes. Stands behind a kernel's unit.
//
// Usage: group_races SEED COUNT
namespace grampus_host {
void step(const char*) {}
grampus::u64 now_ns() { return 0; }
void pause_ns(grampus::u32) { sched_yield(); }
int mutant = 0;
__thread grampus::u32 warp, warps;
}  // namespace grampus_host

namespace {
using namespace grampus;

constexpr u32 THREADS = 4, TILES = WARP == 1 ? 300 : 12, KEYS = 2, OWN = 3, MAX_GROUPS = 48, SLOTS_LOG2 = 6;

// Words that are combined by atomics.
struct Atomic {
    static constexpr u32 COUNT = 7;
    static constexpr Op op(u32 i) {
        constexpr Op OPS[] = {OP_ADD, OP_ADD_FLOAT, OP_ADD_WIDE, OP_WIDE_HIGH, OP_MAX, OP_OR, OP_XOR};
        return OPS[i];
    }
};
// Words that are combined under a lock.
struct Locked {
    static constexpr u32 COUNT = 4;
    static constexpr Op op(u32 i) {
        constexpr Op OPS[] = {OP_ADD, OP_MOMENTS, OP_MOMENTS_REST, OP_MOMENTS_REST};
        return OPS[i];
    }
};

u64 mixed(u64 z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

// What a lane adds: the same in each run of a seed.
template <class Words>
struct Row {
    bool active;
    u32 group;
    u64 key[KEYS], word[Words::COUNT];

    Row(u64 seed, u32 groups, u32 thread, u32 tile, u32 lane) {
        u64 random = mixed(seed * 0x9E3779B97F4A7C15ull + (thread * 1000003ull + tile) * 32 + lane);
        active = random % 8 != 0;
        group = (u32)(random >> 8) % groups;
        // Keys of which one word alone tells two groups apart.
        key[0] = group / 2 * 0x10001ull;
        key[1] = group % 2;
        u64 value = 1 + (random >> 40) % 1000;
        for (u32 i = 0; i < Words::COUNT; i++) word[i] = value;
        if constexpr (Words::COUNT == Atomic::COUNT) {
            word[1] = bits_as<u64>((double)value);
            word[2] = ~0ull - value;  // carries
            word[3] = 0;
        } else {
            word[1] = 1;
            word[2] = bits_as<u64>((double)(value % 2));
            word[3] = 0;
        }
    }
};

template <class Words>
struct Table {
    u64 seed;
    u32 groups, capacity;
    u64 slots[1 << SLOTS_LOG2], words[MAX_GROUPS * (KEYS + Words::COUNT)];
    u32 count, refused;
};

template <class Words>
struct Warp {
    Table<Words>* table;
    u32 thread;
    OwnGroups<Words, KEYS, OWN> own;
};

template <class Words>
void fill(const void* argument) {
    Warp<Words>& warp = *(Warp<Words>*)argument;
    Table<Words>& table = *warp.table;
    QueryHead head = {};
    head.group_slots = table.slots;
    head.group_words = table.words;
    head.group_count = &table.count;
    head.group_capacity = table.capacity;
    head.group_slots_log2 = SLOTS_LOG2;
    head.refused = &table.refused;
    bool uses_own = warp.thread % 2 != 0;
    for (u32 tile = 0; tile < TILES; tile++) {
        Row<Words> row(table.seed, table.groups, warp.thread, tile, lane_id());
        bool done = uses_own ? add_to_own<Words>(head, warp.own, row.active, row.key, row.word)
                             : add_to_all<Words>(head, row.active, row.key, row.word);
        if (!done) return;
    }
    // As at the end of a query: the warp's own groups go to the table of all.
    sync_warp();
    for (u32 base = 0; base < (u32)warp.own.used; base += WARP) {
        u32 at = base + lane_id();
        bool active = at < (u32)warp.own.used;
        u64 key[KEYS], word[Words::COUNT];
        for (u32 i = 0; i < KEYS; i++) key[i] = warp.own.key[active ? at : 0][i];
        for (u32 i = 0; i < Words::COUNT; i++) word[i] = warp.own.word[active ? at : 0][i];
        if (!add_to_all<Words>(head, active, key, word)) return;
    }
}

template <class Words>
void start(Warp<Words>* warp) {
#ifdef GRAMPUS_HOST_LANES
    grampus_host::run_lanes(fill<Words>, warp);
#else
    fill<Words>(warp);
#endif
}

void fail(const char* what, u64 seed, u32 group) {
    printf("FAILED: %s, seed %llu, group %u\n", what, seed, group);
    exit(1);
}

bool is_near(double a, double b) {
    double far = a > b ? a - b : b - a;
    return far <= 1e-9 * (1 + (b > 0 ? b : -b));
}

template <class Words>
u32 one(u64 seed) {
    Table<Words>* table = (Table<Words>*)calloc(1, sizeof(Table<Words>));
    Warp<Words>* warps = (Warp<Words>*)calloc(THREADS, sizeof(Warp<Words>));
    table->seed = seed;
    table->groups = 1 + (u32)(mixed(seed) % MAX_GROUPS);
    table->capacity = seed % 5 == 0 ? table->groups / 2 : MAX_GROUPS;
    std::thread threads[THREADS];
    for (u32 i = 0; i < THREADS; i++) {
        warps[i].table = table;
        warps[i].thread = i;
        threads[i] = std::thread(start<Words>, &warps[i]);
    }
    for (std::thread& thread : threads) thread.join();

    // The oracle adds the same rows, one after the other.
    u64 there = 0, sum[MAX_GROUPS][Words::COUNT] = {};
    for (u32 thread = 0; thread < THREADS; thread++)
        for (u32 tile = 0; tile < TILES; tile++)
            for (u32 lane = 0; lane < WARP; lane++) {
                Row<Words> row(seed, table->groups, thread, tile, lane);
                if (!row.active) continue;
                there |= 1ull << row.group;
                combine<Words>(sum[row.group], row.word);
            }
    u32 groups = (u32)__builtin_popcountll(there);
    bool is_refused = table->refused != 0;
    if (is_refused != (groups > table->capacity)) fail("refused", seed, groups);
    for (u32 at = 0; !is_refused && at < groups; at++) {
        const u64* group = table->words + at * (KEYS + Words::COUNT);
        u32 number = (u32)(group[0] / 0x10001ull * 2 + group[1]);
        if (table->count != groups) fail("groups", seed, table->count);
        if (number >= MAX_GROUPS || (there >> number & 1) == 0) fail("a key twice, or of no row", seed, number);
        there &= ~(1ull << number);
        for (u32 i = 0; i < Words::COUNT; i++) {
            u64 found = group[KEYS + i], wanted = sum[number][i];
            bool is_float = Words::op(i) == OP_ADD_FLOAT || Words::op(i) == OP_MOMENTS_REST;
            bool same = is_float ? is_near(bits_as<double>(found), bits_as<double>(wanted)) : found == wanted;
            if (!same) fail("a sum", seed, number);
        }
    }
    free(table);
    free(warps);
    return is_refused ? 1 : 0;
}

}  // namespace

int main(int, char** arguments) {
    u64 seed = strtoull(arguments[1], nullptr, 10), count = strtoull(arguments[2], nullptr, 10), refused = 0;
    for (u64 at = seed; at < seed + count; at++) refused += one<Atomic>(at) + one<Locked>(at);
    printf("%llu tables, %llu refused\n", 2 * count, refused);
    return 0;
}
