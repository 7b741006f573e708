// The kernels before and after a library's call: a warp takes one chunk after the other.
GRAMPUS_KERNEL(grampus_prepare_chunks, grampus::LibraryLaunch, launch) {
    using namespace grampus;
    u32 job = 0;
    GRAMPUS_NO_UNROLL
    for (u32 at = launch_warp(); at < launch.chunks; at += launch_warps()) {
        while (at - launch.job[job].first >= launch.job[job].count) job++;
        const StoredChunk chunk = launch.job[job].chunks[at - launch.job[job].first];
        prepare_chunk(launch, at, chunk);
        sync_warp();
    }
}

GRAMPUS_KERNEL(grampus_take_chunks, grampus::LibraryLaunch, launch) {
    using namespace grampus;
    u32 job = 0;
    GRAMPUS_NO_UNROLL
    for (u32 at = launch_warp(); at < launch.chunks; at += launch_warps()) {
        while (at - launch.job[job].first >= launch.job[job].count) job++;
        const StoredChunk chunk = launch.job[job].chunks[at - launch.job[job].first];
        ChunkResult result = take_chunk(launch, at, chunk);
        if (lane_id() == 0) {
            bool good = result.status == CHUNK_OK && result.bytes == chunk.bytes;
            if (!good) cas_relaxed_gpu(launch.failed, 0u, chunk.label + 1);
            if (launch.results != nullptr) launch.results[at] = result;
        }
        sync_warp();
    }
}
