// The machine below the protocol: atomics with their scope in the name, warp primitives, time, 16-byte moves.
//
// | file | target |
// | --- | --- |
// | target.h | both |
// | target_gpu.cuh | the GPU, in PTX |
// | target_host.cuh | host threads, for tests and for running kernels without a GPU |
//
// **Invariant:** PTX and the #ifdefs between targets are in these files alone.
#pragma once
#include "target_gpu.cuh"
#include "target_host.cuh"
