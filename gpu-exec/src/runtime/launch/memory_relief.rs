//! `MemoryRelief`: what a request gives up, step by step, when it is short of memory:
//!
//! 1. Buffers that no query uses, and arenas of which nothing is given out, if the driver has no more memory.
//! 2. Columns that no query uses. From then on windows come before columns.
//! 3. Reading columns by command: the sector cache is set aside for them, and the windows of other columns need memory
//!    beside it.
//! 4. The sector cache, unless another query uses it.
//!
//! **Invariant:** each step is taken once for a request. Steps 1 and 2 are taken again after a wait for another query,
//! since that query has left memory behind. Waits are bounded too.

use crate::error::Shortage;
use crate::runtime::device_state::DeviceState;

/// Waits of a request for memory of other queries, at most: so many queries may overtake it.
const MAX_WAITS: u32 = 1 << 10;

/// The steps that were taken.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MemoryRelief {
    has_freed_buffers: bool,
    has_evicted: bool,
    no_commands: bool,
    has_given_up_cache: bool,
    waits: u32,
}

impl MemoryRelief {
    /// Whether memory for windows is taken before that for columns.
    pub(crate) fn windows_first(self) -> bool {
        self.has_evicted
    }

    /// Whether columns may be read by command.
    pub(crate) fn commands(self) -> bool {
        !self.no_commands
    }

    /// Takes the next step. False: there is none. `reads_by_command`: the plan that was short has such columns. The
    /// request holds no resources.
    pub(crate) fn next(&mut self, state: &DeviceState, shortage: &Shortage, reads_by_command: bool) -> bool {
        let is_drivers = matches!(shortage, Shortage::Driver(_)) || state.pool().is_short();
        if is_drivers && !std::mem::replace(&mut self.has_freed_buffers, true) {
            state.resources.free_idle(shortage.is_of_pinned_memory());
            let free = state.pool().take_free();
            drop(free); // without the pool's lock
            return true;
        }
        if !std::mem::replace(&mut self.has_evicted, true) {
            let mut pool = state.pool();
            pool.evict_unused();
            let free = if is_drivers { pool.take_free() } else { Vec::new() };
            drop(pool);
            drop(free);
            return true;
        }
        if reads_by_command {
            return !std::mem::replace(&mut self.no_commands, true);
        }
        !std::mem::replace(&mut self.has_given_up_cache, true) && state.commands.give_up(&state.pool, 0)
    }

    /// Whether the request may wait for another query. What that query leaves is given up anew.
    pub(crate) fn may_wait(&mut self) -> bool {
        self.waits += 1;
        (self.has_freed_buffers, self.has_evicted) = (false, false);
        self.waits <= MAX_WAITS
    }
}
