//! `IoBinding`: the I/O stack as a query's kernels see it. If no column is read by command, a status block stands for
//! it.

use grampus_io_stack::layout::{IoStack, Stats};
use grampus_io_stack::stack::{Column, Stack, StackError};

use crate::error::RunError;
use crate::options::{Backing, Request};
use crate::runtime::io_stack::command_backend::{CommandBackend, OpenStorage, column};
use crate::runtime::io_stack::status_block::StatusBlock;
use crate::runtime::planner::QueryPlan;

/// Where kernels raise a status.
enum Backend<'a> {
    Commands(&'a Stack),
    Status(&'a StatusBlock),
}

/// A query's I/O, from its beginning to [`finish`](Self::finish).
pub(crate) struct IoBinding<'a> {
    /// As kernels are told.
    pub(crate) io: IoStack,
    /// Columns that are read by command; their extents live as long as kernels run.
    pub(crate) columns: Vec<Option<Column>>,
    backend: Backend<'a>,
}

impl<'a> IoBinding<'a> {
    /// Begins a query.
    pub(crate) fn new(
        request: &Request<'_>,
        plan: &QueryPlan,
        commands: &'a mut CommandBackend,
        status: &'a StatusBlock,
        open_storage: &OpenStorage,
    ) -> Result<Self, RunError> {
        if plan.choices.iter().all(|choice| choice.backing != Backing::Queued) {
            status.begin()?;
            return Ok(Self {
                io: status.io(),
                columns: plan.choices.iter().map(|_| None).collect(),
                backend: Backend::Status(status),
            });
        }
        let files = (0..plan.ids.len()).filter(|at| plan.sources[*at].is_some());
        let files: Vec<usize> = files.collect();
        let versions = files
            .iter()
            .map(|&at| (plan.ids[at], &request.input.files[at], plan.is_cold(at)));
        let versions: Vec<_> = versions.collect();
        let (stack, storages) = commands.over(&versions, open_storage)?;
        let mut sources = vec![0; plan.ids.len()];
        files
            .iter()
            .zip(storages)
            .for_each(|(&at, storage)| sources[at] = storage);
        let described = plan
            .choices
            .iter()
            .enumerate()
            .map(|(at, choice)| match choice.backing {
                Backing::Queued => column(stack, request, at, &sources).map(Some),
                _ => Ok(None),
            });
        let columns = described.collect::<Result<_, _>>()?;
        stack.begin()?;
        Ok(Self {
            io: stack.io(),
            columns,
            backend: Backend::Commands(stack),
        })
    }

    /// The stack, if a column is read through it.
    pub(crate) fn stack(&self) -> Option<&'a Stack> {
        match self.backend {
            Backend::Commands(stack) => Some(stack),
            Backend::Status(_) => None,
        }
    }

    /// Makes kernels give up that wait for commands.
    pub(crate) fn abort(&self) {
        if let Some(stack) = self.stack() {
            stack.abort_handle().abort();
        }
    }

    /// After the kernels: counters, or why kernels gave up.
    pub(crate) fn finish(&self) -> Result<Stats, StackError> {
        match self.backend {
            Backend::Commands(stack) => stack.finish(),
            Backend::Status(status) => status.finish().map(|()| Stats::default()),
        }
    }
}
