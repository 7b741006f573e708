// The workers of the tests: warps that read random rows in every way, and compare each byte with its address.
//
// All lanes of a warp draw the same operations. Its lanes have rows of their own.
#pragma once
#include "outcome.h"

template <class T>
void check(const World& world, Outcome& out, u64 row, T value) {
    u64 bits = 0;
    memcpy(&bits, &value, sizeof(T));
    out.values++;
    if (bits == value_at(world.address_of(row), sizeof(T))) return;
    if (out.wrong++ == 0) out.first_wrong_row = row;
}

// A warp at work. Stops early when a call returns false or a value is wrong.
template <class T, class Backing, bool ALIGNED>
Outcome work(World& world, u64 seed, u32 rounds) {
    constexpr u32 K = 16;
    Random random(seed), own(seed * WARP + lane_id());
    Outcome out;
    ColumnArray<T, Backing, ALIGNED> array(world.io, world.column);
    u64 rows = world.rows(), row = random.below((u32)rows);
    auto stop = [&](bool good) {
        out.gave_up = !good;
        return !good || any(out.wrong > 0);
    };
    // Lane 0 always has the warp's row. Some other lanes have none.
    auto has_row = [&] { return lane_id() == 0 || !own.one_in(4); };
    auto own_row = [&](u32 spread) { return lane_id() == 0 ? row : (row + own.below(spread)) % rows; };
    for (u32 i = 0; i < rounds; i++) {
        if (!random.one_in(3)) row = random.below((u32)rows);  // else goes on nearby
        u32 count = 1 + random.below(K * WARP), spread = random.one_in(3) ? (u32)rows : random.one_in(2) ? 2 * WARP : 4;
        if (count > rows - row) count = (u32)(rows - row);
        T values[K], value;
        switch (random.below(8)) {
            case 0:
                if (stop(array.prefetch(has_row(), own_row(spread)))) return out;
                break;
            case 1: {
                u64 in_extent = row < world.extents[1].first_row ? world.extents[1].first_row - row : rows - row;
                u64 want = 1 + random.below(4 * LINE_BYTES / sizeof(T));
                if (stop(array.ahead(row, want < in_extent ? want : in_extent))) return out;
                break;
            }
            case 2:
            case 3:
            case 4: {
                bool active = has_row();
                u64 mine = own_row(spread);
                for (u32 times = 1 + random.below(3); times > 0; times--) {  // again: the line may be resident
                    if (stop(array.fetch(active, mine, value))) return out;
                    if (active) check(world, out, mine, value);
                    if (stop(true)) return out;
                }
                break;
            }
            default: {
                u64 first_row = world.extents[row >= world.extents[1].first_row].first_row;
                u64 end = first_row == 0 ? world.extents[1].first_row : rows;
                bool inside = row + count <= end;
                bool follows = random.one_in(2);
                if (stop(inside && follows ? array.template tile<K>(row, count, values)
                         : inside ? array.template tile<K, false>(row, count, values)
                                  : array.template tile_across<K>(row, count, values)))
                    return out;
                for (u32 n = lane_id(); n < count; n += WARP) check(world, out, row + n, values[n / WARP]);
                if (stop(true)) return out;
                row = row + count < rows ? row + count : 0;
            }
        }
    }
    return out;
}

// Raw commands: blocks of the storage into each lane's own buffer, through the bounce slot or directly.
template <class Backing>
Outcome work_raw(World& world, u64 seed, u32 rounds) {
    Random own(seed * WARP + lane_id());
    Outcome out;
    FillFinish<Backing::WAYS> finish(world.io.cache);
    alignas(4096) u64x2 buffer[2 * LINE_BYTES / 16];
    for (u32 i = 0; i < (WARP > 1 ? rounds / 4 : rounds); i++) {
        u32 queue = own.below(world.io.queue_count);
        bool wanted = lane_id() == 0 || !own.one_in(4);
        Command c = {};
        c.kind = CMD_RAW;
        c.blocks = 1 + own.below(2 * LINE_BYTES >> world.source.lba_log2);
        c.bytes = c.blocks << world.source.lba_log2;
        c.lba = own.below((u32)world.source.blocks - c.blocks + 1);
        c.nsid = world.source.nsid;
        c.bus = c.target = (u64)buffer;
        out.gave_up = !run_raw(world.io, wanted, queue, c, finish);
        if (out.gave_up) return out;
        if (!wanted) continue;
        u64 at = c.lba << world.source.lba_log2;
        for (u32 b = 0; b < c.bytes; b++) {
            if (((const u8*)buffer)[b] == byte_at(at + b)) continue;
            if (out.wrong++ == 0) out.first_wrong_row = at + b;
        }
        out.values += c.bytes;
    }
    return out;
}

typedef Outcome (*Work)(World&, u64, u32);
typedef bool (*Drain)(World&);
typedef void (*Serve)(World&, u32 server, const u32* ended, u32 all);

template <class Backing>
bool drain_all(World& world) {
    FillFinish<Backing::WAYS> finish(world.io.cache);
    for (u32 q = 0; q < world.io.queue_count; q++)
        if (!drain(world.io, q, finish)) return false;
    return true;
}

template <class Backing>
void serve_some(World& world, u32 server, const u32* ended, u32 all) {
    serve(world.io, server, ended, all, FillFinish<Backing::WAYS>(world.io.cache));
}

struct Kind {
    const char* name;
    u32 value_bytes, alignment;
    bool queued;
    Work work;
    Drain drain;
    Serve serve;
};

#define KIND(T, align, queued, ...)                                                                            \
    Kind { #T " " #__VA_ARGS__, sizeof(T), align, queued, work<T, __VA_ARGS__, align == sizeof(T)>,                 \
           drain_all<__VA_ARGS__>, serve_some<__VA_ARGS__> }

static const Kind KINDS[] = {
    KIND(u64, 8, true, Queued<Clock, 2>),
    KIND(double, 1, true, Queued<Clock, 2>),
    KIND(u32, 1, true, Queued<Fifo, 2>),
    KIND(u16, 2, true, Queued<Fifo, 2>),
    Kind{"raw commands", 1, 1, true, work_raw<Queued<Clock, 2>>, drain_all<Queued<Clock, 2>>,
         serve_some<Queued<Clock, 2>>},
    KIND(u64, 1, false, MappedCached<Clock, 2>),
    KIND(float, 4, false, MappedCached<Fifo, 2>),
};
constexpr u32 KIND_COUNT = sizeof(KINDS) / sizeof(KINDS[0]);

// A small world by seed: sometimes two lines, sometimes a few; every size of command, sector and ring.
inline Config random_config(Random& random, const Kind& kind) {
    Config c;
    c.depth_log2 = 1 + random.below(3);
    c.queues = 1 + random.below(2);
    c.group_log2 = random.below(4);
    c.groups = 1 + random.below(3);
    c.sector_log2 = 7 + random.below(6);
    c.lba_log2 = random.one_in(3) ? 12 : 9;
    c.bounce_bytes = random.one_in(3) ? 0 : random.one_in(2) ? 512 : 4096;
    c.max_lines = 1 + random.below(8);
    c.first_byte = random.below(LINE_BYTES / kind.alignment) * kind.alignment;
    if (kind.queued && random.one_in(2)) c.servers = 1 + random.below(2);
    c.present = random.below(c.servers + 1);
    c.late_data = kind.queued && random.one_in(3);
    c.start = random.one_in(2) ? 0 : 0xFFFFFF80;
    c.version = random.one_in(2) ? 0 : 0x3FFF - random.below(4);
    return c;
}
