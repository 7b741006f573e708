//! The terminal: notes on standard error, and the width of tables.

use std::fmt::Display;
use std::io::{self, Write};

/// Width that replaces a reported width below [`MIN_WIDTH_COLUMNS`].
const DEFAULT_WIDTH_COLUMNS: usize = 80;
/// Smallest width that is believed.
const MIN_WIDTH_COLUMNS: usize = 20;

/// Prints a line on standard error. A closed standard error is no reason to stop.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Columns of the terminal.
pub(crate) fn width_columns() -> usize {
    match usize::from(console::Term::stdout().size().1) {
        0..MIN_WIDTH_COLUMNS => DEFAULT_WIDTH_COLUMNS,
        width => width,
    }
}
