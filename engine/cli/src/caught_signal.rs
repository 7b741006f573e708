//! [`CaughtSignal`]: the signals that end a command, and the exit status of each.

use std::sync::atomic::{AtomicU8, Ordering};

/// The last signal, as its place in [`CaughtSignal::ALL`] plus one; 0: none.
static LAST: AtomicU8 = AtomicU8::new(0);

/// A signal that ends a command after it has removed its temporary files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaughtSignal {
    /// Ctrl-C: SIGINT.
    Interrupt,
    /// A request to terminate: SIGTERM.
    Terminate,
    /// The terminal went away: SIGHUP.
    HangUp,
}

impl CaughtSignal {
    pub(crate) const ALL: [Self; 3] = [Self::Interrupt, Self::Terminate, Self::HangUp];

    /// The signal's number in POSIX.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::HangUp => 1,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }

    /// The exit status that shells give to a command that a signal ended: 128 and the signal's number.
    pub(crate) fn exit_status(self) -> u8 {
        128 + self.number()
    }

    /// Keeps the signal for [`last`](Self::last).
    pub(crate) fn record(self) {
        let place = Self::ALL.iter().position(|signal| *signal == self).unwrap_or(0);
        LAST.store(place as u8 + 1, Ordering::Relaxed);
    }

    /// The last recorded signal.
    pub(crate) fn last() -> Option<Self> {
        let place = usize::from(LAST.load(Ordering::Relaxed));
        Self::ALL.get(place.checked_sub(1)?).copied()
    }
}
