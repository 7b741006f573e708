// `World`: what device code needs to run without a GPU: queues, cache, and a storage of bytes that are a function of
// their address, until kernels store others. Also the checks that must hold when nothing is outstanding. The test
// program has the threads and schedules.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <functional>
#include <memory>
#include <vector>

#include "column_array.cuh"
#include "serve.cuh"
#include "store.cuh"
#include "layout_asserts.h"
#include "disk.h"

// The byte at each address of the storage.
inline u8 byte_at(u64 address) { return (u8)(Random(address / 8 * 77 + 5).next() >> (address % 8 * 8)); }
inline u64 value_at(u64 address, u32 size) {
    u64 value = 0;
    for (u32 i = 0; i < size; i++) value |= (u64)byte_at(address + i) << (8 * i);
    return value;
}

struct Config {
    u32 depth_log2 = 2, queues = 1, ways = 2, group_log2 = 0, groups = 1, sector_log2 = 9, lba_log2 = 9;
    u32 bounce_bytes = 4096, max_lines = 1, storage_lines = 16, first_byte = 0;
    u32 servers = 0, present = 0;  // servers that submitters count on; of these, those that exist
    u32 start = 0;  // start of the queues' counters: near 2^32, they wrap
    u32 version = 0;  // start of the lines' versions: near 2^14, they wrap
    u64 first_line = 1ull << 40, timeout_ns = 30000000000ull;
    bool writable = false;  // kernels store
    bool late_data = false;  // data that is not bounced comes after its completion, by a register's read at the latest
};

// Faults of a controller, each with probability one in n; 0: never.
struct Faults {
    u32 reorder = 0, delay = 0, drop = 0, duplicate = 0, fail = 0;
    u32 fail_prefetch = 0;   // like `fail`, prefetches only
    u32 fail_write = 0;      // like `fail`, writes only
    u64 fail_nth = ~0ull;    // the command that fails, counted over all queues from 0
    bool stall = false;
};

struct World {
    Config config;
    u64 taken = 0;        // commands that controllers have decided on
    u32 nth_kind = ~0u;   // kind of the command that `fail_nth` names
    Status status = {};
    Stats stats = {};
    u32 abort_word = 0;
    std::vector<QueueDesc> queues;
    SourceDesc source = {};
    Extent extents[2] = {};
    ColumnDesc column = {};
    IoStack io = {};
    std::vector<void*> owned;
    std::unique_ptr<Disk> disk;  // of a writable world
    std::vector<u8> model;       // of a writable world: the bytes after all stores
    std::vector<std::function<void()>> late;  // data on its way, of a controller with late data
    std::mutex late_lock;
    u32 device_register = 0;
    std::function<void(Random&)> on_command;  // called by a controller after each command

    template <class T>
    T* make(u64 count) {
        void* p = aligned_alloc(4096, (count * sizeof(T) + 4095) / 4096 * 4096);
        memset(p, 0, count * sizeof(T));
        owned.push_back(p);
        return (T*)p;
    }

    // Two extents of values of `size` bytes over the same storage; they have only the key space in common.
    World(const Config& c, u32 size) : config(c) {
        u64 bytes = (u64)c.storage_lines * LINE_BYTES;
        u8* file = make<u8>(bytes);
        for (u64 a = 0; a < bytes; a++) file[a] = byte_at(a);
        if (c.writable) {
            disk = std::make_unique<Disk>(file, bytes, 1u << c.lba_log2);
            model.assign(file, file + bytes);
            source.flags = SOURCE_WRITABLE;
        }
        u64 rows = (bytes - c.first_byte) / size;
        extents[0].first_row = 0;
        extents[0].rows = rows / 2;
        extents[0].first_line = c.first_line;
        extents[0].first_byte = c.first_byte;
        extents[0].mapped = file;
        u64 at = c.first_byte + rows / 2 * size;
        extents[1].first_row = rows / 2;
        extents[1].rows = rows - rows / 2;
        extents[1].first_line = c.first_line + at / LINE_BYTES;
        extents[1].storage_byte = at / LINE_BYTES * LINE_BYTES;
        extents[1].first_byte = (u32)(at % LINE_BYTES);
        extents[1].mapped = file + at / LINE_BYTES * LINE_BYTES;
        column.extents = extents;
        column.extent_count = 2;
        column.value_bytes = size;
        source.blocks = bytes >> c.lba_log2;
        source.nsid = 7;
        source.lba_log2 = c.lba_log2;
        source.queue_count = c.queues;
        source.max_lines = c.max_lines;
        for (u32 i = 0; i < c.queues; i++) add_queue(i);
        add_cache();
        io.status = &status;
        io.stats = &stats;
        io.host_abort = &abort_word;
        io.queues = queues.data();
        io.sources = &source;
        io.timeout_ns = c.timeout_ns;
        io.queue_count = c.queues;
        io.source_count = 1;
        io.servers = c.servers;
    }
    ~World() {
        for (void* p : owned) free(p);
    }
    World(const World&) = delete;

    u64 rows() const { return extents[1].first_row + extents[1].rows; }
    u64 address_of(u64 row) const { return config.first_byte + row * column.value_bytes; }

    void add_queue(u32 index) {
        u32 depth = 1u << config.depth_log2;
        QueueDesc q = {};
        q.sq = make<SqEntry>(depth);
        q.cq = make<CqEntry>(depth);
        q.sq_doorbell = make<u32>(16);
        q.cq_doorbell = make<u32>(16);
        q.state = make<QueueState>(1);
        q.marks = make<u32>(depth);
        q.free_ring = make<u32>(depth);
        q.commands = make<CommandRecord>(depth);
        q.bounce = make<u8>((u64)depth * (config.bounce_bytes ? config.bounce_bytes : 1));
        q.bounce_bus = (u64)q.bounce;
        q.bounce_bytes = config.bounce_bytes;
        q.depth_log2 = config.depth_log2;
        q.qid = index + 1;
        if (config.late_data) q.flags = QUEUE_LATE_DATA;
        q.ordering_read = &device_register;
        for (u32 i = 0; i < depth; i++) q.free_ring[i] = i + 1 < depth ? i : FREE_RING_EMPTY;
        q.state->credits = (i32)depth - 1;
        q.state->push_ticket = config.start + depth - 1;
        q.state->pop_ticket = q.state->sq_ticket = q.state->sq_tail = config.start;
        q.state->cq_head = q.state->cq_rung = config.start;
        queues.push_back(q);
    }

    // All data on its way arrives. A device answers a read of a register behind the data that it has sent.
    void deliver() {
        std::lock_guard<std::mutex> guard(late_lock);
        for (auto& piece : late) piece();
        late.clear();
    }

    void add_cache() {
        CacheDesc& c = io.cache;
        c.group_log2 = config.group_log2;
        c.groups = config.groups;
        c.set_count = config.groups << config.group_log2;
        c.sector_log2 = config.sector_log2;
        u32 lines = c.set_count * config.ways;
        c.data = make<u8>((u64)lines * LINE_BYTES);
        c.tags = make<u64>(lines);
        c.state = make<u64>(lines);
        c.requested = make<u32>(lines);
        c.sets = make<CacheSet>(c.set_count);
        if (config.writable) c.writes = make<LineWrites>(lines);
        for (u32 i = 0; i < lines; i++) {
            c.tags[i] = TAG_NONE;
            c.state[i] = (u64)config.version << LINE_VERSION_SHIFT;
        }
    }

    // Checks what must hold when nothing is outstanding. Returns the number of violations, and prints each.
    int check_quiet() const {
        int bad = 0;
        auto expect = [&](bool ok, const char* what, u64 value) {
            if (ok) return;
            bad++;
            printf("at rest: %s (%llx)\n", what, value);
        };
        for (const QueueDesc& q : queues) {
            u32 depth = 1u << q.depth_log2;
            expect(q.state->credits == (i32)depth - 1, "credits missing", (u64)(i64)q.state->credits);
            expect(q.state->sq_lock == 0 && q.state->cq_lock == 0, "a queue's lock is held", 0);
            expect(q.state->sq_tail == q.state->sq_ticket, "an entry was not rung", q.state->sq_tail);
            std::vector<u32> seen(depth, 0);
            for (u32 i = 0; i < depth; i++)
                if (q.free_ring[i] != FREE_RING_EMPTY) seen[q.free_ring[i] % depth]++;
            for (u32 i = 0; i + 1 < depth; i++) expect(seen[i] == 1, "command slot lost or doubled", i);
        }
        const CacheDesc& c = io.cache;
        u64 replacements = 0;  // by the versions, which count installs and nothing else
        for (u32 m = 0; m < c.set_count * config.ways; m++) {
            u64 start = (u64)config.version << LINE_VERSION_SHIFT;
            replacements += ((c.state[m] - start) & LINE_VERSION) >> LINE_VERSION_SHIFT;
            expect((c.state[m] & LINE_PINS) == 0, "a line is still pinned", c.state[m]);
            expect((c.state[m] & LINE_BUSY) == 0, "a line is still busy", c.state[m]);
            if (c.writes != nullptr) {
                expect(c.writes[m].lock == 0, "a line's lock is held", m);
                expect(c.writes[m].dirty == 0 && c.writes[m].writing == 0, "a line is not written", m);
                expect(c.writes[m].wanted == 0, "a lane waits for a way", m);
            }
            if (c.tags[m] == TAG_NONE) continue;
            for (u32 other = m / config.ways * config.ways; other < m; other++)
                expect(c.tags[other] != c.tags[m], "a key twice in a set", c.tags[m]);
            u32 valid = valid_sectors(c.state[m]), slot = m % config.ways * c.set_count + m / config.ways;
            for (u32 b = 0; b < LINE_BYTES; b++) {
                if (!(valid >> (b >> c.sector_log2) & 1)) continue;
                u64 address = (c.tags[m] - config.first_line) * LINE_BYTES + b;
                if (c.data[(u64)slot * LINE_BYTES + b] == (model.empty() ? byte_at(address) : model[address])) continue;
                expect(false, "a valid sector holds other bytes", address);
                break;
            }
        }
        expect(replacements == stats.installs, "versions count something else than installs", replacements);
        for (u32 s = 0; s < c.set_count; s++) expect(c.sets[s].lock == 0, "a set's lock is held", s);
        return bad;
    }
};

// A small NVMe controller over the storage, one for each queue; `poll` does one step of work.
class Controller {
    World& world;
    const QueueDesc& q;
    Random random;
    Faults faults;
    u32 head, tail, phase = 1;
    std::vector<SqEntry> open;
    std::vector<u32> again;  // completions to post a second time

  public:
    u64 served = 0, dropped = 0;

    Controller(World& w, u32 queue, u64 seed, const Faults& f)
        : world(w), q(w.queues[queue]), random(seed), faults(f), head(0), tail(0) {}

    // Returns whether some work was done.
    bool poll() {
        if (faults.stall) return false;
        u32 mask = (1u << q.depth_log2) - 1;
        if (world.config.late_data && random.one_in(8)) world.deliver();
        GRAMPUS_STEP(controller_doorbell);
        u32 rung = load_acquire_sys(q.sq_doorbell);  // pairs with try_ring's fence and doorbell
        if (head != rung) {
            open.push_back(q.sq[head]);
            head = (head + 1) & mask;
        }
        if (!again.empty() && random.one_in(4) && post(again.back())) again.pop_back();
        if (open.empty() || random.one_in(faults.delay)) return false;
        size_t pick = random.one_in(faults.reorder) ? random.below((u32)open.size()) : 0;
        SqEntry entry = open[pick];
        if (random.one_in(faults.drop)) {
            open.erase(open.begin() + (long)pick);
            dropped++;
            return true;
        }
        if (((tail + 1) & mask) == load_acquire_sys(q.cq_doorbell)) return false;  // full
        u32 status = fails(entry) ? spoil(entry) : serve(entry);
        GRAMPUS_STEP(controller_post);
        if (!post(status << 17 | entry.cid)) return false;
        open.erase(open.begin() + (long)pick);
        served++;
        if (world.on_command) world.on_command(random);
        if (random.one_in(faults.duplicate)) again.push_back(status << 17 | entry.cid);
        return true;
    }

  private:
    // Whether the command is to fail. The record is the device's; no lane writes its kind before the completion.
    bool fails(const SqEntry& entry) {
        u32 kind = q.commands[entry.cid & ((1u << q.depth_log2) - 1)].kind;
        bool nth = fetch_add_relaxed_gpu(&world.taken, 1ull) == faults.fail_nth;
        if (nth) world.nth_kind = kind;
        return nth || random.one_in(faults.fail) || (kind == CMD_PREFETCH && random.one_in(faults.fail_prefetch)) ||
               (kind == CMD_WRITE && random.one_in(faults.fail_write));
    }
    // A failed read may have written anything where its data belongs, a failed write some of its blocks.
    u32 spoil(const SqEntry& entry) {
        if (entry.opc == NVME_OPC_FLUSH) return 0x06;
        u32 bytes = ((entry.cdw12 & 0xFFFF) + 1) << world.source.lba_log2;
        if (entry.opc == NVME_OPC_WRITE) return write(entry, random.below(bytes >> world.source.lba_log2), 0x280);
        bool bounced = is_bounced(entry);
        for (u32 i = 0; i < bytes; i += 16) {
            if (i % 512 == 0) GRAMPUS_STEP(controller_copy);
            u64x2 data = {random.next(), random.next()};
            if (bounced) memcpy((u8*)entry.prp1 + i, &data, 16);
            else store_line((u64x2*)(entry.prp1 + i), data);
        }
        return 0x281;
    }
    bool is_bounced(const SqEntry& entry) const {
        u64 at = entry.prp1 - (u64)q.bounce;
        return at < (u64)q.bounce_bytes << q.depth_log2;
    }

    // Moves the data; returns the status field.
    u32 serve(const SqEntry& entry) {
        u32 blocks = (entry.cdw12 & 0xFFFF) + 1, bytes = blocks << world.source.lba_log2;
        u64 lba = entry.cdw10 | (u64)entry.cdw11 << 32;
        bool writes = entry.opc == NVME_OPC_WRITE && world.disk, flushes = entry.opc == NVME_OPC_FLUSH && world.disk;
        if (entry.opc != NVME_OPC_READ && !writes && !flushes) return 0x01;
        if (entry.nsid != world.source.nsid) return 0x0B;
        if (flushes) {
            world.disk->flush();
            return 0;
        }
        if (lba + blocks > world.source.blocks) return 0x80;
        if (entry.flags == NVME_PSDT_SGL) {
            if (entry.prp2 != bytes) return 0x0F;
        } else {
            u32 first = 4096 - (u32)(entry.prp1 % 4096);
            if (bytes > first + 4096) return 0x13;
            if (bytes > first && entry.prp2 != entry.prp1 / 4096 * 4096 + 4096) return 0x13;
        }
        if (writes) return write(entry, blocks, 0);
        u64 from = lba << world.source.lba_log2;
        u8* to = (u8*)entry.prp1;
        bool bounced = is_bounced(entry);
        const u8* storage = world.extents[0].mapped;
        if (world.config.late_data && !bounced) return send_later(to, storage + from, bytes);
        for (u32 i = 0; i < bytes; i += 16) {
            if (i % 512 == 0) GRAMPUS_STEP(controller_copy);
            u64x2 data;
            memcpy(&data, storage + from + i, 16);
            // Bounce slots are handed over whole. Lines may be read optimistically while they are written.
            if (bounced) memcpy(to + i, &data, 16);
            else store_line((u64x2*)(to + i), data);
        }
        return 0;
    }

    // The completion is posted first. The data comes with a read of the device's register, or before.
    u32 send_later(u8* to, const u8* from, u32 bytes) {
        std::lock_guard<std::mutex> guard(world.late_lock);
        world.late.push_back([=] {
            for (u32 i = 0; i < bytes; i += 16) {
                u64x2 data;
                memcpy(&data, from + i, 16);
                store_line((u64x2*)(to + i), data);
            }
        });
        return 0;
    }
    // Writes the command's first blocks, and returns the status.
    u32 write(const SqEntry& entry, u32 blocks, u32 status) {
        u64 at = (entry.cdw10 | (u64)entry.cdw11 << 32) << world.source.lba_log2;
        u32 step = 1u << world.source.lba_log2;
        for (u32 i = 0; i < blocks; i++) {
            GRAMPUS_STEP(controller_write);
            world.disk->write_block(at + (u64)i * step, (const u8*)entry.prp1 + (u64)i * step);
        }
        return status;
    }

    bool post(u32 cid_and_status) {
        u32 mask = (1u << q.depth_log2) - 1;
        if (((tail + 1) & mask) == load_acquire_sys(q.cq_doorbell)) return false;
        CqEntry& entry = q.cq[tail];
        entry.sqhd = (u16)head;
        entry.sqid = (u16)q.qid;
        store_release_sys(&entry.cid_psf, cid_and_status | phase << 16);  // pairs with reap's acquire
        tail = (tail + 1) & mask;
        if (tail == 0) phase ^= 1;
        return true;
    }
};
