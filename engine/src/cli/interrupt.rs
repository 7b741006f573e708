//! Ctrl-C and termination, as something that a running query can be raced against.

use std::io;
use std::sync::Arc;

use tokio::sync::watch;

/// Counts the signals of this process from the moment it is made.
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    count: Arc<watch::Sender<u64>>,
}

impl Interrupts {
    /// Starts to listen for Ctrl-C, which no longer ends the process by itself. Call it inside a runtime.
    pub(crate) fn listen() -> io::Result<Self> {
        let interrupts = Self {
            count: Arc::new(watch::Sender::new(0)),
        };
        #[cfg(unix)]
        interrupts.count_signal(tokio::signal::unix::SignalKind::interrupt())?;
        #[cfg(not(unix))]
        interrupts.count_ctrl_c();
        Ok(interrupts)
    }

    #[cfg(unix)]
    fn count_signal(&self, kind: tokio::signal::unix::SignalKind) -> io::Result<()> {
        let mut signal = tokio::signal::unix::signal(kind)?;
        let count = Arc::clone(&self.count);
        tokio::spawn(async move {
            while signal.recv().await.is_some() {
                count.send_modify(|count| *count += 1);
            }
        });
        Ok(())
    }

    #[cfg(not(unix))]
    fn count_ctrl_c(&self) {
        let count = Arc::clone(&self.count);
        tokio::spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                count.send_modify(|count| *count += 1);
            }
        });
    }

    /// A watch over what is started now: signals from here on end it.
    pub(crate) fn watch(&self) -> Watch {
        Watch {
            count: self.count.subscribe(),
        }
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
