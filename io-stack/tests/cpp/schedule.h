// Schedules of the tests' warps and controllers: real threads, which yield now and then, or fibers, of which a seed
// chooses the next one at every step. Stands behind the device headers.
#pragma once
#ifdef GRAMPUS_LANES
#include "../../cuda/src/lanes_end.h"
#endif
#include <sched.h>
#include <ucontext.h>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace grampus_host {
int mutant = 0;
}

// ---- lanes: those of a warp run one at a time --------------------------------------------------------------

#ifdef GRAMPUS_LANES
typedef lanes::Warp Lanes;
static Lanes*& lanes_of_warp() { return lanes::warp; }
static void switch_lane(u32 to) {
    if (lanes::warp != nullptr) lanes::switch_to(to);
}
#else
typedef void Lanes;
#define GRAMPUS_UNWATCHED
static Lanes*& lanes_of_warp() {
    static Lanes* none = nullptr;
    return none;
}
static void switch_lane(u32) {}
#endif

// ---- real threads: steps yield to the operating system now and then ------------------------------------

static thread_local u64 thread_random = 0;
// By hand and unwatched: the lanes of a warp, which ThreadSanitizer takes for threads, share the state.
GRAMPUS_UNWATCHED static bool yields(bool must) {
    if (thread_random == 0) return false;
    u64 x = thread_random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    thread_random = x;
    if (must || x % 8 == 0) switch_lane((u32)(x >> 32) % WARP);
    return must || (x >> 8) % 16 == 0;
}

// ---- fibers: one runs at a time, chosen by the seed ------------------------------------------------------

// Contexts make two system calls a switch. With lanes.h, which allows jumps to another stack, they only begin a fiber.
#if defined(GRAMPUS_LANES) && !defined(__SANITIZE_THREAD__)
#define GRAMPUS_JUMPS
#endif

struct Fiber {
    ucontext_t context;
#ifdef GRAMPUS_JUMPS
    jmp_buf place;  // of a fiber that does not run
    bool begun = false;
#endif
    std::function<void()> body;
    std::unique_ptr<char[]> stack;
    bool done = false;
};
struct Scheduler {
    Random random;
    std::vector<std::unique_ptr<Fiber>> fibers;
    Fiber outside;  // the stack that the fibers are run from
    Fiber* current = nullptr;
    u64 steps = 0, limit = 20000000ull * WARP;
    u32 switch_one_in, lane_one_in;
    u32 favourite = 0, favour = 0;  // one fiber that pauses for a while

    explicit Scheduler(u64 seed)
        : random(seed), switch_one_in(1u << random.below(5)), lane_one_in(4u << random.below(5)) {}

    void add(std::function<void()> body) {
        fibers.push_back(std::make_unique<Fiber>());
        Fiber& f = *fibers.back();
        f.body = std::move(body);
        f.stack.reset(new char[256 << 10]);
        getcontext(&f.context);
        f.context.uc_stack.ss_sp = f.stack.get();
        f.context.uc_stack.ss_size = 256 << 10;
        f.context.uc_link = &outside.context;
        makecontext(&f.context, (void (*)())enter, 0);
    }
    static void enter();
    Fiber* choose() {
        if (favour == 0 && random.one_in(200)) {
            favourite = random.below((u32)fibers.size());
            favour = random.below(400);
        }
        if (favour > 0) favour--;
        u32 at = random.below((u32)fibers.size());
        for (u32 i = 0; i < 2 * fibers.size(); i++) {
            u32 index = (at + i) % (u32)fibers.size();
            if (fibers[index]->done || (favour > 0 && index == favourite && i < fibers.size())) continue;
            return fibers[index].get();
        }
        return nullptr;
    }
    void step(bool must) {
        steps++;
        if (steps > limit) {
            printf("schedule does not end\n");
            exit(1);
        }
        if (WARP > 1 && (must || random.one_in(lane_one_in))) switch_lane(random.below(WARP));
        if (!must && !random.one_in(switch_one_in)) return;
        Fiber *from = current, *to = choose();
        if (to == from || to == nullptr) return;
        current = to;
        Lanes* lanes = lanes_of_warp();
        swap(*from, *to);
        lanes_of_warp() = lanes;
    }
    void run() {
        while ((current = choose()) != nullptr) swap(outside, *current);
    }
#ifdef GRAMPUS_JUMPS
    static void swap(Fiber& from, Fiber& to) {
        if (_setjmp(from.place) != 0) return;
        if (to.begun) _longjmp(to.place, 1);
        to.begun = true;
        setcontext(&to.context);
    }
    void leave() { _longjmp(outside.place, 1); }
#else
    static void swap(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }
    void leave() {}  // to uc_link
#endif
};
static Scheduler* scheduler = nullptr;
void Scheduler::enter() {
    lanes_of_warp() = nullptr;
    scheduler->current->body();
    scheduler->current->done = true;
    scheduler->leave();
}

static std::function<void()> register_read;  // a device's part in reads of its registers

namespace grampus_host {
void step(const char*) {
    if (scheduler) scheduler->step(false);
    else if (yields(false)) sched_yield();
}
u32 read_register(const u32* p) {
    if (register_read) register_read();
    return *p;
}
u64 now_ns() {
    if (scheduler) return scheduler->steps * 100 + 1;
    return (u64)std::chrono::steady_clock::now().time_since_epoch().count();
}
void pause_ns(u32) {
    if (scheduler) {
        scheduler->step(true);
    } else {
        yields(true);
        sched_yield();
    }
}
}  // namespace grampus_host
