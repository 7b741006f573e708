//! [`Progress`]: one line on the terminal for a query that takes over a second, from the metrics of its scans.
//!
//! Nothing is drawn if standard error is no terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use grampus::{ScanIo, scan_io};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::units;

/// Time after which a query shows its progress.
const DELAY: Duration = Duration::from_secs(1);

/// Draws the progress of one statement.
pub(crate) struct Progress {
    enabled: bool,
    bar: Option<ProgressBar>,
    plan: Option<Arc<dyn ExecutionPlan>>,
    /// Rows of all tables that the plan reads, if all are known.
    rows: Option<u64>,
}

impl Progress {
    pub(crate) fn new(wanted: bool) -> Self {
        Self {
            enabled: wanted && std::io::stderr().is_terminal(),
            bar: None,
            plan: None,
            rows: None,
        }
    }

    /// Follows the scans of `plan`.
    pub(crate) fn watch(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        if self.enabled {
            self.rows = rows_to_read(plan.as_ref());
            self.plan = Some(Arc::clone(plan));
        }
    }

    /// Draws the rows read so far, `elapsed` after the start.
    pub(crate) fn draw(&mut self, elapsed: Duration) {
        if !self.enabled || elapsed < DELAY {
            return;
        }
        let io = self.plan.as_ref().map(scan_io).unwrap_or_default();
        let total = self.rows.filter(|&rows| rows > io.rows_scanned && io.rows_scanned > 0);
        let bar = self.bar.get_or_insert_with(|| start(total));
        if total.is_none() {
            bar.set_style(style(SPINNER));
        }
        bar.set_position(io.rows_scanned);
        bar.set_message(message(elapsed, &io, total));
        bar.tick();
    }

    /// Removes the line until the next `draw`.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    /// Stops drawing: the printed result shows the progress.
    pub(crate) fn hide(&mut self) {
        self.enabled = false;
    }
}

/// A bar for work that counts its own rows and removes the bar at its end.
pub(crate) fn rows_bar(rows: Option<u64>, wanted: bool) -> ProgressBar {
    if !wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    start(rows)
}

/// A bar for work that moves bytes, and removes the bar at its end.
pub(crate) fn bytes_bar(bytes: u64, wanted: bool) -> ProgressBar {
    if !wanted || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    start(Some(bytes))
}

fn message(elapsed: Duration, io: &ScanIo, total: Option<u64>) -> String {
    let mut message = units::duration(elapsed);
    if io.rows_scanned > 0 {
        let moved = units::bytes(io.moved_bytes);
        let read = match total {
            Some(total) => format!("{} of {}", units::count(io.rows_scanned), units::counted(total, "row")),
            None => units::counted(io.rows_scanned, "row"),
        };
        message.push_str(&format!(", {read} read, {moved} moved"));
    }
    message
}

const BAR: &str = "{spinner} [{bar:30}] {percent:>3} %  {msg}  (Ctrl-C cancels)";
const SPINNER: &str = "{spinner} {msg}  (Ctrl-C cancels)";

fn start(rows: Option<u64>) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(rows, ProgressDrawTarget::stderr());
    bar.set_style(style(if rows.is_some() { BAR } else { SPINNER }));
    bar
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("━╸ ").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ")
}

/// Rows of the plan's leaves, if the statistics of every leaf have a number of rows.
fn rows_to_read(plan: &dyn ExecutionPlan) -> Option<u64> {
    let children = plan.children();
    if children.is_empty() {
        let statistics = StatisticsContext::new().compute(plan, &StatisticsArgs::new()).ok()?;
        return statistics.num_rows.get_value().map(|&rows| rows as u64);
    }
    children.into_iter().map(|child| rows_to_read(child.as_ref())).sum()
}
