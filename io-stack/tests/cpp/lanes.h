// A warp of 32 lanes on one host thread, so that code for whole warps runs without a GPU. Each lane is a fiber; the
// fibers alternate at every collective. Stands before the device headers.
//
// **Invariant:** a lane that ends while others wait for it ends the process: on a GPU they would wait forever.
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define GRAMPUS_HOST_LANES 32

namespace lanes {

typedef unsigned long long Word;
constexpr unsigned LANES = GRAMPUS_HOST_LANES;
constexpr unsigned STACK_BYTES = 256 << 10;

struct Warp {
    ucontext_t outside, fiber[LANES];
    char* stacks;
    // Two sets of words: a lane may be at its next collective while others still read the words of the last one.
    Word word[2][LANES];
    unsigned long at[LANES];  // number of collectives that each lane has reached
    bool ended[LANES];
    unsigned current;
    void (*body)(const void*);
    const void* argument;
};
static thread_local Warp* warp;

static void fail(const char* what) {
    fprintf(stderr, "a warp's lanes: %s (lane %u)\n", what, warp->current);
    abort();
}

static void next() {
    unsigned from = warp->current;
    for (unsigned i = 1; i <= LANES; i++) {
        unsigned to = (from + i) % LANES;
        if (warp->ended[to]) continue;
        warp->current = to;
        if (to != from) swapcontext(&warp->fiber[from], &warp->fiber[to]);
        return;
    }
    setcontext(&warp->outside);
}

static const Word* exchange(Word mine) {
    unsigned me = warp->current;
    Word* words = warp->word[warp->at[me]++ % 2];
    words[me] = mine;
    next();
    for (unsigned i = 0; i < LANES; i++) {
        if (warp->at[i] < warp->at[me])
            fail(warp->ended[i] ? "waits for one that has ended" : "waits for one that waits elsewhere");
    }
    return words;
}

static void run_lane() {
    warp->body(warp->argument);
    warp->ended[warp->current] = true;
    next();
}

static void run(void (*body)(const void*), const void* argument) {
    Warp mine = {};
    warp = &mine;
    mine.body = body;
    mine.argument = argument;
    mine.stacks = (char*)malloc(LANES * STACK_BYTES);
    for (unsigned i = 0; i < LANES; i++) {
        getcontext(&mine.fiber[i]);
        mine.fiber[i].uc_stack.ss_sp = mine.stacks + i * STACK_BYTES;
        mine.fiber[i].uc_stack.ss_size = STACK_BYTES;
        makecontext(&mine.fiber[i], run_lane, 0);
    }
    swapcontext(&mine.outside, &mine.fiber[0]);
    free(mine.stacks);
}

}  // namespace lanes
