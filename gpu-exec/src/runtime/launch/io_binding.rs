//! `IoBinding`: the I/O stack as a query's kernels see it. If no column is read by command, a status block stands for
//! it.
//!
//! The stack is shared: between two launches the query hands it on, if another query waits for it. Afterwards the query
//! goes on where it was: what its kernels have added up lies in its own scratch memory.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use grampus_cuda::{Args, CudaError, Device, Event, Grid, Kernel, Stream};
use grampus_io_stack::abi::{ColumnDesc, IoStack, Stats};
use grampus_io_stack::stack::{Column, Stack, StackError};

use crate::error::RunError;
use crate::options::{Backing, Request};
use crate::runtime::device_state::DeviceState;
use crate::runtime::io_stack::command_backend::column;
use crate::runtime::io_stack::shared_stack::StackTurn;
use crate::runtime::io_stack::status_block::StatusBlock;
use crate::runtime::planner::QueryPlan;

/// Launches that are enqueued at once: the device works on one while the next one waits. A query that waits for the
/// stack waits for no more.
const MAX_IN_FLIGHT: usize = 2;

/// A query's I/O, from its beginning to [`finish`](Self::finish).
pub(crate) struct IoBinding<'a> {
    request: &'a Request<'a>,
    plan: &'a QueryPlan,
    state: &'a DeviceState,
    status: &'a StatusBlock,
    /// `None`: no column is read by command.
    commands: Option<Commands<'a>>,
}

/// The stack while columns are read through it.
struct Commands<'a> {
    /// `None`: handed on.
    turn: RefCell<Option<StackTurn<'a>>>,
    /// The stack's generation that the columns are described for.
    generation: Cell<u64>,
    /// By column of the program, if it is read by command. Their extents live as long as kernels run.
    columns: RefCell<Vec<Option<Column>>>,
    /// Recorded behind launches that may not have ended.
    in_flight: RefCell<VecDeque<Event>>,
    /// Counters of the turns that have ended.
    counted: RefCell<Stats>,
}

impl<'a> IoBinding<'a> {
    /// Begins a query. Waits for the stack if a column is read through it.
    ///
    /// # Errors
    /// [`RunError::Cancelled`]; a storage that cannot be opened; no memory for the sector cache.
    pub(crate) fn new(
        request: &'a Request<'a>,
        plan: &'a QueryPlan,
        state: &'a DeviceState,
        status: &'a StatusBlock,
    ) -> Result<Self, RunError> {
        status.begin()?;
        let is_queued = plan.choices.iter().any(|choice| choice.backing == Backing::Queued);
        let binding = Self {
            request,
            plan,
            state,
            status,
            commands: is_queued.then(|| Commands {
                turn: RefCell::new(None),
                generation: Cell::new(u64::MAX),
                columns: RefCell::default(),
                in_flight: RefCell::default(),
                counted: RefCell::default(),
            }),
        };
        if let Some(commands) = &binding.commands {
            binding.take_turn(commands)?;
        }
        Ok(binding)
    }

    /// Waits for the stack, and describes the columns to it unless it knows them.
    fn take_turn(&self, commands: &Commands<'a>) -> Result<(), RunError> {
        let stop = || self.request.is_cancelled();
        let mut turn = self.state.commands.enter(stop).ok_or(RunError::Cancelled)?;
        let files: Vec<usize> = (0..self.plan.ids.len())
            .filter(|at| self.plan.sources[*at].is_some())
            .collect();
        let version = |&at: &usize| (self.plan.ids[at], &self.request.input.files[at], self.plan.is_cold(at));
        let versions: Vec<_> = files.iter().map(version).collect();
        let open = &*self.state.runtime_options.open_storage;
        let storages = turn.serve(&versions, open, &self.state.pool)?;
        let generation = turn.backend.generation();
        let stack = turn.backend.stack().ok_or(StackError::OutOfService)?;
        if commands.generation.replace(generation) != generation {
            let mut sources = vec![0; self.plan.ids.len()];
            files
                .iter()
                .zip(storages)
                .for_each(|(&at, storage)| sources[at] = storage);
            let described = (self.plan.choices.iter().enumerate()).map(|(at, choice)| match choice.backing {
                Backing::Queued => column(stack, self.request, at, &sources).map(Some),
                _ => Ok(None),
            });
            *commands.columns.borrow_mut() = described.collect::<Result<_, _>>()?;
        }
        stack.begin()?;
        *commands.turn.borrow_mut() = Some(turn);
        Ok(())
    }

    /// Whether a column is read by command.
    pub(crate) fn is_queued(&self) -> bool {
        self.commands.is_some()
    }

    /// As kernels are told.
    pub(crate) fn io(&self) -> IoStack {
        self.with_stack(Stack::io).unwrap_or_else(|| self.status.io())
    }

    /// Descriptions of columns, with those that are read by command as the stack has them now.
    pub(crate) fn described(&self, columns: &[ColumnDesc]) -> Vec<ColumnDesc> {
        let mut columns = columns.to_vec();
        if let Some(commands) = &self.commands {
            for (desc, column) in columns.iter_mut().zip(&*commands.columns.borrow()) {
                if let Some(column) = column {
                    *desc = column.desc();
                }
            }
        }
        columns
    }

    /// Whether the stack's cache has more lines than so many warps can pin. True without a stack.
    pub(crate) fn has_room_for_pins(&self, warps: u64, pins: u64) -> bool {
        self.with_stack(|stack| stack.has_room_for_pins(warps, pins))
            .unwrap_or(true)
    }

    fn with_stack<T>(&self, ask: impl FnOnce(&Stack) -> T) -> Option<T> {
        let turn = self.commands.as_ref()?.turn.borrow();
        turn.as_ref()?.backend.stack().map(ask)
    }

    /// Before a launch: hands the stack on if another query waits for it, and waits for it again. Lets calls of the
    /// driver be made that wait for kernels. `wait` waits for an event of the query.
    ///
    /// # Errors
    /// The kernels before gave up; those of [`new`](Self::new).
    pub(crate) fn before_launch(&self, wait: impl Fn(&Event) -> Result<(), RunError>) -> Result<(), RunError> {
        let Some(commands) = &self.commands else { return Ok(()) };
        let is_wanted = self.state.commands.is_wanted();
        let most = match is_wanted || self.state.device.is_gate_wanted() {
            true => 0,
            false => MAX_IN_FLIGHT - 1,
        };
        loop {
            let oldest = {
                let mut in_flight = commands.in_flight.borrow_mut();
                if in_flight.len() <= most {
                    break;
                }
                in_flight.pop_front()
            };
            oldest.map_or(Ok(()), |event| wait(&event))?;
        }
        if is_wanted {
            self.end_turn(commands)?;
        }
        if commands.turn.borrow().is_none() {
            self.take_turn(commands)?;
        }
        Ok(())
    }

    /// Launches the query's kernel. If it reads by command, it waits for the controller's threads.
    pub(crate) fn launch(
        &self,
        kernel: &Kernel<'_>,
        stream: &Stream,
        grid: Grid,
        args: &mut Args,
    ) -> Result<(), CudaError> {
        match self.is_queued() {
            true => kernel.launch_waiting(stream, grid, args),
            false => kernel.launch_grid(stream, grid, args),
        }
    }

    /// Behind a launch.
    pub(crate) fn launched(&self, device: &Device, stream: &Stream) -> Result<(), RunError> {
        if let Some(commands) = &self.commands {
            let event = Event::new(device, false)?;
            event.record(stream)?;
            commands.in_flight.borrow_mut().push_back(event);
        }
        Ok(())
    }

    /// Hands the stack on. The query's kernels have ended.
    fn end_turn(&self, commands: &Commands<'a>) -> Result<(), StackError> {
        self.state.device.settle();
        let Some(mut turn) = commands.turn.borrow_mut().take() else {
            return Ok(());
        };
        let Some(stack) = turn.backend.stack() else {
            return Err(StackError::OutOfService);
        };
        match stack.finish() {
            Ok(stats) => {
                let mut counted = commands.counted.borrow_mut();
                counted.commands += stats.commands;
                counted.command_bytes += stats.command_bytes;
                Ok(())
            }
            Err(e) => {
                // After another error than the kernels' own, the stack may not be in its start state.
                if !matches!(e, StackError::Device(_)) {
                    turn.backend.rebuild();
                }
                Err(e)
            }
        }
    }

    /// Makes kernels give up that wait for commands.
    pub(crate) fn abort(&self) {
        self.with_stack(|stack| stack.abort_handle().abort());
    }

    /// After the kernels: counters, or why kernels gave up.
    pub(crate) fn finish(&self) -> Result<Stats, StackError> {
        let status = self.status.finish();
        let Some(commands) = &self.commands else {
            return status.map(|()| Stats::default());
        };
        self.end_turn(commands)?;
        status?;
        Ok(*commands.counted.borrow())
    }
}
