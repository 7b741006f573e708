// Time, pauses and warp numbers of host threads, as target_host.cuh declares them. cuda/host_compiler.rs appends this
// file to a kernel's text.

namespace grampus_host {

int mutant = grampus::MUTANT_NONE;
__thread grampus::u32 warp = 0, warps = 1;

void step(const char*) {}

grampus::u64 now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (grampus::u64)now.tv_sec * 1000000000ull + (grampus::u64)now.tv_nsec;
}

// The threads share few cores with the controller's threads: yielding lets those run, sleeping would not.
void pause_ns(grampus::u32 ns) {
    if (ns < 20000) {
        sched_yield();
        return;
    }
    timespec pause = {0, (long)ns};
    nanosleep(&pause, nullptr);
}

grampus::u32 read_register(const grampus::u32* p) { return *(const volatile grampus::u32*)p; }

}  // namespace grampus_host
