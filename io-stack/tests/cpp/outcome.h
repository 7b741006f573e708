// `Outcome`: what a lane of a test's warp found; and warps of lanes.
#pragma once
#include <functional>

#include "world.h"

struct Outcome {
    bool gave_up = false;  // a call returned false: a status must be up
    u64 values = 0;
    u64 wrong = 0;
    u64 first_wrong_row = 0;

    void add(const Outcome& lane) {
        gave_up = gave_up || lane.gave_up;
        values += lane.values;
        if (wrong == 0) first_wrong_row = lane.first_wrong_row;
        wrong += lane.wrong;
    }
};

// Calls `body` by each lane of a warp.
inline void on_warp(const std::function<void()>& body) {
#ifdef GRAMPUS_HOST_LANES
    grampus_host::run_lanes([](const void* p) { (*(const std::function<void()>*)p)(); }, &body);
#else
    body();
#endif
}
