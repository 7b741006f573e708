//! The terminal: notes and questions on standard error, and the width of tables.

use std::fmt::Display;
use std::io::{self, BufRead, Write};

/// Width that replaces a reported width below [`MIN_WIDTH_COLUMNS`].
const DEFAULT_WIDTH_COLUMNS: usize = 80;
/// Smallest width that is believed.
const MIN_WIDTH_COLUMNS: usize = 20;

/// Prints a line on standard error. A closed standard error is no reason to stop.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Asks a question, and reads a line from standard input. All answers but y and yes are no, and so is the end of input.
pub(crate) fn confirm(question: &str) -> io::Result<bool> {
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Height that replaces a reported height below [`MIN_HEIGHT_LINES`].
const DEFAULT_HEIGHT_LINES: usize = 24;
/// Smallest height that is believed.
const MIN_HEIGHT_LINES: usize = 2;

/// Lines of the terminal.
pub(crate) fn height_lines() -> usize {
    match usize::from(console::Term::stdout().size().0) {
        0..MIN_HEIGHT_LINES => DEFAULT_HEIGHT_LINES,
        height => height,
    }
}

/// Columns of the terminal.
pub(crate) fn width_columns() -> usize {
    match usize::from(console::Term::stdout().size().1) {
        0..MIN_WIDTH_COLUMNS => DEFAULT_WIDTH_COLUMNS,
        width => width,
    }
}
