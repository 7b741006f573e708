// A stack for device.cu without the Rust half: queues, cache and descriptors by plain CUDA calls, and a controller that
// answers at once. Appended to the device headers, before device.cu.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                  \
    do {                                                                                             \
        cudaError_t e = (call);                                                                      \
        if (e != cudaSuccess) {                                                                      \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e));             \
            exit(1);                                                                                 \
        }                                                                                            \
    } while (0)

// ---- the stack ----------------------------------------------------------------------------------------------

template <class T>
T* device_array(u64 count) {
    T* p;
    CHECK(cudaMalloc(&p, count * sizeof(T)));
    CHECK(cudaMemset(p, 0, count * sizeof(T)));
    return p;
}
template <class T>
T* pinned_array(u64 count) {
    T* p;
    CHECK(cudaHostAlloc(&p, count * sizeof(T), cudaHostAllocPortable));
    memset(p, 0, count * sizeof(T));
    return p;
}

struct Stack {
    IoStack io = {};
    ColumnDesc column = {};
    Status* status;
    Stats* stats;
    std::vector<QueueDesc> queues;
    DoorbellGroup *tails, *heads;

    Stack(u64 rows, const void* mapped, u64 cache_lines, u32 sector_log2, u32 queue_count, u32 depth_log2, u32 bounce_bytes, u32 max_lines = 256) {
        status = device_array<Status>(1);
        stats = device_array<Stats>(1);
        io.status = status;
        io.stats = stats;
        io.host_abort = pinned_array<u32>(1);
        io.timeout_ns = 5000000000ull;
        io.source_count = 1;
        io.queue_count = queue_count;
        SourceDesc source = {};
        source.blocks = rows * 8 / 512;
        source.nsid = 1;
        source.lba_log2 = 9;
        source.queue_count = queue_count;
        source.max_lines = max_lines;
        io.sources = upload(&source, 1);
        Extent extent = {};
        extent.rows = rows;
        extent.first_line = 1ull << 33;
        extent.mapped = (const u8*)mapped;
        column.extents = upload(&extent, 1);
        column.extent_count = 1;
        column.value_bytes = 8;
        CacheDesc& c = io.cache;
        c.group_log2 = 8;
        c.ways = CACHE_WAYS;
        c.sector_log2 = sector_log2;
        c.groups = (u32)((cache_lines + 256 * CACHE_WAYS - 1) / (256 * CACHE_WAYS));
        c.set_count = c.groups << 8;
        u64 lines = (u64)c.set_count * CACHE_WAYS;
        CHECK(cudaMalloc(&c.data, lines * LINE_BYTES));
        c.tags = device_array<u64>(lines);
        CHECK(cudaMemset(c.tags, 0xFF, lines * 8));
        c.state = device_array<u64>(lines);
        c.requested = device_array<u32>(lines);
        c.sets = device_array<CacheSet>(c.set_count);
        if (queue_count > 0) add_queues(queue_count, depth_log2, bounce_bytes);
    }
    ~Stack() {
        cudaFree(io.cache.data);
        cudaFree(io.cache.tags);
        cudaFree(io.cache.state);
        cudaFree(io.cache.requested);
        cudaFree(io.cache.sets);
    }
    template <class T>
    T* upload(const T* from, u64 count) {
        T* p = device_array<T>(count);
        CHECK(cudaMemcpy(p, from, count * sizeof(T), cudaMemcpyHostToDevice));
        return p;
    }
    void add_queues(u32 count, u32 depth_log2, u32 bounce_bytes) {
        u32 depth = 1u << depth_log2;
        tails = pinned_array<DoorbellGroup>((count + 15) / 16);
        heads = pinned_array<DoorbellGroup>((count + 15) / 16);
        std::vector<u32> ring(depth);
        for (u32 i = 0; i < depth; i++) ring[i] = i + 1 < depth ? i : FREE_RING_EMPTY;
        QueueState start = {};
        start.credits = (i32)depth - 1;
        start.push_ticket = depth - 1;
        for (u32 i = 0; i < count; i++) {
            QueueDesc q = {};
            q.sq = pinned_array<SqEntry>(depth);
            q.cq = pinned_array<CqEntry>(depth);
            q.sq_doorbell = &tails[i / 16].word[i % 16];
            q.cq_doorbell = &heads[i / 16].word[i % 16];
            q.state = upload(&start, 1);
            q.marks = device_array<u32>(depth);
            q.free_ring = upload(ring.data(), depth);
            q.commands = device_array<CommandRecord>(depth);
            if (bounce_bytes > 0) q.bounce = pinned_array<u8>((u64)depth * bounce_bytes);
            q.bounce_bus = (u64)q.bounce;
            q.bounce_bytes = bounce_bytes;
            q.depth_log2 = depth_log2;
            q.qid = i + 1;
            q.flags = QUEUE_SGL;
            queues.push_back(q);
        }
        io.queues = upload(queues.data(), count);
    }
    void expect_ok(const char* what) {
        Status s;
        CHECK(cudaMemcpy(&s, status, sizeof s, cudaMemcpyDeviceToHost));
        if (s.code == STATUS_OK) return;
        printf("%s: status %u, NVMe %x, queue %u, line %llx, waited %llu ns\n", what, s.code, s.nvme_status, s.queue, s.line,
               s.waited_ns);
        Stats counted = take_stats();
        printf("   %llu commands, %llu completions, %llu stale, %llu doorbells\n", counted.commands, counted.completions,
               counted.stale_completions, counted.doorbells);
        for (const QueueDesc& q : queues) {
            QueueState state;
            u32 depth = 1u << q.depth_log2, held[4] = {};
            std::vector<CommandRecord> records(depth);
            std::vector<u32> ring(depth), marks(depth);
            CHECK(cudaMemcpy(&state, q.state, sizeof state, cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(records.data(), q.commands, depth * sizeof(CommandRecord), cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(ring.data(), q.free_ring, depth * 4, cudaMemcpyDeviceToHost));
            CHECK(cudaMemcpy(marks.data(), q.marks, depth * 4, cudaMemcpyDeviceToHost));
            u32 full = 0;
            for (u32 i = 0; i < depth; i++) full += ring[i] != FREE_RING_EMPTY;
            for (const CommandRecord& r : records) held[r.state & 3]++;
            printf("   queue %u: credits %d, popped %u, pushed %u, in ring %u, ticket %u, tail %u (next mark %u), sq_lock %u, head %u, cq_lock %u, doorbells %u %u, "
                   "free %u submitted %u reaped %u done %u\n",
                   q.qid, state.credits, state.pop_ticket, state.push_ticket, full, state.sq_ticket, state.sq_tail, marks[state.sq_tail % depth],
                   state.sq_lock, state.cq_head, state.cq_lock, *q.sq_doorbell, *q.cq_doorbell, held[0], held[1], held[2], held[3]);
        }
        exit(1);
    }
    Stats take_stats() {
        Stats s;
        CHECK(cudaMemcpy(&s, stats, sizeof s, cudaMemcpyDeviceToHost));
        CHECK(cudaMemset(stats, 0, sizeof s));
        return s;
    }
};

// The simplest controller there can be: `threads` threads, each with its share of the queues.
struct Echo {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    std::atomic<u64> served{0};

    Echo(Stack& stack, const u8* storage, u32 count) {
        for (u32 t = 0; t < count; t++)
            threads.emplace_back([this, &stack, storage, t, count] { serve(stack, storage, t, count); });
    }
    ~Echo() {
        stop = true;
        for (auto& t : threads) t.join();
    }
    void serve(Stack& stack, const u8* storage, u32 first, u32 step) {
        struct Ring {
            const QueueDesc* q;
            u32 head = 0, tail = 0, phase = 1;
        };
        std::vector<Ring> rings;
        for (u32 i = first; i < stack.queues.size(); i += step) rings.push_back(Ring{&stack.queues[i]});
        u64 count = 0;
        while (!stop.load(std::memory_order_relaxed))
            for (Ring& r : rings) {
                const QueueDesc& q = *r.q;
                u32 mask = (1u << q.depth_log2) - 1, rung = __atomic_load_n(q.sq_doorbell, __ATOMIC_ACQUIRE);
                while (r.head != rung) {
                    const SqEntry& e = q.sq[r.head];
                    u32 bytes = ((e.cdw12 & 0xFFFF) + 1) << 9;
                    u32 status = 0;
                    if (storage != nullptr) {
                        u64 from = ((u64)e.cdw11 << 32 | e.cdw10) << 9;
                        if (e.prp1 - q.bounce_bus >= (u64)q.bounce_bytes << q.depth_log2) status = 4;
                        else memcpy((void*)e.prp1, storage + from, bytes);
                    }
                    u32 cid = e.cid;
                    r.head = (r.head + 1) & mask;
                    CqEntry& c = q.cq[r.tail];
                    c.sqhd = (u16)r.head;
                    c.sqid = (u16)q.qid;
                    __atomic_store_n(&c.cid_psf, cid | r.phase << 16 | status << 17, __ATOMIC_RELEASE);
                    r.tail = (r.tail + 1) & mask;
                    if (r.tail == 0) r.phase ^= 1;
                    count++;
                }
            }
        served += count;
    }
};
