//! [`Interrupts`]: Ctrl-C, termination and hang-up, as an event that a running query can be raced against.
//!
//! 1. A first signal fires the watches. The command stops its work and removes its temporary files.
//! 2. A second one, or a second of time, ends the process: the listening thread removes the temporary files then.
//! 3. In an interactive session, Ctrl-C ends the statement only, and the other signals end the session at once.
//! 4. While a controller's driver changes, signals are ignored.
//!
//! **Invariant:** a thread of its own listens. No operator delays a signal, even one that keeps all workers busy.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use grampus_tools::atomic_output::temporary_folder;
use tokio::sync::watch;

use crate::caught_signal::CaughtSignal;
use crate::exit_error::{ErrorReport, ExitError};

/// Time for a command to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// The effect of signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignalMode {
    /// Each signal ends the command.
    Command,
    /// Ctrl-C ends the running statement.
    Interactive,
    /// Signals have no effect, for work that is short and must not end half way.
    Ignored,
}

/// The number of signals since [`listen`](Self::listen).
#[derive(Debug, Clone)]
pub(crate) struct Interrupts {
    count: Arc<watch::Sender<u64>>,
}

impl Interrupts {
    /// Starts to listen. The caught signals no longer end the process by themselves.
    pub(crate) fn listen(mode: SignalMode) -> Result<Self, ExitError> {
        let listening = Self::start(mode);
        listening.map_err(|error| ErrorReport::file("listen for", "Ctrl-C", &error).into())
    }

    fn start(mode: SignalMode) -> io::Result<Self> {
        let count = Arc::new(watch::Sender::new(0));
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().enable_time().build()?;
        let (ready, listening) = std::sync::mpsc::sync_channel(1);
        let listener = Listener {
            mode,
            count: Arc::clone(&count),
        };
        let listen = move || runtime.block_on(listener.listen(&ready));
        std::thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
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

/// Runs work whose threads poll a watch over the signals.
pub(crate) fn with_interrupts<T>(work: impl FnOnce(&InterruptWatch) -> Result<T, ExitError>) -> Result<T, ExitError> {
    let interrupts = Interrupts::listen(SignalMode::Command)?;
    work(&interrupts.watch())
}

/// The thread that waits for signals.
struct Listener {
    mode: SignalMode,
    count: Arc<watch::Sender<u64>>,
}

impl Listener {
    /// Fires the watches, and ends the process where the mode says so.
    fn receive(&self, signal: CaughtSignal) {
        signal.record();
        let mut received = 0;
        self.count.send_modify(|count| {
            *count += 1;
            received = *count;
        });
        match (self.mode, signal) {
            (SignalMode::Interactive, CaughtSignal::Interrupt) | (SignalMode::Ignored, _) => {}
            (SignalMode::Command, _) if received == 1 => {}
            _ => self.end(signal),
        }
    }

    /// Removes the temporary files and ends the process, whatever its other threads do.
    fn end(&self, signal: CaughtSignal) -> ! {
        temporary_folder::remove_all();
        std::process::exit(i32::from(signal.exit_status()))
    }

    #[cfg(unix)]
    async fn listen(self, ready: &SyncSender<Option<io::Error>>) {
        use tokio::signal::unix::{SignalKind, signal};
        // A caught SIGXFSZ turns a write beyond the limit of file sizes (`ulimit -f`) into an error.
        let _file_size = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
        let ignored = ignored_signals();
        let catch = |caught: CaughtSignal| match ignored >> (caught.number() - 1) & 1 {
            0 => signal(SignalKind::from_raw(i32::from(caught.number()))).map(Some),
            _ => Ok(None),
        };
        let signals = catch(CaughtSignal::Interrupt)
            .and_then(|first| Ok((first, catch(CaughtSignal::Terminate)?, catch(CaughtSignal::HangUp)?)));
        let (mut interrupt, mut terminate, mut hang_up) = match signals {
            Ok(signals) => signals,
            Err(error) => {
                let _ = ready.send(Some(error));
                return;
            }
        };
        let _ = ready.send(None);
        let mut first = None;
        loop {
            let grace = async {
                match (self.mode, first) {
                    (SignalMode::Command, Some(signal)) => {
                        tokio::time::sleep(GRACE).await;
                        signal
                    }
                    _ => std::future::pending().await,
                }
            };
            let signal = tokio::select! {
                () = next(&mut interrupt) => CaughtSignal::Interrupt,
                () = next(&mut terminate) => CaughtSignal::Terminate,
                () = next(&mut hang_up) => CaughtSignal::HangUp,
                signal = grace => self.end(signal),
            };
            first.get_or_insert(signal);
            self.receive(signal);
        }
    }

    #[cfg(not(unix))]
    async fn listen(self, ready: &SyncSender<Option<io::Error>>) {
        let _ = ready.send(None);
        while tokio::signal::ctrl_c().await.is_ok() {
            self.receive(CaughtSignal::Interrupt);
        }
    }
}

#[cfg(unix)]
async fn next(signal: &mut Option<tokio::signal::unix::Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending::<()>().await;
    }
}

/// The signals that the process was started with as ignored (`nohup`, background jobs of scripts), one bit each. They
/// stay ignored.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
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
