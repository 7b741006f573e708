// The device code on the CPU against queues of a real controller's protocol: QEMU's NVMe device. Rings, bounce slots,
// cache data and doorbell words lie in the file that holds the machine's RAM. A process beside this one has created the
// queues, and forwards the doorbell words to the device's registers.
// Usage: qemu_queues image PATH LINES
//        qemu_queues load|store RAM_PATH DEPTH_LOG2 LINES WORKERS SERVERS SEED DOORBELLS DATA (SQ CQ BOUNCE)...
// The last arguments are bus addresses, which are offsets in the RAM. `store` also stores and flushes. It writes the
// bytes that the namespace must then have to standard error.
#ifdef GRAMPUS_LANES
#include "../../cuda/src/lanes.h"
#endif
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "stores.h"
#include "workload.h"
#ifdef GRAMPUS_LANES
#include "../../cuda/src/lanes_end.h"
#endif

namespace grampus_host {
int mutant = 0;
void step(const char*) {}
u64 now_ns() { return (u64)std::chrono::steady_clock::now().time_since_epoch().count(); }
void pause_ns(u32) { sched_yield(); }
u32 read_register(const u32* p) { return *(const volatile u32*)p; }
}  // namespace grampus_host

constexpr u32 BOUNCE_BYTES = 512;
constexpr u32 CACHE_GROUP_LOG2 = 4;
// Number of sets: with two ways half of the storage's lines fit.
static u32 groups_for(u32 lines) { return lines / 4 >> CACHE_GROUP_LOG2; }

// Commands of each warp, by the ways of kernels: rows at random, and blocks straight into buffers; or stores.
template <class Backing>
struct Load {
    World world;
    u8* ram;
    u64 raw_bus;  // buffers of raw commands, two lines for each lane
    u32 workers, servers, rounds;
    u64 seed;
    u32 ended = 0;
    std::vector<Outcome> outcomes;
    std::atomic<u32> peak{0};
    Ledger ledger;

    Load(const Config& config, u8* ram, u64 data, u64 doorbells, char** queues, u32 workers, u32 servers, u64 seed)
        : world(config, sizeof(double)), ram(ram), workers(workers), servers(servers),
          rounds(WARP > 1 ? 60 : 600), seed(seed), outcomes(workers), ledger(world, sizeof(double)) {
        u32 lines = world.io.cache.set_count * config.ways;
        world.io.cache.data = ram + data;
        raw_bus = data + (u64)lines * LINE_BYTES;
        world.source.nsid = 1;
        for (u32 i = 0; i < config.queues; i++) {
            QueueDesc& q = world.queues[i];
            q.sq = (SqEntry*)(ram + strtoull(queues[3 * i], nullptr, 10));
            q.cq = (CqEntry*)(ram + strtoull(queues[3 * i + 1], nullptr, 10));
            q.bounce_bus = strtoull(queues[3 * i + 2], nullptr, 10);
            q.bounce = ram + q.bounce_bus;
            q.data_bus = 0 - (u64)ram;
            q.sq_doorbell = (u32*)(ram + doorbells) + 2 * i;
            q.cq_doorbell = q.sq_doorbell + 1;
            q.flags = QUEUE_MMIO;
        }
        world.io.servers = servers;
    }

    // Reads everything ahead, in commands of one line: as many commands as the queues hold are outstanding.
    void read_ahead() {
        on_warp([&] {
            ColumnArray<double, Backing, false> array(world.io, world.column);
            u64 first = world.extents[1].first_row;
            if (array.ahead(0, first)) array.ahead(first, world.rows() - first);
        });
    }

    // Raw commands into buffers of the RAM, at addresses that give one or two PRPs.
    Outcome raw(u32 index) {
        Random own(seed * 77 + index * WARP + lane_id());
        Outcome out;
        typename Backing::Finish finish(world.io.cache);
        u64 buffer = raw_bus + (u64)(index * WARP + lane_id()) * 2 * LINE_BYTES;
        for (u32 i = 0; i < rounds / 2; i++) {
            bool wanted = lane_id() == 0 || !own.one_in(4);
            u32 queue = own.below(world.io.queue_count), offset = own.below(32) * 16;
            Command c = {};
            c.kind = CMD_RAW;
            c.blocks = 1 + own.below(15);
            c.bytes = c.blocks << world.source.lba_log2;
            c.lba = own.below((u32)world.source.blocks - c.blocks + 1);
            c.nsid = world.source.nsid;
            c.bus = buffer + offset;
            c.target = (u64)(ram + buffer + offset);
            out.gave_up = !run_raw(world.io, wanted, queue, c, finish);
            if (out.gave_up) return out;
            if (!wanted) continue;
            u64 at = c.lba << world.source.lba_log2;
            for (u32 b = 0; b < c.bytes; b++) {
                if (ram[buffer + offset + b] == byte_at(at + b)) continue;
                if (out.wrong++ == 0) out.first_wrong_row = at + b;
            }
            out.values += c.bytes;
        }
        return out;
    }

    void worker(u32 index) {
        if (index == 0) read_ahead();
        Outcome lanes[WARP];
        if constexpr (Backing::WRITES) {
            Share share = {world.rows(), index, workers, 300};
            u64 own = seed * 1000 + index;
            on_warp([&] {
                lanes[lane_id()] = work_stores<double, Backing, false>(world, ledger, share, own, rounds);
            });
        } else {
            on_warp([&] { lanes[lane_id()] = work<double, Backing, false>(world, seed * 1000 + index, rounds); });
        }
        for (const Outcome& lane : lanes) outcomes[index].add(lane);
        if (!Backing::WRITES) on_warp([&] { lanes[lane_id()] = raw(index); });
        for (const Outcome& lane : lanes) outcomes[index].add(lane);
        fetch_add_relaxed_gpu(&ended, 1u);
    }

    // Flushes, and waits for all commands.
    bool finish() {
        static u32 arrived = 0;
        bool good = true;
        if constexpr (Backing::WRITES) good = flush<Backing>(world.io, 0, 1, &arrived);
        for (u32 q = 0; q < world.io.queue_count && good; q++)
            good = drain(world.io, q, typename Backing::Finish(world.io.cache));
        return good;
    }

    int run() {
        std::vector<std::thread> threads;
        for (u32 i = 0; i < workers; i++) threads.emplace_back([this, i] { worker(i); });
        for (u32 i = 0; i < servers; i++)
            threads.emplace_back([this, i] {
                on_warp([&] { serve(world.io, i, &ended, workers, typename Backing::Finish(world.io.cache)); });
            });
        while (load_relaxed_gpu(&ended) < workers) {
            for (const QueueDesc& q : world.queues)
                if (slots_held(q) > peak) peak = slots_held(q);
            sched_yield();
        }
        for (auto& thread : threads) thread.join();
        bool drained[WARP] = {};
        if (world.status.code == STATUS_OK) on_warp([&] { drained[lane_id()] = finish(); });
        int bad = 0;
        u64 values = 0;
        for (const Outcome& out : outcomes) {
            values += out.values;
            bad += out.wrong > 0 || out.gave_up;
            if (out.wrong > 0) printf("byte or row %llu differs from its address\n", out.first_wrong_row);
        }
        const Status& s = world.status;
        if (s.code != STATUS_OK || !drained[0]) {
            printf("status %u (NVMe %x, queue %u, cid %x, lba %llu, %u bytes)\n", s.code, s.nvme_status, s.queue, s.cid,
                   s.lba, s.bytes);
            return 1;
        }
        bad += world.check_quiet();
        if (world.stats.stale_completions != 0 || world.stats.commands != world.stats.completions) bad++;
        if (Backing::WRITES) fwrite(world.model.data(), 1, world.model.size(), stderr);
        u64 writes = world.stats.writes, flushes = world.stats.flushes;
        u64 reads = world.stats.commands - writes - flushes;
        printf("reads %llu\nwrites %llu\nbytes or values checked %llu\n", reads, writes, values);
        printf("doorbells %llu\nevictions %llu\nmost outstanding %u\n", world.stats.doorbells, world.stats.evictions,
               peak.load());
        return bad > 0;
    }
};

static int image(const char* path, u64 lines) {
    FILE* file = fopen(path, "wb");
    if (file == nullptr) return 2;
    for (u64 a = 0; a < lines * LINE_BYTES; a++) fputc(byte_at(a), file);
    return fclose(file) == 0 ? 0 : 2;
}

int main(int argc, char** argv) {
    auto number = [&](int i) { return strtoull(argv[i], nullptr, 10); };
    if (argc == 4 && strcmp(argv[1], "image") == 0) return image(argv[2], number(3));
    bool stores = argc > 1 && strcmp(argv[1], "store") == 0;
    if (argc < 13 || !(stores || strcmp(argv[1], "load") == 0)) return 2;
    int file = open(argv[2], O_RDWR);
    struct stat facts;
    if (file < 0 || fstat(file, &facts) != 0) return 2;
    void* ram = mmap(nullptr, (size_t)facts.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (ram == MAP_FAILED) return 2;
    Config config;
    config.depth_log2 = (u32)number(3);
    config.storage_lines = (u32)number(4);
    config.queues = (u32)(argc - 10) / 3;
    config.group_log2 = CACHE_GROUP_LOG2;
    config.groups = groups_for(config.storage_lines);
    config.bounce_bytes = BOUNCE_BYTES;
    config.first_byte = 3;
    config.max_lines = number(7) % 2 == 0 ? 1 : 8;  // commands of up to 8 lines carry an SGL
    config.writable = stores;
    auto run = [&](auto backing) {
        u32 workers = (u32)number(5), servers = (u32)number(6);
        Load<decltype(backing)> load(config, (u8*)ram, number(9), number(8), argv + 10, workers, servers, number(7));
        return load.run();
    };
    return stores ? run(Writable<Clock, 2>()) : run(Queued<Clock, 2>());
}
