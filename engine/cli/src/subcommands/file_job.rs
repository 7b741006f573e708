//! Work that writes files: its progress bar, its interruption, and the summary after it.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use crate::exit_error::ExitError;
use crate::interrupts::{InterruptWatch, with_interrupts};
use crate::terminal::note;
use crate::{progress, units};

/// Time after which the bar shows rows and rate.
const MESSAGE_DELAY: Duration = Duration::from_secs(1);

/// The progress of work that counts rows. Ctrl-C stops the work.
pub(super) struct RowProgress<'a> {
    bar: ProgressBar,
    start: Instant,
    watch: &'a InterruptWatch,
}

impl<'a> RowProgress<'a> {
    /// A bar over `rows`, the total if it is known. Without `draw`, the bar is hidden.
    pub(super) fn new(rows: Option<u64>, draw: bool, watch: &'a InterruptWatch) -> Self {
        Self {
            bar: progress::rows_bar(rows, draw),
            start: Instant::now(),
            watch,
        }
    }

    /// Counts new rows. `Break` after Ctrl-C.
    pub(super) fn advance(&self, rows: u64) -> ControlFlow<()> {
        self.bar.inc(rows);
        let elapsed = self.start.elapsed();
        if elapsed > MESSAGE_DELAY {
            let done = self.bar.position();
            let rate = (done as f64 / elapsed.as_secs_f64()) as u64;
            self.bar.set_message(format!(
                "{}, {} a second",
                units::counted(done, "row"),
                units::count(rate)
            ));
        }
        if self.watch.fired() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
    /// Removes the bar.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Runs work that writes into `out`, and prints a summary unless `quiet`. The work returns its number of files, rows
/// and bytes.
pub(super) fn run(
    quiet: bool,
    out: &Path,
    work: impl FnOnce(&InterruptWatch) -> Result<(usize, u64, u64), ExitError>,
) -> Result<(), ExitError> {
    let start = Instant::now();
    let (files, rows, bytes) = with_interrupts(work)?;
    if quiet {
        return Ok(());
    }
    let time = start.elapsed();
    let rate = bytes as f64 / time.as_secs_f64().max(1e-9);
    note(format_args!(
        "{} in {}, {} in {} ({} a second): {}",
        units::counted(rows, "row"),
        units::counted(files as u64, "file"),
        units::bytes(bytes),
        units::duration(time),
        units::bytes(rate as u64),
        out.display(),
    ));
    Ok(())
}
