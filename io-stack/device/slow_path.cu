// The slow path as a unit of its own, behind all device headers. Kernels compiled with the headers before slow_path.cuh
// are linked with it, so that a new kernel compiles in a fifth of the time.
namespace grampus {

#define GRAMPUS_SLOW_PATH(Backing)                                                                           \
    template FetchedBits fetch_slowly<Backing>(const IoStack&, const ColumnDesc&, bool, u64, u32);               \
    template bool tile_slowly<Backing>(const IoStack&, const ColumnDesc&, u64, u32, u32, u32, u64*);
#define GRAMPUS_CACHED_SLOW_PATH(Backing)                                                                    \
    GRAMPUS_SLOW_PATH(Backing)                                                                               \
    template Held hold<Backing>(const IoStack&, const ColumnDesc&, u64, u32, u32, u32);                      \
    template bool prefetch_slowly<Backing>(const IoStack&, const ColumnDesc&, bool, u64, u32);

GRAMPUS_SLOW_PATH(Mapped)
GRAMPUS_CACHED_SLOW_PATH(MappedCached<>)
GRAMPUS_CACHED_SLOW_PATH(Queued<>)
template bool ahead_slowly<Queued<>>(const IoStack&, const ColumnDesc&, u64, u64, u32);

}  // namespace grampus
