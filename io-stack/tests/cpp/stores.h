// Workers that store. Each row has one worker that stores to it; all workers read all rows. A `Ledger` knows the values
// that a read may return, and those that may be on the disk.
#pragma once
#include <atomic>

#include "outcome.h"

struct Ledger {
    World& world;
    u32 size;
    // Versions of each row's value: 0 is what the storage had. Stores that have begun, and that have returned.
    std::vector<std::atomic<u32>> started, done;
    bool one_thread = false;   // the disk may be looked at while the workers run
    std::vector<u32> flushed;  // the version that the last complete flush has made durable

    Ledger(World& w, u32 size)
        : world(w), size(size), started(w.rows()), done(w.rows()), flushed(w.rows(), 0) {}

    u64 value(u64 row, u32 version) const {
        if (version == 0) return value_at(world.address_of(row), size);
        return Random(row * 4099 + version).next() & ~0ull >> (64 - 8 * size);
    }
    // Whether a value is one of those versions.
    bool is_one(u64 row, u64 bits, u32 first, u32 last) const {
        for (u32 version = first; version <= last; version++)
            if (bits == value(row, version)) return true;
        return false;
    }
    // A store of the next version begins; returns its value.
    u64 begin(u64 row) { return value(row, started[row].fetch_add(1) + 1); }
    void end(u64 row, u64 bits) {
        memcpy(&world.model[world.address_of(row)], &bits, size);
        done[row].store(started[row].load());
    }
    // Whether the disk has the value of a store that has returned.
    bool is_on_disk(u64 row, u64 bits) const {
        return memcmp(world.disk->visible + world.address_of(row), &bits, size) == 0;
    }
    // All stores have ended, and a flush after them.
    void flush() {
        for (u64 row = 0; row < world.rows(); row++) flushed[row] = started[row];
    }
    // Rows whose value in an image is neither the flushed one nor a later one. Values that lie in two blocks are left
    // out: a disk writes single blocks whole.
    u64 lost(const std::vector<u8>& image, u64& first) const {
        u64 count = 0;
        for (u64 row = 0; row < world.rows(); row++) {
            u64 at = world.address_of(row), bits = 0;
            if (at / world.disk->block_bytes != (at + size - 1) / world.disk->block_bytes) continue;
            memcpy(&bits, &image[at], size);
            if (is_one(row, bits, flushed[row], started[row])) continue;
            if (count++ == 0) first = row;
        }
        return count;
    }
    // Bytes that no row has, or that the disk and the cache have lost: what a store has changed must be in one of them.
    u64 missing(u64& first) const {
        std::vector<u8> now(world.disk->visible, world.disk->visible + world.disk->bytes);
        const CacheDesc& c = world.io.cache;
        for (u32 m = 0; m < c.set_count * world.config.ways && c.writes != nullptr; m++) {
            u32 sectors = c.writes[m].dirty | c.writes[m].writing, sector = 1u << c.sector_log2;
            u64 slot = m % world.config.ways * c.set_count + m / world.config.ways;
            for (u32 s = 0; s < LINE_BYTES / sector; s++)
                if (sectors >> s & 1)
                    memcpy(&now[(c.tags[m] - world.config.first_line) * LINE_BYTES + s * sector],
                           c.data + slot * LINE_BYTES + s * sector, sector);
        }
        u64 count = 0, begin = world.config.first_byte;
        for (u64 row = 0; row < world.rows(); row++) {  // stores that did not return may be there in part
            if (started[row] != done[row]) memcpy(&now[begin + row * size], &world.model[begin + row * size], size);
        }
        for (u64 at = 0; at < now.size(); at++) {
            if (now[at] == world.model[at]) continue;
            if (count++ == 0) first = at;
        }
        return count;
    }
};

// Rows of a worker: every `workers`-th run of `run` rows.
struct Share {
    u64 rows;
    u32 index, workers, run;
    u64 count() const { return (rows / ((u64)run * workers) + 1) * run; }
    u64 row(u64 i) const { return (i / run * workers + index) * run + i % run; }
    bool has(u64 row) const { return row / run % workers == index; }
};

// A warp that stores and reads. Stops early when a call returns false or a value is wrong.
template <class T, class Backing, bool ALIGNED>
Outcome work_stores(World& world, Ledger& ledger, const Share& share, u64 seed, u32 rounds) {
    constexpr u32 K = WARP == 1 ? 64 : sizeof(T) == 8 ? 16 : 24;
    Random random(seed), own(seed * WARP + lane_id());
    Outcome out;
    ColumnArray<T, Backing, ALIGNED> array(world.io, world.column);
    typedef Layout<T, ALIGNED> In;
    auto stop = [&](bool good) {
        out.gave_up = out.gave_up || !good;
        return !good || any(out.wrong > 0);
    };
    auto check_through = [&](u64 row, u64 bits) {
        if (!Backing::THROUGH || !ledger.one_thread || ledger.is_on_disk(row, bits)) return;
        if (out.wrong++ == 0) out.first_wrong_row = row;
    };
    auto check_read = [&](u64 row, u32 before, T value) {
        u64 bits = In::to_bits(value), at = world.address_of(row);
        out.values++;
        // Another warp's value may change between two words.
        bool whole = at / 8 == (at + sizeof(T) - 1) / 8 || share.has(row);
        if (!whole || ledger.is_one(row, bits, before, ledger.started[row])) return;
        if (out.wrong++ == 0) out.first_wrong_row = row;
    };
    for (u32 i = 0; i < rounds; i++) {
        u64 first = random.next() % share.count(), any_row = random.next() % share.rows;
        u32 wide = random.one_in(2) ? 1 : 1 + random.below(40), kind = random.below(8);
        if (kind < 3) {  // scattered: each lane its own row
            u64 at = first + (u64)lane_id() * wide, row = share.row(at);
            bool active = at < share.count() && row < share.rows && (lane_id() == 0 || !own.one_in(5));
            u64 bits = active ? ledger.begin(row) : 0;
            if (stop(array.store(active, active ? row : 0, In::from_bits(bits)))) return out;
            if (active) ledger.end(row, bits);
            if (active) check_through(row, bits);
        } else if (kind < 5) {  // a run of rows
            u64 row = share.row(first), left = share.run - first % share.run;
            u32 most = LINE_BYTES / sizeof(T) < K * WARP ? LINE_BYTES / sizeof(T) : K * WARP;
            u32 count = 1 + random.below(most);
            if (count > left) count = (u32)left;
            if (row >= share.rows) continue;
            if (count > share.rows - row) count = (u32)(share.rows - row);
            T values[K] = {};
            for (u32 n = lane_id(), k = 0; n < count; n += WARP, k++) values[k] = In::from_bits(ledger.begin(row + n));
            if (stop(array.store_tile(row, count, values))) return out;
            for (u32 n = lane_id(), k = 0; n < count; n += WARP, k++) {
                ledger.end(row + n, In::to_bits(values[k]));
                check_through(row + n, In::to_bits(values[k]));
            }
        } else if (kind < 7) {
            u64 row = random.one_in(2) ? share.row(first) : any_row;
            row = (row + own.below(2 * WARP)) % share.rows;
            u32 before = ledger.done[row];
            T value;
            if (stop(array.fetch(true, row, value))) return out;
            check_read(row, before, value);
        } else {
            u32 before[8], count = 1 + random.below(8 * WARP);
            u64 row = any_row, end = row < world.extents[1].first_row ? world.extents[1].first_row : share.rows;
            if (count > end - row) count = (u32)(end - row);
            T values[8];
            for (u32 n = lane_id(), k = 0; n < count; n += WARP, k++) before[k] = ledger.done[row + n];
            if (random.one_in(3) && stop(array.ahead(row, count))) return out;
            if (stop(array.template tile<8>(row, count, values))) return out;
            for (u32 n = lane_id(), k = 0; n < count; n += WARP, k++) check_read(row + n, before[k], values[k]);
        }
        if (stop(true)) return out;
    }
    return out;
}
