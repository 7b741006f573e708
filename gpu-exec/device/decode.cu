// The decoding kernel: a warp takes one task after the other.
GRAMPUS_KERNEL(grampus_decode, grampus::DecodeLaunch, launch) {
    using namespace grampus;
    u32 job = 0;
    GRAMPUS_NO_UNROLL
    for (u32 at = launch_warp(); at < launch.tasks; at += launch_warps()) {
        while (at - launch.job[job].first >= launch.job[job].count) job++;
        const DecodeTask& task = launch.job[job].tasks[at - launch.job[job].first];
        if (!decode(task) && lane_id() == 0) cas_relaxed_gpu(launch.failed, 0u, task.label + 1);
        sync_warp();
    }
}
