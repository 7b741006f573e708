// The functions that target_host.cuh declares for lanes, by those of lanes.h. Stands behind the device headers.
namespace grampus_host {
grampus::u32 lane() { return lanes::warp->current; }
const grampus::u64* exchange(grampus::u64 mine) { return lanes::exchange(mine); }
void synchronize() { lanes::synchronize(); }
void run_lanes(void (*body)(const void*), const void* argument) { lanes::run(body, argument); }
}  // namespace grampus_host
