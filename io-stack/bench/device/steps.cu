// Kernels with steps of I/O and computing in turn: synchronous, or with the I/O requested some steps ahead. The text
// before defines begin_clocks() and end_clocks(): with clocks, or empty.

#define STEPS                                                                                               \
    const __grid_constant__ IoStack io, const __grid_constant__ ColumnDesc column, u64 rows, u32 steps,     \
        u32 lines, u32 ahead, u64 compute_ns, u64 *out
#define STEP_PARAMETERS \
    const IoStack &io, const ColumnDesc &column, u64 rows, u32 steps, u32 lines, u32 ahead, u64 compute_ns

// The n-th line of the walk. If the number of lines is a power of two, the walk takes every line once, and neighbours
// of the walk lie in different groups.
static __device__ __forceinline__ u64 line_of(u64 n, u64 rows) { return n * 0x9E3779B97F4A7C15ull % (rows / 512); }

// I/O of a step: one whole line.
struct WholeLine {
    static __device__ __forceinline__ u64 row(u64 at, u32, u64 rows) { return line_of(at, rows) * 512; }
    template <class Array>
    static __device__ __forceinline__ bool get(Array& array, u64 at, u32 lines, u64 rows, u64& sum) {
        u64 value[16];
        if (!array.template tile<16, false>(row(at, lines, rows), 512, value)) return false;
        GRAMPUS_UNROLL
        for (u32 k = 0; k < 16; k++) sum += value[k];
        return true;
    }
    template <class Array>
    static __device__ __forceinline__ bool send(Array& array, u64 at, u32 lines, u64 rows) {
        return array.prefetch(lane_id() == 0, row(at, lines, rows));
    }
    static __device__ u64 expected(u64 at, u32 lines, u64 rows) {
        u64 sum = 0;
        for (u32 k = 0; k < 16; k++) sum += word_at(row(at, lines, rows) + k * 32 + lane_id());
        return sum;
    }
};
// I/O of a step: one value for each of `lines` lanes, each in its own line.
struct ValueEach {
    static __device__ __forceinline__ u64 row(u64 at, u32 lines, u64 rows) {
        return line_of(at * lines + lane_id() % lines, rows) * 512 + lane_id() * 16;
    }
    template <class Array>
    static __device__ __forceinline__ bool get(Array& array, u64 at, u32 lines, u64 rows, u64& sum) {
        u64 value;
        if (!array.fetch(lane_id() < lines, row(at, lines, rows), value)) return false;
        sum += value;
        return true;
    }
    template <class Array>
    static __device__ __forceinline__ bool send(Array& array, u64 at, u32 lines, u64 rows) {
        return array.prefetch(lane_id() < lines, row(at, lines, rows));
    }
    static __device__ u64 expected(u64 at, u32 lines, u64 rows) {
        return lane_id() < lines ? word_at(row(at, lines, rows)) : 0;
    }
};

static __device__ __forceinline__ void compute_for(u64 ns) {
    for (u64 began = now_ns(); now_ns() - began < ns;) {}
}

template <class Step>
static __device__ __forceinline__ bool take_steps(STEP_PARAMETERS, u64 warps, u64& sum) {
    ColumnArray<u64, Queued<>, true> array(io, column);
    for (u32 i = 0; i < ahead && i < steps; i++)
        if (!Step::send(array, i * warps + warp_index(), lines, rows)) return false;
    for (u32 i = 0; i < steps; i++) {
        if (!Step::get(array, i * warps + warp_index(), lines, rows, sum)) return false;
        GRAMPUS_STEP(got);
        u64 next = (i + ahead) * warps + warp_index();
        if (ahead > 0 && i + ahead < steps && !Step::send(array, next, lines, rows)) return false;
        GRAMPUS_STEP(sent);
        compute_for(compute_ns);
        GRAMPUS_STEP(computed);
    }
    return true;
}

// The last io.servers warps serve until all others have ended.
template <class Step>
static __device__ __forceinline__ void steps_of(STEP_PARAMETERS, u64* out) {
    u32 warps = (u32)warp_count() - io.servers, *ended = (u32*)(out + 1);
    if (warp_index() >= warps) {
        serve(io, (u32)warp_index() - warps, ended, warps, FillFinish<CACHE_WAYS>(io.cache));
        return;
    }
    begin_clocks();
    u64 sum = 0;
    if (take_steps<Step>(io, column, rows, steps, lines, ahead, compute_ns, warps, sum)) add_up(sum, out);
    end_clocks(out);
    if (lane_id() == 0) fetch_add_relaxed_gpu(ended, 1u);
}
KERNEL steps_line(STEPS) { steps_of<WholeLine>(io, column, rows, steps, lines, ahead, compute_ns, out); }
KERNEL steps_values(STEPS) { steps_of<ValueEach>(io, column, rows, steps, lines, ahead, compute_ns, out); }

// The sums of these kernels, from the positions alone.
template <class Step>
static __device__ void expected_of(u64 rows, u32 steps, u32 lines, u64* out) {
    u64 sum = 0;
    for (u32 i = 0; i < steps; i++) sum += Step::expected(i * warp_count() + warp_index(), lines, rows);
    add_up(sum, out);
}
KERNEL expected_line(u64 rows, u32 steps, u32 lines, u64* out) { expected_of<WholeLine>(rows, steps, lines, out); }
KERNEL expected_values(u64 rows, u32 steps, u32 lines, u64* out) { expected_of<ValueEach>(rows, steps, lines, out); }
