// Measures the device headers alone, on a GPU, against plain kernels of the same shape in the same run. Host memory is
// filled with a function of the row, every sum is compared with the exact one. Build (PRELUDE is `cargo run -p
// grampus-io-stack --example prelude`):
//   cat PRELUDE tests/cuda/kernels.cu bench/stack.cu bench/device.cu > all.cu && nvcc -std=c++17 -O3 -arch=sm_90 all.cu -o device
// Usage: device [small] [section ...]; sections: probe hits mapped queue
__host__ __device__ inline u64 value_of(u64 row) {
    u64 z = (row + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 32)) * 0xD6E8FEB86659FD93ull;
    return z >> 48;  // below 65536: sums of doubles are exact
}

// ---- plain kernels ---------------------------------------------------------------------------------------

KERNEL plain_scan(const double2* data, u64 pairs, double* out) {
    double sum = 0;
    u64 step = (u64)gridDim.x * blockDim.x;
    u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < pairs; i += 4 * step) {
        double2 a = data[i], b = data[i + step], c = data[i + 2 * step], d = data[i + 3 * step];
        sum += a.x + a.y + b.x + b.y + c.x + c.y + d.x + d.y;
    }
    for (; i < pairs; i += step) sum += data[i].x + data[i].y;
    add_up(sum, out);
}
// The same shape as sum_tiles and sum_scattered: a warp, a run of rows, tiles of K * 32.
template <u32 K>
static __device__ void plain_tiles(const double* data, u64 rows, u64 run, double* out) {
    double sum = 0;
    for (u64 from = warp_index() * run; from < rows; from += warp_count() * run)
        for (u64 row = from; row < from + run; row += K * 32) {
            double v[K];
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) v[i] = data[row + i * 32 + lane_id()];
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) sum += v[i];
        }
    add_up(sum, out);
}
template <u32 K>
static __device__ void plain_random(const double* data, u64 rows, u64 tiles, double* out) {
    double sum = 0;
    for (u64 i = warp_index(); i < tiles; i += warp_count()) {
        u64 row = (i * 0x9E3779B97F4A7C15ull >> 20) % (rows / (K * 32)) * (K * 32);
        double v[K];
        GRAMPUS_UNROLL
        for (u32 j = 0; j < K; j++) v[j] = data[row + j * 32 + lane_id()];
        GRAMPUS_UNROLL
        for (u32 j = 0; j < K; j++) sum += v[j];
    }
    add_up(sum, out);
}
KERNEL plain_tile(const double* d, u64 rows, u64 n, double* out) { plain_tiles<16>(d, rows, n, out); }
KERNEL plain_4k(const double* d, u64 rows, u64 n, double* out) { plain_random<16>(d, rows, n, out); }
KERNEL plain_512(const double* d, u64 rows, u64 n, double* out) { plain_random<2>(d, rows, n, out); }
// Random groups of 16 values: 128 bytes, half a warp each.
KERNEL plain_128(const double* d, u64 rows, u64 n, double* out) {
    double sum = 0;
    for (u64 i = warp_index() * 2 + lane_id() / 16; i < n; i += warp_count() * 2)
        sum += d[(i * 0x9E3779B97F4A7C15ull >> 20) % (rows / 16) * 16 + lane_id() % 16];
    add_up(sum, out);
}
KERNEL mapped_128(ARGUMENTS) {
    ColumnArray<double, Mapped, true> array(io, column);
    double sum = 0, value;
    for (u64 i = warp_index() * 2 + lane_id() / 16; i < n; i += warp_count() * 2) {
        if (!array.fetch(true, (i * 0x9E3779B97F4A7C15ull >> 20) % (rows / 16) * 16 + lane_id() % 16, value)) return;
        sum += value;
    }
    add_up(sum, out);
}
KERNEL plain_rows(const double* d, u64 rows, u64 n, double* out) {
    double sum = 0;
    for (u64 i = warp_index(); i < n / 32; i += warp_count())
        sum += d[((i * 32 + lane_id()) * 0x9E3779B97F4A7C15ull >> 20) % rows];
    add_up(sum, out);
}

// ---- what single steps cost when many warps take them at once ---------------------------------------------

template <u32 WHAT>
static __device__ void steps(u32* host, u32* device, u32 n, double* out) {
    u64 sum = 0;
    u32* mine = host + warp_index() * 32 + lane_id();
    u32* near = device + warp_index() * 32 + lane_id();
    for (u32 i = 0; i < n; i++) {
        if (WHAT == 0 || WHAT == 1) store_relaxed_sys(mine, i);
        if (WHAT == 2 || WHAT == 6) store_relaxed_gpu(near, i);
        if (WHAT == 0) fence_acq_rel_sys();
        if (WHAT == 1 || WHAT == 2) fence_acq_rel_gpu();
        if (WHAT == 6) fence_acq_rel_sys();
        if (WHAT == 3) sum += load_acquire_sys(mine);
        if (WHAT == 4 && lane_id() == 0) sum += load_relaxed_sys(mine);
        if (WHAT == 5) pause_ns(1000);
    }
    if (sum == 12345) *out = 1;
}
#define STEP_KERNEL(name, what) \
    KERNEL name(u32* h, u32* d, u32 n, double* out) { steps<what>(h, d, n, out); }
STEP_KERNEL(step_0, 0)
STEP_KERNEL(step_1, 1)
STEP_KERNEL(step_2, 2)
STEP_KERNEL(step_3, 3)
STEP_KERNEL(step_4, 4)
STEP_KERNEL(step_5, 5)
STEP_KERNEL(step_6, 6)

// ---- filling ----------------------------------------------------------------------------------------------

KERNEL fill_rows(double* data, u64 rows) {
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += (u64)gridDim.x * blockDim.x)
        data[i] = (double)value_of(i);
}
// Puts lines 0 .. lines-1 of the key space into the cache, as if they had been fetched.
KERNEL fill_cache(const __grid_constant__ IoStack io, u64 first_line, u64 lines) {
    const CacheDesc& c = io.cache;
    for (u64 line = warp_index(); line < lines; line += warp_count()) {
        u64 key = first_line + line;
        u32 meta = set_of(c, key) * CACHE_WAYS + (u32)(line / c.set_count % CACHE_WAYS);
        double* to = (double*)bytes_of<CACHE_WAYS>(c, meta);
        for (u32 i = lane_id(); i < LINE_BYTES / 8; i += 32) to[i] = (double)value_of(line * (LINE_BYTES / 8) + i);
        if (lane_id() == 0) {
            c.tags[meta] = key;
            c.requested[meta] = all_sectors(c);
            c.state[meta] = (u64)all_sectors(c) << LINE_VALID_SHIFT | LINE_REF;
        }
    }
}

// ---- measuring ----------------------------------------------------------------------------------------------

static u32 blocks;
static double* sum_out;

template <class F>
double time_ms(F launch, u32 repeats) {
    cudaEvent_t a, b;
    CHECK(cudaEventCreate(&a));
    CHECK(cudaEventCreate(&b));
    double best = 1e30;
    for (u32 i = 0; i < repeats; i++) {
        CHECK(cudaMemset(sum_out, 0, 8));
        CHECK(cudaEventRecord(a));
        launch();
        CHECK(cudaGetLastError());
        CHECK(cudaEventRecord(b));
        CHECK(cudaEventSynchronize(b));
        float ms;
        CHECK(cudaEventElapsedTime(&ms, a, b));
        if (ms < best) best = ms;
    }
    return best;
}
static double last_sum() {
    double s;
    CHECK(cudaMemcpy(&s, sum_out, 8, cudaMemcpyDeviceToHost));
    return s;
}
static void line(const char* name, double ms, double bytes, double expected, double against_ms) {
    double s = last_sum();
    printf("%-44s %9.3f ms %8.1f GB/s", name, ms, bytes / ms / 1e6);
    if (against_ms > 0) printf("  %5.1f %% of plain", against_ms / ms * 100);
    printf("%s\n", expected < 0 || s == expected ? "" : "  WRONG SUM");
    if (expected >= 0 && s != expected) printf("   sum %.0f, expected %.0f\n", s, expected);
}

static void hits(bool small) {
    for (u64 gib : small ? std::vector<u64>{0} : std::vector<u64>{1, 12}) {
        u64 lines = gib == 0 ? 4096 : gib << 18, rows = lines * 512;
        double bytes = (double)rows * 8;
        double* plain;
        CHECK(cudaMalloc(&plain, rows * 8));
        fill_rows<<<blocks, 256>>>(plain, rows);
        Stack stack(rows, nullptr, lines, 9, 0, 0, 0);
        stack.io.queue_count = 0;
        fill_cache<<<blocks, 256>>>(stack.io, 1ull << 33, lines);
        CHECK(cudaDeviceSynchronize());
        printf("cache hits, %.1f GB\n", bytes / 1e9);
        double p16 = time_ms([&] { plain_scan<<<blocks * 2, 256>>>((double2*)plain, rows / 2, sum_out); }, 5), sum = last_sum();
        line("plain scan, 16-byte loads", p16, bytes, sum, 0);
        line("plain scan, tiles", time_ms([&] { plain_tile<<<blocks, 256>>>(plain, rows, 16384, sum_out); }, 5), bytes, sum, p16);
        for (u32 run : {512u * 32, 512u * 16, 512u * 8})
            line(("tile<16>, runs of " + std::to_string(run)).c_str(),
                 time_ms([&] { tile_queued<<<blocks, 256>>>(stack.io, stack.column, rows, run, sum_out); }, 5), bytes, sum, p16);
        line("tile<8>", time_ms([&] { tile_queued_8<<<blocks, 256>>>(stack.io, stack.column, rows, 16384, sum_out); }, 5), bytes,
             sum, p16);
        line("tile<8>, unaligned code", time_ms([&] { tile_queued_unaligned<<<blocks, 256>>>(stack.io, stack.column, rows, 16384, sum_out); }, 5),
             bytes, sum, p16);
        u64 count = small ? 1 << 16 : 1ull << 29;
        double pr = time_ms([&] { plain_rows<<<blocks, 256>>>(plain, rows, count, sum_out); }, 3);
        double expected = last_sum();
        line("random 8-byte loads, plain", pr, count * 8.0, expected, 0);
        double ms = time_ms([&] { rows_queued<<<blocks, 256>>>(stack.io, stack.column, rows, count, sum_out); }, 3);
        line("random 8-byte hits, fetch", ms, count * 8.0, expected, pr);
        printf("   = %.2f G/s\n", count / ms / 1e6);
        ms = time_ms([&] { rows_queued_unaligned<<<blocks, 256>>>(stack.io, stack.column, rows, count, sum_out); }, 3);
        line("random 8-byte hits, fetch, unaligned code", ms, count * 8.0, expected, pr);
        u64 tiles = rows / 512;
        double p4 = time_ms([&] { plain_4k<<<blocks, 256>>>(plain, rows, tiles, sum_out); }, 3);
        expected = last_sum();
        line("random 4 KiB, plain", p4, bytes, expected, 0);
        line("random 4 KiB hits, tile<16>", time_ms([&] { scattered_queued_4k<<<blocks, 256>>>(stack.io, stack.column, rows, tiles, sum_out); }, 3),
             bytes, expected, p4);
        stack.expect_ok("hits");
        CHECK(cudaFree(plain));
    }
}

static void mapped(bool small, double* host, u64 rows) {
    double bytes = (double)rows * 8;
    Stack stack(rows, host, small ? 2048 : rows / 512, 9, 0, 0, 0);
    printf("mapped, %.1f GB\n", bytes / 1e9);
    double p = time_ms([&] { plain_tile<<<blocks, 256>>>(host, rows, 512, sum_out); }, 3), sum = last_sum();
    line("sequential, plain", p, bytes, sum, 0);
    line("sequential, tile<16>", time_ms([&] { tile_mapped<<<blocks, 256>>>(stack.io, stack.column, rows, 512, sum_out); }, 3), bytes, sum, p);
    line("sequential, tile<16>, unaligned code", time_ms([&] { tile_mapped_unaligned<<<blocks, 256>>>(stack.io, stack.column, rows, 512, sum_out); }, 3), bytes,
         sum, p);
    line("sequential, filling the cache", time_ms([&] { tile_mapped_cached<<<blocks, 256>>>(stack.io, stack.column, rows, 512, sum_out); }, 1), bytes,
         sum, p);
    stack.expect_ok("mapped, cached");
    Stats s = stack.take_stats();
    printf("   %llu installs, %llu evictions, %llu bytes copied\n", s.installs, s.evictions, s.mapped_fill_bytes);
    line("sequential, again", time_ms([&] { tile_mapped_cached<<<blocks, 256>>>(stack.io, stack.column, rows, 512, sum_out); }, 1), bytes, sum, p);
    u64 tiles = rows / 512 / 4;
    double p4 = time_ms([&] { plain_4k<<<blocks, 256>>>(host, rows, tiles, sum_out); }, 3), e = last_sum();
    line("random 4 KiB, plain", p4, tiles * 4096.0, e, 0);
    line("random 4 KiB, tile<16>", time_ms([&] { scattered_mapped_4k<<<blocks, 256>>>(stack.io, stack.column, rows, tiles, sum_out); }, 3),
         tiles * 4096.0, e, p4);
    tiles = small ? 4096 : 8 << 20;
    p4 = time_ms([&] { plain_512<<<blocks, 256>>>(host, rows, tiles, sum_out); }, 3), e = last_sum();
    line("random 512 B, plain", p4, tiles * 512.0, e, 0);
    line("random 512 B, tile<2>", time_ms([&] { scattered_mapped_512<<<blocks, 256>>>(stack.io, stack.column, rows, tiles, sum_out); }, 3),
         tiles * 512.0, e, p4);
    p4 = time_ms([&] { plain_128<<<blocks, 256>>>(host, rows, tiles, sum_out); }, 3), e = last_sum();
    line("random 128 B, plain", p4, tiles * 128.0, e, 0);
    line("random 128 B, fetch", time_ms([&] { mapped_128<<<blocks, 256>>>(stack.io, stack.column, rows, tiles, sum_out); }, 3), tiles * 128.0, e, p4);
    stack.expect_ok("mapped");
}

static void queue(bool small, double* host, u64 rows) {
    printf("queue\n");
    for (u32 threads : {1u, 4u, 8u})
        for (u32 queues : {1u, 8u, 32u}) {
            if (queues < threads || (small && threads > 1)) continue;
            Stack stack(rows, nullptr, 2048, 9, queues, 10, 0);
            Echo echo(stack, nullptr, threads);
            for (u32 warps_per_queue : {32u, 128u}) {
                u32 grid = queues * warps_per_queue / 8, n = small ? 10 : 200;
                if (grid > blocks) continue;
                double ms = time_ms([&] { raw_commands<<<grid, 256>>>(stack.io, stack.column, stack.queues.size() * 1000, n, sum_out); }, 1);
                stack.expect_ok("empty commands");
                Stats s = stack.take_stats();
                printf("empty commands: %u CPU threads, %2u queues, %5u GPU threads: %7.2f M/s, %.1f entries a doorbell\n", threads, queues,
                       grid * 256, (double)s.commands / ms / 1e3, (double)s.commands / (double)s.doorbells);
            }
        }
    for (u32 threads : {4u, 8u}) {
        if (small && threads > 4) continue;
        u64 tiles = small ? 512 : 1 << 20, lines = small ? 4096 : 2 << 20;
        Stack stack(rows, nullptr, lines, 9, 32, 10, 4096, 1);
        Echo echo(stack, (const u8*)host, threads);
        double p4 = time_ms([&] { plain_4k<<<blocks, 256>>>(host, rows, tiles, sum_out); }, 1), e = last_sum();
        double ms = time_ms([&] { scattered_queued_4k<<<blocks, 256>>>(stack.io, stack.column, rows, tiles, sum_out); }, 1);
        printf("%u CPU threads, 32 queues:\n", threads);
        line("random 4 KiB by commands, cold", ms, tiles * 4096.0, e, p4);
        stack.expect_ok("4 KiB commands");
        Stats s = stack.take_stats();
        printf("   %llu commands, %llu bytes (%.1f GB/s), %llu installs, %llu evictions, %llu full sets, %.1f entries a doorbell\n", s.commands,
               s.command_bytes, (double)s.command_bytes / ms / 1e6, s.installs, s.evictions, s.full_sets,
               (double)s.commands / (double)s.doorbells);
        u64 count = small ? 1 << 14 : 1 << 22;
        Stack other(rows, nullptr, lines, 9, 32, 10, 4096, 1);
        Echo echo2(other, (const u8*)host, threads);
        plain_rows<<<blocks, 256>>>(host, rows, count, sum_out);
        time_ms([&] { plain_rows<<<blocks, 256>>>(host, rows, count, sum_out); }, 1), e = last_sum();
        ms = time_ms([&] { rows_queued<<<blocks, 256>>>(other.io, other.column, rows, count, sum_out); }, 1);
        line("random rows by 512 B commands, cold", ms, count * 8.0, e, 0);
        other.expect_ok("512 B commands");
        s = other.take_stats();
        printf("   %llu commands: %.2f M/s, %.1f entries a doorbell\n", s.commands, (double)s.commands / ms / 1e3, (double)s.commands / (double)s.doorbells);
    }
}

static void probe() {
    u32 *host = pinned_array<u32>(1 << 20), *device = device_array<u32>(1 << 20);
    void (*kernels[])(u32*, u32*, u32, double*) = {step_0, step_1, step_2, step_3, step_4, step_5, step_6};
    const char* names[] = {"host store, system fence", "host store, device fence", "device store, device fence", "acquire load of host memory, 32 lanes",
                           "load of host memory, one lane", "nanosleep 1000", "device store, system fence"};
    for (u32 i = 0; i < 7; i++)
        for (u32 grid : {1u, 16u, blocks}) {
            double ms = time_ms([&] { kernels[i]<<<grid, 256>>>(host, device, 50, sum_out); }, 2);
            printf("%-40s %5u warps: %8.3f us each, %9.3f M/s\n", names[i], grid * 8, ms * 1000 / 50, grid * 8 * 50 / ms / 1e3);
        }
}

int main(int argc, char** argv) {
    bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    auto wanted = [&](const char* name) {
        bool named = false;
        for (int i = 1 + small; i < argc; i++) {
            named = true;
            if (strcmp(argv[i], name) == 0) return true;
        }
        return !named;
    };
    setvbuf(stdout, nullptr, _IOLBF, 0);
    cudaDeviceProp prop;
    CHECK(cudaGetDeviceProperties(&prop, 0));
    blocks = small ? 16 : (u32)prop.multiProcessorCount * 4;
    sum_out = device_array<double>(1);
    printf("%s, %u blocks of 256\n", prop.name, blocks);
    if (wanted("probe")) probe();
    if (wanted("hits")) hits(small);
    if (wanted("mapped") || wanted("queue")) {
        u64 rows = small ? 1 << 21 : 1 << 30;
        double* host;
        CHECK(cudaHostAlloc(&host, rows * 8, cudaHostAllocPortable | cudaHostAllocMapped));
        std::vector<std::thread> fillers;
        for (u32 t = 0; t < 16; t++)
            fillers.emplace_back([=] {
                for (u64 i = rows / 16 * t; i < rows / 16 * (t + 1); i++) host[i] = (double)value_of(i);
            });
        for (auto& t : fillers) t.join();
        if (wanted("mapped")) mapped(small, host, rows);
        if (wanted("queue")) queue(small, host, rows);
    }
    return 0;
}
