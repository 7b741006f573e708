// A warp of 32 lanes on one host thread, so that code for whole warps runs without a GPU. Each lane is a fiber. The
// fibers alternate at every collective, and wherever a test's scheduler switches them. Stands before the device
// headers.
//
// Under ThreadSanitizer a lane counts as a thread of its own. Of the collectives only sync_warp() orders memory, as on
// a GPU.
//
// **Invariant:** a lane that ends while others wait for it ends the process: on a GPU they would wait forever.
// A fortified longjmp, which some systems' compilers choose by default, refuses jumps to another stack.
#include <features.h>
#undef __USE_FORTIFY_LEVEL
#define __USE_FORTIFY_LEVEL 0
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define GRAMPUS_HOST_LANES 32

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#define GRAMPUS_UNWATCHED __attribute__((no_sanitize("thread")))
#else
#define GRAMPUS_UNWATCHED
#endif

namespace lanes {

typedef unsigned long long Word;
typedef Word Pair __attribute__((vector_size(16)));
constexpr unsigned LANES = GRAMPUS_HOST_LANES;
constexpr unsigned STACK_BYTES = 256 << 10;

struct Warp {
    ucontext_t outside, fiber[LANES];
    jmp_buf place[LANES];  // of a lane that does not run
    bool begun[LANES];
    char* stacks;
    // Two sets of words: a lane may be at its next collective while others still read the words of the last one.
    alignas(16) Word word[2][LANES];
    alignas(16) Word seen[LANES][LANES];  // each lane's copy of the words
    unsigned long at[LANES];  // number of collectives that each lane has reached
    unsigned long reached[2];  // sum over all lanes of the collectives that they have reached, by set of words
    bool ended[LANES], any_ended;
    unsigned current;
    void (*body)(const void*);
    const void* argument;
    void* watched[LANES];  // ThreadSanitizer's handles of the lanes, and of the thread
    void* watched_outside;
    char synced[2], joined;  // their addresses name to ThreadSanitizer what sync_warp() and a lane's end order
};
static thread_local Warp* warp;

static void fail(const char* what) {
    fprintf(stderr, "a warp's lanes: %s (lane %u)\n", what, warp->current);
    abort();
}

// Lets another lane run. Returns when some lane switches back.
GRAMPUS_UNWATCHED static void switch_to(unsigned to) {
    unsigned from = warp->current;
    if (to == from || warp->ended[to]) return;
    warp->current = to;
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(warp->watched[to], __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    swapcontext(&warp->fiber[from], &warp->fiber[to]);
#else
    // Contexts make two system calls a switch, so they only begin a lane.
    if (_setjmp(warp->place[from]) != 0) return;
    if (warp->begun[to]) _longjmp(warp->place[to], 1);
    warp->begun[to] = true;
    setcontext(&warp->fiber[to]);
#endif
}

// Lets the next lane run that has not ended. Returns at once if there is no other.
GRAMPUS_UNWATCHED static void next() {
    for (unsigned i = 1; i < LANES; i++) {
        unsigned to = (warp->current + i) % LANES;
        if (!warp->ended[to]) return switch_to(to);
    }
}

// Hands in this lane's word, and waits for those of all lanes.
GRAMPUS_UNWATCHED static const Word* exchange(Word mine) {
    unsigned me = warp->current;
    unsigned long before = warp->at[me]++;
    Word* words = warp->word[before % 2];
    words[me] = mine;
    unsigned long* reached = &warp->reached[before % 2];
    ++*reached;
    next();
    // No lane is two collectives ahead of another. So these lanes are the ones at this collective, and at every second
    // one before it.
    while (*reached < LANES * (before / 2 + 1)) {
        for (unsigned i = 0; i < LANES && warp->any_ended; i++)
            if (warp->ended[i] && warp->at[i] <= before) fail("waits for one that has ended");
        next();
    }
    // Not memcpy(), which ThreadSanitizer watches.
    const Pair* from = (const Pair*)words;
    Pair* to = (Pair*)warp->seen[me];
    for (unsigned i = 0; i < LANES / 2; i++) to[i] = from[i];
    return warp->seen[me];
}

// Waits for all lanes; what each has done before is before what any does after.
GRAMPUS_UNWATCHED static void synchronize() {
#ifdef __SANITIZE_THREAD__
    char* synced = &warp->synced[warp->at[warp->current] % 2];
    __tsan_release(synced);
    exchange(0);
    __tsan_acquire(synced);
#else
    exchange(0);
#endif
}

GRAMPUS_UNWATCHED static void run_lane() {
    warp->body(warp->argument);
#ifdef __SANITIZE_THREAD__
    __tsan_release(&warp->joined);
#endif
    warp->ended[warp->current] = warp->any_ended = true;
    next();
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(warp->watched_outside, 0);
#endif
    setcontext(&warp->outside);
}

GRAMPUS_UNWATCHED static void run(void (*body)(const void*), const void* argument) {
    Warp* mine = (Warp*)calloc(1, sizeof(Warp));
    Warp* before = warp;
    warp = mine;
    mine->body = body;
    mine->argument = argument;
    mine->stacks = (char*)malloc(LANES * STACK_BYTES);
    for (unsigned i = 0; i < LANES; i++) {
        getcontext(&mine->fiber[i]);
        mine->fiber[i].uc_stack.ss_sp = mine->stacks + i * STACK_BYTES;
        mine->fiber[i].uc_stack.ss_size = STACK_BYTES;
        makecontext(&mine->fiber[i], run_lane, 0);
    }
#ifdef __SANITIZE_THREAD__
    mine->watched_outside = __tsan_get_current_fiber();
    for (unsigned i = 0; i < LANES; i++) mine->watched[i] = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(mine->watched[0], 0);
#endif
    mine->begun[0] = true;
    swapcontext(&mine->outside, &mine->fiber[0]);
#ifdef __SANITIZE_THREAD__
    __tsan_acquire(&mine->joined);
    for (unsigned i = 0; i < LANES; i++) __tsan_destroy_fiber(mine->watched[i]);
#endif
    free(mine->stacks);
    free(mine);
    warp = before;
}

}  // namespace lanes
