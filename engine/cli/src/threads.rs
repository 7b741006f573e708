//! [`Threads`]: workers that run queries, and the calling thread, which prints, draws and listens meanwhile.
//!
//! The calling thread has a timer of its own, because the timer of busy workers is late.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::exit_error::{ErrorReport, ExitError};
use crate::interrupts::InterruptWatch;

/// Stack of a worker: enough for the deepest expressions that a statement may have. Pages that are not used take no
/// memory.
const THREAD_STACK_BYTES: usize = 64 << 20;

/// Time for a cancelled query to free the workers.
const RECOVERY_TIME: Duration = Duration::from_millis(500);

/// The worker threads and the runtime of the calling thread.
pub(crate) struct Threads {
    caller: Runtime,
    workers: Option<Runtime>,
    count: Option<usize>,
}

impl Threads {
    /// Starts `count` workers, by default one per core.
    pub(crate) fn start(count: Option<usize>) -> Result<Self, ExitError> {
        let started = || -> io::Result<Self> {
            Ok(Self {
                caller: Builder::new_current_thread().enable_time().build()?,
                workers: Some(start_workers(count)?),
                count,
            })
        };
        started().map_err(|error| ErrorReport::file("start", "the threads", &error).into())
    }

    /// Replaces the workers after a cancelled query, if its operators still keep them all.
    pub(crate) fn recover(&mut self) {
        let free = self.spawn(async {});
        let free = self
            .caller
            .block_on(async { tokio::time::timeout(RECOVERY_TIME, free.done()).await.is_ok() });
        if free {
            return;
        }
        log::info!("the cancelled query does not give way; going on with new threads");
        if let Ok(fresh) = start_workers(self.count)
            && let Some(stuck) = self.workers.replace(fresh)
        {
            stuck.shutdown_background();
        }
    }

    /// Runs a future on the calling thread.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.caller.block_on(future)
    }

    /// Runs `work` on the workers. Dropping the [`Task`] stops it.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        match &self.workers {
            Some(workers) => Task(workers.spawn(work)),
            None => unreachable!("workers live as long as this value"),
        }
    }

    /// Runs `work` on the workers until it is done or a signal arrives.
    pub(crate) fn race<T: Send + 'static>(
        &self,
        watch: &InterruptWatch,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ExitError> {
        let mut task = self.spawn(work);
        self.block_on(async {
            tokio::select! {
                () = watch.wait() => Err(ExitError::Interrupted),
                done = &mut task.0 => done.map_err(|error| ErrorReport::new(format!("internal error: {error}")).into()),
            }
        })
    }
}

fn start_workers(count: Option<usize>) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(count) = count {
        builder.worker_threads(count);
    }
    builder.enable_all().thread_stack_size(THREAD_STACK_BYTES).build()
}

impl Drop for Threads {
    fn drop(&mut self) {
        // A cancelled query may be busy with its last batch. The program does not wait for it.
        if let Some(workers) = self.workers.take() {
            workers.shutdown_background();
        }
    }
}

/// Work of the workers; dropping this value stops it.
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T> Task<T> {
    async fn done(mut self) {
        // Success and failure both mean that the workers have run the task.
        let _ = (&mut self.0).await;
    }

    /// Stops the work, and waits up to [`RECOVERY_TIME`] until its files are removed.
    pub(crate) async fn stop(mut self) {
        self.0.abort();
        let _ = tokio::time::timeout(RECOVERY_TIME, &mut self.0).await;
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
