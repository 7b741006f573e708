//! [`Interrupts`]: Ctrl-C and termination, as an event that a running query can be raced against.
//!
//! **Invariant:** a thread of its own listens. No operator delays a signal, even one that keeps all workers busy.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tokio::sync::watch;

use crate::exit_error::{ErrorReport, ExitError};

/// The signals that are caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaughtSignals {
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-C and requests to terminate, for commands that remove files at their end.
    InterruptAndTerminate,
}

/// The number of signals since [`listen`](Self::listen).
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    count: Arc<watch::Sender<u64>>,
}

impl Interrupts {
    /// Starts to listen. The caught signals no longer end the process.
    pub(crate) fn listen(catch: CaughtSignals) -> Result<Self, ExitError> {
        let listening = Self::start(catch);
        listening.map_err(|error| ErrorReport::file("listen for", "Ctrl-C", &error).into())
    }

    fn start(catch: CaughtSignals) -> io::Result<Self> {
        let count = Arc::new(watch::Sender::new(0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let (ready, listening) = std::sync::mpsc::sync_channel(1);
        let counted = Arc::clone(&count);
        let listener = move || runtime.block_on(listen(catch, &counted, &ready));
        std::thread::Builder::new().name("signals".to_owned()).spawn(listener)?;
        match listening.recv() {
            Ok(Some(error)) => Err(error),
            _ => Ok(Self { count }),
        }
    }

    /// A watch that later signals fire.
    pub(crate) fn watch(&self) -> InterruptWatch {
        InterruptWatch {
            count: self.count.subscribe(),
        }
    }
}

/// Runs work whose threads poll a watch over Ctrl-C and termination.
pub(crate) fn with_interrupts<T>(work: impl FnOnce(&InterruptWatch) -> Result<T, ExitError>) -> Result<T, ExitError> {
    let interrupts = Interrupts::listen(CaughtSignals::InterruptAndTerminate)?;
    work(&interrupts.watch())
}

#[cfg(unix)]
async fn listen(catch: CaughtSignals, count: &watch::Sender<u64>, ready: &SyncSender<Option<io::Error>>) {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = signal(SignalKind::interrupt()).and_then(|interrupt| {
        let terminate = (catch == CaughtSignals::InterruptAndTerminate).then(|| signal(SignalKind::terminate()));
        Ok((interrupt, terminate.transpose()?))
    });
    let (mut interrupt, mut terminate) = match signals {
        Ok(signals) => signals,
        Err(error) => {
            let _ = ready.send(Some(error));
            return;
        }
    };
    let _ = ready.send(None);
    loop {
        match &mut terminate {
            None => interrupt.recv().await,
            Some(terminate) => tokio::select! {
                signal = interrupt.recv() => signal,
                signal = terminate.recv() => signal,
            },
        };
        count.send_modify(|count| *count += 1);
    }
}

#[cfg(not(unix))]
async fn listen(_: CaughtSignals, count: &watch::Sender<u64>, ready: &SyncSender<Option<io::Error>>) {
    let _ = ready.send(None);
    while tokio::signal::ctrl_c().await.is_ok() {
        count.send_modify(|count| *count += 1);
    }
}

/// Fires at the first signal after [`Interrupts::watch`].
#[derive(Debug, Clone)]
pub(crate) struct InterruptWatch {
    count: watch::Receiver<u64>,
}

impl InterruptWatch {
    /// Whether a signal arrived.
    pub(crate) fn fired(&self) -> bool {
        self.count.has_changed().unwrap_or(false)
    }

    /// Waits for a signal, without a bound. A fired watch stays fired.
    pub(crate) async fn wait(&self) {
        let mut count = self.count.clone();
        if count.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
