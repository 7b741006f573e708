//! The threads: workers that run queries, and the calling thread, which prints, draws and listens meanwhile. The
//! caller has a timer of its own, because busy workers look at theirs late.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::exit_error::{self, Failure, Report};
use crate::interrupts::Watch;

/// Plans of large queries are deep.
const THREAD_STACK_BYTES: usize = 8 << 20;

/// How long a cancelled query may take to give way.
const RECOVERY_TIME: Duration = Duration::from_millis(500);

/// See the module.
pub(crate) struct Threads {
    caller: Runtime,
    workers: Option<Runtime>,
    count: Option<usize>,
}

impl Threads {
    /// Starts `count` workers, by default one per core.
    pub(crate) fn start(count: Option<usize>) -> Result<Self, Failure> {
        let started = || -> io::Result<Self> {
            Ok(Self {
                caller: Builder::new_current_thread().enable_time().build()?,
                workers: Some(start_workers(count)?),
                count,
            })
        };
        started().map_err(|error| exit_error::file("start", "the threads", &error).into())
    }

    /// After a cancelled query: if its operators still keep all workers, leaves them behind and starts new ones.
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

    /// Runs the caller's side: what waits for workers.
    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.caller.block_on(future)
    }

    /// Has the workers run something. It is stopped when the value is dropped.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Task<T> {
        match &self.workers {
            Some(workers) => Task(workers.spawn(work)),
            None => unreachable!("workers live as long as this value"),
        }
    }

    /// Has the workers run something, unless a signal comes first.
    pub(crate) fn race<T: Send + 'static>(
        &self,
        watch: &Watch,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        let mut task = self.spawn(work);
        self.block_on(async {
            tokio::select! {
                () = watch.wait() => Err(Failure::Interrupted),
                done = &mut task.0 => done.map_err(|error| Report::new(format!("internal error: {error}")).into()),
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
        // A cancelled query may be busy with its last batch; nobody waits for it.
        if let Some(workers) = self.workers.take() {
            workers.shutdown_background();
        }
    }
}

/// Something that workers do while this value lives.
pub(crate) struct Task<T>(JoinHandle<T>);

impl<T> Task<T> {
    async fn done(mut self) {
        // Whether it succeeded is not asked.
        let _ = (&mut self.0).await;
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
