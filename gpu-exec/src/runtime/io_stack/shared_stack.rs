//! `SharedStack`: the I/O stack as queries share it. A query that reads by command has the stack to itself for some
//! launches, and hands it on between two of them if another query waits for it.
//!
//! **Invariant:** a turn ends with no kernel and no command of its query in the stack.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{RunError, Shortage};
use crate::input::FileVersion;
use crate::input::file_registry::FileId;
use crate::runtime::io_stack::command_backend::{CommandBackend, OpenStorage};
use crate::runtime::memory::buffer_pool::BufferPool;
use crate::runtime::turn_queue::{Turn, TurnQueue};

/// The stack, and the queries that wait for it.
#[derive(Debug)]
pub(crate) struct SharedStack {
    turns: TurnQueue,
    /// Locked by the query whose turn it is.
    backend: Mutex<CommandBackend>,
    state: Mutex<SharedState>,
    /// Device memory for the sector cache.
    cache_bytes: u64,
}

#[derive(Debug, Default)]
struct SharedState {
    /// Files whose storages are closed before the next turn.
    stale: Vec<FileId>,
    /// Memory of the pool is set aside for the sector cache.
    has_memory: bool,
    /// Queries that had begun when the stack was used last.
    used: u64,
}

/// The stack in the hands of one query.
pub(crate) struct StackTurn<'a> {
    pub(crate) backend: MutexGuard<'a, CommandBackend>,
    shared: &'a SharedStack,
    _turn: Turn<'a>,
}

impl SharedStack {
    pub(crate) fn new(backend: CommandBackend) -> Self {
        Self {
            turns: TurnQueue::new(1),
            cache_bytes: backend.options.cache_bytes,
            backend: Mutex::new(backend),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, SharedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn turn<'a>(&'a self, turn: Turn<'a>) -> StackTurn<'a> {
        StackTurn {
            backend: self.backend.lock().unwrap_or_else(PoisonError::into_inner),
            shared: self,
            _turn: turn,
        }
    }

    /// Waits for the stack, behind the queries that came before. `None` when `stop` says so.
    pub(crate) fn enter(&self, stop: impl Fn() -> bool) -> Option<StackTurn<'_>> {
        Some(self.turn(self.turns.enter(stop)?))
    }

    /// Whether another query waits for the stack.
    pub(crate) fn is_wanted(&self) -> bool {
        self.turns.is_wanted()
    }

    /// Closes a file's storages before the next turn.
    pub(crate) fn forget(&self, file: FileId) {
        self.state().stale.push(file);
    }

    /// Sets memory of the pool aside for the sector cache, unless it has some. A query that reads by command does so
    /// before it reserves columns.
    ///
    /// # Errors
    /// [`Shortage::Columns`]: running queries use too much.
    pub(crate) fn set_memory_aside(&self, pool: &Mutex<BufferPool>) -> Result<(), RunError> {
        let mut state = self.state();
        let mut guard = lock(pool);
        state.used = guard.queries_begun();
        if state.has_memory {
            return Ok(());
        }
        let (needed, available) = (self.cache_bytes, guard.capacity());
        let arenas = guard.set_aside(needed);
        drop(guard);
        state.has_memory = arenas.is_some();
        drop(state);
        match arenas {
            Some(_) => Ok(()), // freed without a lock
            None => Err(Shortage::Columns { needed, available }.into()),
        }
    }

    /// Drops the stack for the memory of its sector cache, unless a query uses it or used it less than `min_age`
    /// queries ago. False: there was nothing to give up.
    pub(crate) fn give_up(&self, pool: &Mutex<BufferPool>, min_age: u64) -> bool {
        let now = lock(pool).queries_begun();
        {
            let state = self.state();
            if !state.has_memory || now.saturating_sub(state.used) < min_age {
                return false;
            }
        }
        let Some(turn) = self.turns.try_enter() else {
            return false;
        };
        let mut turn = self.turn(turn);
        turn.backend.rebuild();
        self.give_memory_back(pool);
        true
    }

    /// Gives the pool the memory that was set aside. There is no stack.
    fn give_memory_back(&self, pool: &Mutex<BufferPool>) {
        if std::mem::take(&mut self.state().has_memory) {
            lock(pool).give_more(self.cache_bytes);
        }
    }
}

impl StackTurn<'_> {
    /// Makes the stack serve at least these files. Returns the storage of each of them.
    ///
    /// # Errors
    /// As [`set_memory_aside`](SharedStack::set_memory_aside); a storage that cannot be opened.
    pub(crate) fn serve(
        &mut self,
        files: &[(FileId, &FileVersion, bool)],
        open: &OpenStorage,
        pool: &Mutex<BufferPool>,
    ) -> Result<Vec<u32>, RunError> {
        let stale = std::mem::take(&mut self.shared.state().stale);
        stale.into_iter().for_each(|file| self.backend.forget(file));
        self.shared.set_memory_aside(pool)?;
        let served = self.backend.over(files, open).map(|(_, storages)| storages);
        if self.backend.stack().is_none() {
            // No sector cache was built in the memory: columns may have it.
            self.shared.give_memory_back(pool);
        }
        served
    }
}

fn lock(pool: &Mutex<BufferPool>) -> MutexGuard<'_, BufferPool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}
