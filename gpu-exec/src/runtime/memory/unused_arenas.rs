//! `unused_arenas`: the arenas that can be given back to the driver as a whole.

use crate::runtime::memory::arena::{Arena, MARGIN_BYTES, rounded};
use crate::runtime::memory::arena_set::ArenaSet;
use crate::runtime::memory::pool_entry::PoolEntry;

/// The arenas without anything of a running query: their positions and lengths. Those whose columns were used least
/// recently come first. `lent`: queries have ranges that are no columns.
pub(super) fn unused_arenas<'a>(
    arenas: &ArenaSet,
    entries: impl Iterator<Item = &'a PoolEntry>,
    lent: bool,
) -> Vec<(usize, u64)> {
    // By arena: the last use of its columns, and their bytes.
    let mut used: Vec<(u64, u64)> = arenas.all().map(|_| (0, 0)).collect();
    for entry in entries {
        for range in entry.ranges() {
            let last = if entry.users > 0 { u64::MAX } else { entry.used.0 };
            let (known, bytes) = &mut used[range.arena];
            (*known, *bytes) = ((*known).max(last), *bytes + rounded(range.len) as u64);
        }
    }
    let holds_columns_alone =
        |arena: &Arena, bytes: u64| bytes + arena.free_bytes() + 2 * MARGIN_BYTES as u64 >= arena.buffer.len() as u64;
    let all = arenas.all().zip(used).enumerate();
    let unused = all.filter_map(|(at, (arena, (last, bytes)))| {
        let arena = arena.filter(|arena| last != u64::MAX && (!lent || holds_columns_alone(arena, bytes)))?;
        Some((last, at, arena.buffer.len() as u64))
    });
    let mut unused: Vec<_> = unused.collect();
    unused.sort_unstable();
    unused.into_iter().map(|(_, at, len)| (at, len)).collect()
}
