//! Ctrl-C and termination, as something that a running query can be raced against. A thread of its own listens,
//! so that no operator, however long it keeps the workers, delays it.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tokio::sync::watch;

/// Which signals are caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Catch {
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-C and requests to terminate, for commands that have something to clean up.
    InterruptAndTerminate,
}

/// Counts the signals of this process from the moment it is made.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    count: Arc<watch::Sender<u64>>,
}

impl Interrupts {
    /// Starts to listen; from now on the caught signals do not end the process by themselves.
    pub(crate) fn listen(catch: Catch) -> io::Result<Self> {
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

    /// A watch over what is started now: signals from here on end it.
    pub(crate) fn watch(&self) -> Watch {
        Watch {
            count: self.count.subscribe(),
        }
    }
}

#[cfg(unix)]
async fn listen(catch: Catch, count: &watch::Sender<u64>, ready: &SyncSender<Option<io::Error>>) {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = signal(SignalKind::interrupt()).and_then(|interrupt| {
        let terminate = (catch == Catch::InterruptAndTerminate).then(|| signal(SignalKind::terminate()));
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
async fn listen(_: Catch, count: &watch::Sender<u64>, ready: &SyncSender<Option<io::Error>>) {
    let _ = ready.send(None);
    while tokio::signal::ctrl_c().await.is_ok() {
        count.send_modify(|count| *count += 1);
    }
}

/// See [`Interrupts::watch`].
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    count: watch::Receiver<u64>,
}

impl Watch {
    /// Whether a signal came.
    pub(crate) fn fired(&self) -> bool {
        self.count.has_changed().unwrap_or(false)
    }

    /// Waits for a signal, if need be for ever. Stays fired.
    pub(crate) async fn wait(&self) {
        let mut count = self.count.clone();
        if count.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
