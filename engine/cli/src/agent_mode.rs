//! Agent mode: output for a program that reads it as a person would, such as a language model.
//!
//! - Results are Markdown without padding, unless `--format` says otherwise.
//! - An error is one JSON object.
//! - Neither progress nor colours are printed.
//!
//! The mode holds for the whole process, as colours do.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering};

/// Variables that agents set for the programs that they run.
const VARIABLES: [&str; 2] = ["AI_AGENT", "CLAUDECODE"];

static IS_ON: AtomicBool = AtomicBool::new(false);

/// Whether the environment asks for the mode: one of its variables is set, and no terminal shows the output.
pub(crate) fn is_in_environment() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    !io::stdout().is_terminal() && VARIABLES.iter().any(|name| is_set(name))
}

pub(crate) fn turn_on() {
    IS_ON.store(true, Ordering::Relaxed);
    console::set_colors_enabled(false);
    console::set_colors_enabled_stderr(false);
}

pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}
