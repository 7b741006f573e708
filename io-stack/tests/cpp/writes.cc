// Stores to columns on the CPU: warps store and read, dirty lines are replaced, other warps flush. Real threads (under
// ThreadSanitizer), or a seeded scheduler. At random moments the power is lost: each row on the disk must then have its
// flushed value or a later one.
// Usage: writes threads|fibers|power|bounds SEED COUNT [MUTANT]
#ifdef GRAMPUS_LANES
#include "../../cuda/src/lanes.h"
#endif
#include "stores.h"
#include "schedule.h"

#include <thread>

// ---- kinds of kernels ------------------------------------------------------------------------------------

// Flushes, and waits for prefetches in flight, as the end of a query does.
template <class Backing>
void flush_warp(World& world, u32 share, u32 shares, u32* arrived, bool* good) {
    typename Backing::Finish finish(world.io.cache);
    *good = flush<Backing>(world.io, share, shares, arrived);
    for (u32 q = 0; q < world.io.queue_count && *good; q++) *good = drain(world.io, q, finish);
}

struct Kind {
    const char* name;
    u32 value_bytes, alignment;
    Outcome (*work)(World&, Ledger&, const Share&, u64, u32);
    void (*flush)(World&, u32, u32, u32*, bool*);
    void (*serve)(World&, u32, const u32*, u32);
};
template <class Backing>
void serve_stores(World& world, u32 server, const u32* ended, u32 all) {
    serve(world.io, server, ended, all, typename Backing::Finish(world.io.cache));
}
#define KIND(T, align, ...)                                                                                       \
    Kind { #T " " #__VA_ARGS__, sizeof(T), align, work_stores<T, __VA_ARGS__, align == sizeof(T)>,               \
           flush_warp<__VA_ARGS__>, serve_stores<__VA_ARGS__> }
typedef Writable<Clock, 2, true> Through;
static const Kind KINDS[] = {
    KIND(u64, 8, Writable<Clock, 2>), KIND(double, 1, Writable<Clock, 2>), KIND(u32, 4, Writable<Fifo, 2>),
    KIND(u16, 1, Writable<Fifo, 2>),  KIND(u64, 1, Through),
};
constexpr u32 KIND_COUNT = sizeof(KINDS) / sizeof(KINDS[0]);

static Config random_config(Random& random, const Kind& kind) {
    Config c;
    c.writable = true;
    c.depth_log2 = 1 + random.below(3);
    c.queues = 1 + random.below(2);
    c.group_log2 = random.below(3);
    c.groups = 1 + random.below(2);
    c.sector_log2 = 7 + random.below(6);
    c.lba_log2 = random.one_in(3) ? 12 : 9;
    c.bounce_bytes = c.lba_log2 == 12 || c.sector_log2 > 9 || random.one_in(2) ? 4096 : 512;
    c.max_lines = 1 + random.below(4);
    c.storage_lines = 6 + random.below(8);
    c.first_byte = random.below(LINE_BYTES / kind.alignment) * kind.alignment;
    c.servers = random.one_in(3) ? 1 : 0;
    c.late_data = random.one_in(4);
    c.present = random.below(c.servers + 1);
    c.start = random.one_in(2) ? 0 : 0xFFFFFF80;
    c.version = random.one_in(2) ? 0 : 0x3FFF - random.below(4);
    return c;
}

// ---- one run: phases of stores, each with a flush behind it -------------------------------------------------

struct Run {
    u64 seed;
    const Kind& kind;
    u32 workers, rounds, losses_one_in;
    World world;
    Ledger ledger;
    std::vector<std::unique_ptr<Controller>> controllers;
    std::vector<Outcome> outcomes;
    std::atomic<u32> running{0};
    u32 ended = 0;
    u64 losses = 0, lost = 0, lost_row = 0;
    std::atomic<bool> flushed{true};

    Run(u64 seed, const Kind& kind, Config config, Faults faults, u32 workers, u32 rounds, u32 losses_one_in)
        : seed(seed), kind(kind), workers(workers), rounds(rounds), losses_one_in(losses_one_in),
          world(config, kind.value_bytes), ledger(world, kind.value_bytes), outcomes(workers) {
        for (u32 q = 0; q < config.queues; q++)
            controllers.push_back(std::make_unique<Controller>(world, q, seed * 31 + q, faults));
        if (losses_one_in > 0) world.on_command = [this](Random& random) { lose_power(random); };
    }
    void lose_power(Random& random) {
        if (!random.one_in(losses_one_in) || lost > 0) return;
        losses++;
        lost += ledger.lost(world.disk->after_loss(random), lost_row);
    }
    // Runs warps beside the controllers, until all have ended.
    void together(bool threads, u64 phase, const std::vector<std::function<void()>>& warps) {
        register_read = [this] { world.deliver(); };
        running = (u32)warps.size();
        auto one = [&](size_t i) {
            warps[i]();
            running.fetch_sub(1);
        };
        ledger.one_thread = !threads;
        if (!threads) {
            Scheduler s(seed * 7 + phase);
            scheduler = &s;
            for (size_t i = 0; i < warps.size(); i++) s.add([&one, i] { one(i); });
            for (auto& controller : controllers)
                s.add([this, c = controller.get()] {
                    while (running > 0) {
                        c->poll();
                        grampus_host::pause_ns(0);
                    }
                });
            s.run();
            scheduler = nullptr;
            return;
        }
        std::vector<std::thread> all;
        for (size_t i = 0; i < warps.size(); i++)
            all.emplace_back([&, i] {
                thread_random = Random(seed + i).next() | 1;
                one(i);
            });
        for (auto& controller : controllers)
            all.emplace_back([this, c = controller.get()] {
                while (running > 0)
                    if (!c->poll()) sched_yield();
            });
        for (auto& t : all) t.join();
    }
    void store(bool threads, u64 phase, u32 run_of_rows) {
        std::vector<std::function<void()>> warps;
        ended = 0;
        for (u32 i = 0; i < workers; i++)
            warps.push_back([this, i, phase, run_of_rows] {
                Outcome lanes[WARP];
                Share share = {world.rows(), i, workers, run_of_rows};
                u64 own_seed = seed * 1000 + phase * 10 + i;
                on_warp([&] { lanes[lane_id()] = kind.work(world, ledger, share, own_seed, rounds); });
                for (const Outcome& lane : lanes) outcomes[i].add(lane);
                fetch_add_relaxed_gpu(&ended, 1u);
            });
        for (u32 i = 0; i < world.config.present; i++)
            warps.push_back([this, i] { on_warp([&] { kind.serve(world, i, &ended, workers); }); });
        together(threads, 2 * phase, warps);
    }
    void flush(bool threads, u64 phase, u32 shares) {
        std::vector<std::function<void()>> warps;
        u32 arrived = 0;
        for (u32 i = 0; i < shares; i++)
            warps.push_back([this, i, shares, &arrived] {
                bool good[WARP] = {};
                on_warp([&] { kind.flush(world, i, shares, &arrived, &good[lane_id()]); });
                for (bool lane : good)
                    if (!lane) flushed = false;
            });
        together(threads, 2 * phase + 1, warps);  // if servers were promised, none come
    }
    // What must hold when no warp runs. Returns the number of violations, and prints each.
    int check(const char* when, bool after_flush) {
        int bad = 0;
        u64 first = 0;
        for (u32 i = 0; i < workers; i++) {
            if (outcomes[i].wrong == 0) continue;
            bad++;
            printf("%s: worker %u: row %llu has a value that no store gave it\n", when, i, outcomes[i].first_wrong_row);
        }
        if (lost > 0) {
            bad++;
            printf("%s: a loss of power left %llu rows with other values, as row %llu\n", when, lost, lost_row);
        }
        if (u64 missing = ledger.missing(first)) {
            bad++;
            printf("%s: %llu bytes are neither dirty nor on the disk, as byte %llu\n", when, missing, first);
        }
        if (world.status.code != STATUS_OK) return bad;
        for (const Outcome& out : outcomes) bad += out.gave_up;
        if (!after_flush) return bad;
        bad += !flushed || world.check_quiet() > 0;
        if (world.disk->durable != world.model) {
            bad++;
            printf("%s: the flushed bytes are not those that were stored\n", when);
        }
        return bad;
    }
    int run(bool threads) {
        Random random(seed * 5 + 3);
        int bad = 0;
        for (u64 phase = 0; phase < 3 && bad == 0 && world.status.code == STATUS_OK; phase++) {
            const u32 runs[] = {1, 3, 64, 700};
            store(threads, phase, runs[random.below(4)]);
            bad += check("after stores", false);
            if (bad > 0 || world.status.code != STATUS_OK) break;
            flush(threads, phase, 1 + random.below(3));
            if (world.status.code == STATUS_OK) ledger.flush();
            bad += check("after a flush", true);
        }
        return bad;
    }
    int verdict(int bad, bool may_fail) {
        u32 code = world.status.code;
        if (code != STATUS_OK && !(may_fail && code == STATUS_NVME)) {
            bad++;
            printf("status %u (NVMe %x, queue %u, line %llx, waited %llu ns)\n", code, world.status.nvme_status,
                   world.status.queue, world.status.line, world.status.waited_ns);
        }
        if (bad > 0)
            printf("FAILED: seed %llu, %s, depth %u, %u queues, %u lines, sectors of %u, blocks of %u, bounce %u\n",
                   seed, kind.name, 1u << world.config.depth_log2, world.config.queues, world.io.cache.set_count * 2,
                   1u << world.config.sector_log2, 1u << world.config.lba_log2, world.config.bounce_bytes);
        return bad;
    }
};

static u64 total_values, total_writes, total_flushes, total_losses, total_evictions, total_failed;

static int one(u64 seed, bool threads, u32 workers, u32 rounds, Faults faults, u32 losses_one_in) {
    Random random(seed);
    const Kind& kind = KINDS[seed % KIND_COUNT];
    Config config = random_config(random, kind);
    if (!threads) config.timeout_ns = (WARP > 1 ? 400 : 100) * 1000000ull;  // in steps of 100 ns
    Run run(seed, kind, config, faults, workers, rounds, losses_one_in);
    if (run.verdict(run.run(threads), faults.fail_write > 0) > 0) return 1;
    for (const Outcome& out : run.outcomes) total_values += out.values;
    total_writes += run.world.stats.writes;
    total_flushes += run.world.disk->flushes;
    total_evictions += run.world.stats.evictions;
    total_losses += run.losses;
    total_failed += run.world.status.code != STATUS_OK;
    return 0;
}
static int report(const char* what, u64 count) {
    printf("%s: %llu runs, %llu values checked, %llu writes, %llu flushes, %llu evictions, %llu losses of power, "
           "%llu runs with a failed write\n",
           what, count, total_values, total_writes, total_flushes, total_evictions, total_losses, total_failed);
    return 0;
}

static int many(const char* what, bool threads, u64 seed, u64 count) {
    for (u64 i = 0; i < count; i++) {
        Random random(seed + i);
        Faults faults;
        faults.reorder = random.below(3);
        faults.delay = 2 + random.below(4);
        faults.duplicate = random.below(8);
        faults.fail_prefetch = random.below(4);
        faults.fail_write = i % 4 == 3 ? 20 : 0;
        u32 rounds = threads ? (WARP > 1 ? 40 : 400) : WARP > 1 ? 20 : 100;
        if (one(seed + i, threads, 2 + random.below(3), rounds, faults, threads ? 0 : 20) > 0) return 1;
    }
    return report(what, count);
}

// Runs until the power was lost `count` times.
static int power(u64 seed, u64 count) {
    u64 runs = 0;
    for (; total_losses < count; runs++) {
        Faults faults;
        faults.reorder = 2;
        faults.delay = 3;
        if (one(seed + runs, false, 2, WARP > 1 ? 20 : 100, faults, 1) > 0) return 1;
    }
    return report("power", runs);
}

// ---- bounded waits: each fault ends with its status ----------------------------------------------------------

// `or_else`: another status with which the run may end.
static int bound(const char* what, u32 expected, Faults faults, std::function<void(Run&)> spoil = {},
                 u32 or_else = STATUS_OK) {
    Config config;
    config.writable = true;
    if (expected != STATUS_OK) config.timeout_ns = 300000000;
    Run run(1, KINDS[0], config, faults, 2, WARP > 1 ? 40 : 400, 0);
    if (spoil) spoil(run);
    u64 began = grampus_host::now_ns();
    int bad = run.run(true);
    u64 took_ms = (grampus_host::now_ns() - began) / 1000000;
    u32 code = run.world.status.code;
    bool other = code != expected && (or_else == STATUS_OK || code != or_else);
    bad += other || (expected != STATUS_OK && took_ms > 20000);
    printf("%s: status %u after %llu ms%s\n", what, code, took_ms, bad ? " FAILED" : "");
    return bad;
}

static int bounds() {
    Faults drop, stall, fail;
    drop.drop = 20;
    stall.stall = true;
    fail.fail_write = 1;
    int bad = 0;
    bad += bound("dropped completion", STATUS_TIMEOUT_COMPLETION, drop);
    bad += bound("stalled storage", STATUS_TIMEOUT_COMPLETION, stall);
    bad += bound("every write fails", STATUS_NVME, fail);
    bad += bound("storage without writes", STATUS_READ_ONLY, Faults(), [](Run& r) { r.world.source.flags = 0; });
    bad += bound("cache without writes", STATUS_READ_ONLY, Faults(), [](Run& r) { r.world.io.cache.writes = nullptr; });
    bad += bound("line's lock never given back", STATUS_TIMEOUT_COMPLETION, Faults(), [](Run& r) {
        for (u32 m = 0; m < 2; m++) r.world.io.cache.writes[m].lock = 1;
    }, STATUS_CACHE_FULL);  // by lanes that find both lines dirty
    bad += bound("aborted by the host", STATUS_ABORTED, stall, [](Run& r) { r.world.abort_word = 1; });
    bad += bound("nothing wrong", STATUS_OK, Faults());
    return bad > 0;
}

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    u64 seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1, count = argc > 3 ? strtoull(argv[3], nullptr, 10) : 1;
    grampus_host::mutant = argc > 4 ? atoi(argv[4]) : 0;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (strcmp(argv[1], "threads") == 0) return many("threads", true, seed, count);
    if (strcmp(argv[1], "fibers") == 0) return many("fibers", false, seed, count);
    if (strcmp(argv[1], "power") == 0) return power(seed, count);
    if (strcmp(argv[1], "bounds") == 0) return bounds();
    return 2;
}
