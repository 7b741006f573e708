//! [`Threads`]: the workers of a connection, and the wait of a Python thread for their work.
//!
//! **Invariant:** a thread that waits does not hold the interpreter lock. It takes the lock every [`TICK`], for Ctrl-C.

use std::future::Future;
use std::io;
use std::time::Duration;

use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::error::error;

/// Time between two looks for Ctrl-C.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Stack of a worker: enough for the deepest expressions that a statement may have. Pages that are not used take no
/// memory.
const THREAD_STACK_BYTES: usize = 64 << 20;

/// The worker threads of a connection.
#[derive(Debug)]
pub(crate) struct Threads {
    workers: Option<Runtime>,
    /// The process that started them: a forked child has no workers.
    process: u32,
}

impl Threads {
    /// Starts `count` workers, by default one per core.
    pub(crate) fn start(count: Option<usize>) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        if let Some(count) = count {
            builder.worker_threads(count.max(1));
        }
        let workers = builder
            .enable_all()
            .thread_name("grampus")
            .thread_stack_size(THREAD_STACK_BYTES)
            .build()?;
        Ok(Self {
            workers: Some(workers),
            process: std::process::id(),
        })
    }

    /// Runs `work` on the workers. Dropping the [`Task`] stops it.
    ///
    /// # Errors
    /// In a process that was forked after the workers started.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> PyResult<Task<T>> {
        Ok(Task(self.handle()?.spawn(work)))
    }

    /// The workers, for work that others start.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    pub(crate) fn handle(&self) -> PyResult<Handle> {
        match &self.workers {
            Some(workers) if self.process == std::process::id() => Ok(workers.handle().clone()),
            _ => Err(error(
                "the connection was opened before this process was forked: call grampus.connect() in each process",
            )),
        }
    }

    /// Waits for `work` on the workers. Ctrl-C stops it with `KeyboardInterrupt`, and a panic in it is an error.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> PyResult<T> {
        let mut task = self.spawn(work)?;
        let caller = caller()?;
        py.detach(|| {
            loop {
                match caller.block_on(async { tokio::time::timeout(TICK, &mut task.0).await }) {
                    Ok(Ok(done)) => return Ok(done),
                    Ok(Err(join)) if join.is_panic() => return Err(error(format!("a fault of the program: {join}"))),
                    Ok(Err(_)) => return Err(error("the query was stopped")),
                    Err(_) => Python::attach(|py| py.check_signals())?,
                }
            }
        })
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // A cancelled query may be busy with its last batch. The interpreter does not wait for it.
        if let Some(workers) = self.workers.take() {
            if self.process == std::process::id() {
                workers.shutdown_background();
            } else {
                std::mem::forget(workers);
            }
        }
    }
}

/// A runtime of the calling thread, with a timer that busy workers do not delay.
pub(crate) fn caller() -> PyResult<Runtime> {
    let caller = Builder::new_current_thread().enable_time().build();
    caller.map_err(|failure| error(format!("cannot start a timer: {failure}")))
}

/// Work of the workers; dropping this value stops it.
#[derive(Debug)]
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
