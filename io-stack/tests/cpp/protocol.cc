// The device code on the CPU: on real threads (under ThreadSanitizer), or under a scheduler. The scheduler explores
// interleavings by a seed and replays them from the seed. With -DGRAMPUS_LANES a warp has 32 lanes, which the seed
// interleaves, too.
// Usage: protocol threads|fibers|nth|bounds SEED COUNT [MUTANT]
#ifdef GRAMPUS_LANES
#include "../../cuda/src/lanes.h"
#endif
#include <atomic>
#include <thread>

#include "workload.h"
#include "schedule.h"

// ---- one run -------------------------------------------------------------------------------------------

struct Run {
    u64 seed;
    const Kind& kind;
    Config config;
    Faults faults;
    u32 workers, rounds;
    World world;
    std::vector<Outcome> outcomes;
    std::atomic<u32> working;
    u32 ended = 0;  // number of ended workers; servers read it
    std::vector<std::unique_ptr<Controller>> controllers;
    bool drained = true;

    Run(u64 seed, const Kind& kind, Config config, Faults faults, u32 workers, u32 rounds)
        : seed(seed), kind(kind), config(config), faults(faults), workers(workers), rounds(rounds),
          world(config, kind.value_bytes), outcomes(workers), working(workers) {
        for (u32 q = 0; q < config.queues; q++)
            controllers.push_back(std::make_unique<Controller>(world, q, seed * 31 + q, faults));
    }
    void worker(u32 index) {
        Outcome lanes[WARP];
        on_warp([&] { lanes[lane_id()] = kind.work(world, seed * 1000 + index, rounds); });
        for (const Outcome& lane : lanes) outcomes[index].add(lane);
        fetch_add_relaxed_gpu(&ended, 1u);
        // The last worker waits for prefetches in flight, as the end of a query does.
        if (working.fetch_sub(1) == 1) {
            bool good[WARP] = {};
            if (world.status.code == STATUS_OK) on_warp([&] { good[lane_id()] = kind.drain(world); });
            drained = world.status.code != STATUS_OK || good[0];
            working = ~0u;
        }
    }
    void serve(u32 index) {
        on_warp([&] { kind.serve(world, index, &ended, workers); });
    }
    bool over() const { return working.load() == ~0u; }

    void on_threads() {
        register_read = [this] { world.deliver(); };
        std::vector<std::thread> threads;
        for (u32 i = 0; i < workers; i++)
            threads.emplace_back([this, i] {
                thread_random = Random(seed + i).next() | 1;
                worker(i);
            });
        for (u32 i = 0; i < config.present; i++)
            threads.emplace_back([this, i] {
                thread_random = Random(seed - 1 - i).next() | 1;
                serve(i);
            });
        for (auto& controller : controllers)
            threads.emplace_back([this, c = controller.get()] {
                while (!over())
                    if (!c->poll()) sched_yield();
            });
        for (auto& t : threads) t.join();
    }
    void on_fibers() {
        register_read = [this] { world.deliver(); };
        Scheduler s(seed);
        scheduler = &s;
        for (u32 i = 0; i < workers; i++) s.add([this, i] { worker(i); });
        for (u32 i = 0; i < config.present; i++) s.add([this, i] { serve(i); });
        for (auto& controller : controllers)
            s.add([this, c = controller.get()] {
                while (!over()) {
                    c->poll();
                    grampus_host::pause_ns(0);
                }
            });
        s.run();
        scheduler = nullptr;
    }
    // Checks everything that must hold afterwards. `expected`: the status with which the run must end.
    int verdict(u32 expected) {
        int bad = 0;
        u64 values = 0;
        for (u32 i = 0; i < workers; i++) {
            const Outcome& out = outcomes[i];
            values += out.values;
            if (out.wrong > 0) {
                bad++;
                printf("worker %u: row %llu has other bytes than its address says\n", i, out.first_wrong_row);
            }
            if (out.gave_up && world.status.code == STATUS_OK) {
                bad++;
                printf("worker %u gave up without a status\n", i);
            }
        }
        if (world.status.code != expected) {
            bad++;
            printf("status %u (NVMe %x, queue %u, cid %x, line %llx, waited %llu ns), expected %u\n", world.status.code,
                   world.status.nvme_status, world.status.queue, world.status.cid, world.status.line,
                   world.status.waited_ns, expected);
        }
        if (world.status.code == STATUS_OK) {
            bad += !drained;
            bad += world.check_quiet();
            u64 served = 0;
            for (auto& c : controllers) served += c->served;
            if (world.stats.commands != served ||
                world.stats.commands != world.stats.completions - world.stats.stale_completions) {
                bad++;
                printf("%llu commands, %llu served, %llu completions, %llu stale\n", world.stats.commands, served,
                       world.stats.completions, world.stats.stale_completions);
            }
        }
        if (bad > 0 && world.status.code != STATUS_OK)
            for (const QueueDesc& q : world.queues)
                printf("queue %u: credits %d, popped %u, pushed %u, tickets %u, tail %u, head %u, doorbells %u %u\n",
                       q.qid, q.state->credits, q.state->pop_ticket, q.state->push_ticket, q.state->sq_ticket,
                       q.state->sq_tail, q.state->cq_head, *q.sq_doorbell, *q.cq_doorbell);
        if (bad > 0)
            printf("FAILED: seed %llu, %s, depth %u, %u queues, %u lines, sectors of %u, bounce %u, %u of %u servers\n",
                   seed, kind.name, 1u << config.depth_log2, config.queues, world.io.cache.set_count * 2,
                   1u << config.sector_log2, config.bounce_bytes, config.present, config.servers);
        return bad;
    }
};

static Stats total;
static u64 total_values;
static void add_up(const Run& run) {
    const u64* from = (const u64*)&run.world.stats;
    for (u32 i = 0; i < sizeof(Stats) / 8; i++) ((u64*)&total)[i] += from[i];
    for (const Outcome& out : run.outcomes) total_values += out.values;
}
static void report(const char* what, u64 count) {
    printf("%s: %llu runs, %llu values checked, %llu commands, %llu installs, %llu evictions, %llu full sets, "
           "%llu stale completions, %llu doorbells, %llu failed prefetches\n",
           what, count, total_values, total.commands, total.installs, total.evictions, total.full_sets,
           total.stale_completions, total.doorbells, total.failed_prefetches);
}

static int threads(u64 seed, u64 count) {
    for (u64 i = 0; i < count; i++) {
        Random random(seed + i);
        const Kind& kind = KINDS[(seed + i) % KIND_COUNT];
        Config config = random_config(random, kind);
        if (i % 2 == 0) {  // depth 4, two lines: wraps and evictions all the time
            config.depth_log2 = 2;
            config.queues = 1;
            config.group_log2 = 0;
            config.groups = 1;
        }
        Faults faults;
        faults.reorder = 2;
        faults.delay = 4;
        faults.duplicate = 10;
        faults.fail_prefetch = i % 3 == 0 ? 2 : 0;
        Run run(seed + i, kind, config, faults, 3, WARP > 1 ? 40 : 700);
        run.on_threads();
        if (run.verdict(STATUS_OK) > 0) return 1;
        add_up(run);
    }
    report("threads", count);
    return 0;
}

static int fibers(u64 seed, u64 count) {
    for (u64 i = 0; i < count; i++) {
        Random random(seed + i);
        const Kind& kind = KINDS[(seed + i) % KIND_COUNT];
        Config config = random_config(random, kind);
        config.timeout_ns = (WARP > 1 ? 400 : 100) * 1000000ull;  // in steps of 100 ns
        Faults faults;
        faults.reorder = random.below(3);
        faults.delay = 2 + random.below(4);
        faults.duplicate = random.below(8);
        faults.fail_prefetch = random.below(4);
        Run run(seed + i, kind, config, faults, 2 + random.below(4), WARP > 1 ? 12 : 60);
        run.on_fibers();
        if (run.verdict(STATUS_OK) > 0) return 1;
        add_up(run);
    }
    report("fibers", count);
    return 0;
}

// ---- each command fails once: a prefetch fails no reader, any other command ends the run --------------

static int nth(u64 seed, u64 count) {
    u64 prefetches = 0, others = 0;
    for (u64 i = 0; i < count; i++) {
        for (u64 n = 0;; n++) {
            Random random(seed + i);
            const Kind& kind = KINDS[(seed + i) % 4];  // kinds that send fills
            Config config = random_config(random, kind);
            config.timeout_ns = (WARP > 1 ? 400 : 100) * 1000000ull;
            Faults faults;
            faults.delay = 2;
            faults.fail_nth = n;
            Run run(seed + i, kind, config, faults, 2, 6);
            run.on_fibers();
            if (run.verdict(run.world.nth_kind == CMD_FILL ? STATUS_NVME : STATUS_OK) > 0) return 1;
            if (run.world.taken <= n) break;
            bool prefetch = run.world.nth_kind == CMD_PREFETCH;
            (prefetch ? prefetches : others)++;
            if (run.world.stats.failed_prefetches != (prefetch ? 1 : 0)) {
                printf("FAILED: seed %llu, command %llu: %llu failed prefetches\n", seed + i, n,
                       run.world.stats.failed_prefetches);
                return 1;
            }
        }
    }
    printf("nth: %llu prefetches and %llu fills failed, each in a run of its own\n", prefetches, others);
    return prefetches == 0 || others == 0;
}

// ---- bounded waits: each fault ends with its status, and afterwards a fresh queue and cache work ------

static int bound(const char* what, u32 expected, Config config, Faults faults, std::function<void(Run&)> spoil = {}) {
    if (expected != STATUS_OK) config.timeout_ns = 300000000;
    u64 began = grampus_host::now_ns();
    // Alone, because a warp that waits for another's line may time out before the warp that cannot submit.
    u32 warps = expected == STATUS_TIMEOUT_SUBMIT ? 1 : 3;
    Run run(1, KINDS[0], config, faults, warps, 400);
    if (spoil) spoil(run);
    run.on_threads();
    u64 took_ms = (grampus_host::now_ns() - began) / 1000000;
    int bad = run.verdict(expected);
    const Status& s = run.world.status;
    bool lacks = s.nvme_status == 0 || s.bytes == 0 || s.nsid != run.world.source.nsid || s.cid == ~0u;
    if (expected == STATUS_NVME && lacks) {
        bad++;
        printf("the status lacks the command\n");
    }
    printf("%s: status %u after %llu ms%s\n", what, s.code, took_ms, bad ? " FAILED" : "");
    Run next(2, KINDS[0], config, Faults(), 2, 50);
    next.on_threads();
    return bad + next.verdict(STATUS_OK);
}

static int bounds() {
    Config tiny, small;
    small.groups = 2;
    Faults drop, fail, stall;
    drop.drop = 20;
    fail.fail = 20;
    stall.stall = true;
    int bad = 0;
    bad += bound("dropped completion", STATUS_TIMEOUT_COMPLETION, tiny, drop);
    bad += bound("dropped completion, more lines than slots", STATUS_TIMEOUT_COMPLETION, small, drop);
    bad += bound("error status", STATUS_NVME, tiny, fail);
    bad += bound("stalled storage", STATUS_TIMEOUT_COMPLETION, tiny, stall);
    bad += bound("beyond the namespace", STATUS_NVME, tiny, Faults(), [](Run& r) { r.world.source.blocks /= 4; });
    bad += bound("row out of range", STATUS_RANGE, tiny, Faults(), [](Run& r) { r.world.column.extent_count = 1; });
    bad += bound("aborted by the host", STATUS_ABORTED, tiny, stall, [](Run& r) { r.world.abort_word = 1; });
    bad += bound("cache smaller than the pins", STATUS_CACHE_FULL, tiny, Faults(), [](Run& r) {
        for (u32 m = 0; m < 2; m++) r.world.io.cache.state[m] += LINE_PIN;  // a pin that is never dropped
    });
    auto no_credits = [](Run& r) { r.world.queues[0].state->credits = 0; };
    auto locked = [](Run& r) { r.world.queues[0].state->sq_lock = 1; };
    bad += bound("no slot ever", STATUS_TIMEOUT_SUBMIT, small, Faults(), no_credits);
    bad += bound("an entry never rung", STATUS_TIMEOUT_SUBMIT, tiny, Faults(), locked);
    Config served = small, deserted = small;
    served.servers = served.present = deserted.servers = 1;
    bad += bound("dropped completion, served", STATUS_TIMEOUT_COMPLETION, served, drop);
    bad += bound("stalled storage, served", STATUS_TIMEOUT_COMPLETION, served, stall);
    bad += bound("an entry never rung, served", STATUS_TIMEOUT_SUBMIT, served, Faults(), locked);
    bad += bound("no servers where some were promised", STATUS_OK, deserted, Faults());
    return bad > 0;
}

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    u64 seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1, count = argc > 3 ? strtoull(argv[3], nullptr, 10) : 1;
    grampus_host::mutant = argc > 4 ? atoi(argv[4]) : 0;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    if (strcmp(argv[1], "threads") == 0) return threads(seed, count);
    if (strcmp(argv[1], "fibers") == 0) return fibers(seed, count);
    if (strcmp(argv[1], "nth") == 0) return nth(seed, count);
    if (strcmp(argv[1], "bounds") == 0) return bounds();
    return 2;
}
