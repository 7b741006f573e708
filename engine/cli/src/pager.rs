//! [`Pager`]: a program such as `less` for a result that is longer than the screen.
//!
//! 1. Text is collected until it is longer than the screen. A shorter one is printed as it is.
//! 2. A longer one starts the pager, and goes into its standard input.
//! 3. A pager that cannot run is replaced by the screen. No text is lost.
//! 4. A pager that the user leaves early closes the output, which ends the statement but not the session.

use std::io::{self, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::terminal::{self, note};

/// The variables that name the pager, the first one first. An empty value means none.
const VARIABLES: [&str; 2] = ["GRAMPUS_PAGER", "PAGER"];
/// The pager if no variable names one.
const DEFAULT_PAGER: &str = "less";
/// Options of `less` if the user has none: leave if the text fits on the screen, keep colours and the screen, and do
/// not wrap lines.
const LESS_OPTIONS: &str = "FRSX";
/// Text that is kept until the pager has surely read some. A pipe holds less.
const KEPT_BYTES: usize = 2 << 20;
/// The exit statuses of a shell for a program that is not there or cannot be executed.
const NOT_RUN: [i32; 2] = [126, 127];

/// The output of one statement, on the screen or in a pager.
pub(crate) struct Pager<'a> {
    screen: &'a mut dyn Write,
    height_lines: usize,
    width_columns: usize,
    state: State,
}

enum State {
    /// The text may still fit on the screen.
    Collecting(Vec<u8>),
    Running(RunningPager),
    /// There is no pager: text goes to the screen.
    OnScreen,
    /// The user has left the pager.
    Left,
}

struct RunningPager {
    child: Child,
    input: ChildStdin,
    /// The text so far; `None`: the pager has surely read some.
    kept: Option<Vec<u8>>,
}

impl<'a> Pager<'a> {
    /// A pager in front of `screen`, which is a terminal.
    pub(crate) fn new(screen: &'a mut dyn Write) -> Self {
        Self {
            screen,
            height_lines: terminal::height_lines(),
            width_columns: terminal::width_columns(),
            state: State::Collecting(Vec::new()),
        }
    }

    /// Whether the user has left the pager before its end.
    pub(crate) fn is_left(&self) -> bool {
        matches!(self.state, State::Left)
    }

    /// Prints what was collected, or waits until the user leaves the pager.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::OnScreen) {
            State::Collecting(text) => self.screen.write_all(&text)?,
            State::Running(pager) => self.end(pager)?,
            State::OnScreen | State::Left => {}
        }
        self.screen.flush()
    }

    fn start(&mut self, text: Vec<u8>) -> io::Result<()> {
        let Some(command) = command() else {
            self.state = State::OnScreen;
            return self.screen.write_all(&text);
        };
        self.screen.flush()?;
        match spawn(&command) {
            Ok((child, input)) => {
                self.state = State::Running(RunningPager {
                    child,
                    input,
                    kept: Some(Vec::new()),
                });
                self.write_all(&text)
            }
            Err(error) => {
                note(format_args!("cannot start the pager: {error}"));
                self.state = State::OnScreen;
                self.screen.write_all(&text)
            }
        }
    }

    /// Waits for a pager that has all its text, or reads no more. One that could not run has shown nothing, so the
    /// screen gets the text.
    fn end(&mut self, pager: RunningPager) -> io::Result<()> {
        let RunningPager { mut child, input, kept } = pager;
        drop(input);
        let status = child.wait()?;
        let is_missing = status.code().is_some_and(|code| NOT_RUN.contains(&code));
        match kept.filter(|_| is_missing) {
            Some(text) => {
                self.state = State::OnScreen;
                note(r"the pager did not run: set GRAMPUS_PAGER or PAGER, or \pager off");
                self.screen.write_all(&text)
            }
            None => {
                self.state = State::Left;
                Ok(())
            }
        }
    }
}

impl Write for Pager<'_> {
    /// An error of kind `BrokenPipe` if the user has left the pager.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.state {
            State::Collecting(text) => {
                text.extend_from_slice(bytes);
                if lines_of(text, self.width_columns) >= self.height_lines {
                    let text = std::mem::take(text);
                    self.start(text)?;
                }
            }
            State::OnScreen => self.screen.write_all(bytes)?,
            State::Left => return Err(io::ErrorKind::BrokenPipe.into()),
            State::Running(pager) => {
                if let Some(kept) = &mut pager.kept {
                    kept.extend_from_slice(bytes);
                }
                match pager.input.write_all(bytes) {
                    Ok(()) => pager.kept.take_if(|kept| kept.len() > KEPT_BYTES),
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                        if let State::Running(pager) = std::mem::replace(&mut self.state, State::Left) {
                            self.end(pager)?;
                        }
                        match self.state {
                            State::Left => return Err(error),
                            _ => None,
                        }
                    }
                    Err(error) => return Err(error),
                };
            }
        }
        Ok(bytes.len())
    }

    /// Collected text stays: [`finish`](Self::finish) prints it.
    fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            State::Running(pager) => pager.input.flush(),
            State::OnScreen => self.screen.flush(),
            State::Collecting(_) | State::Left => Ok(()),
        }
    }
}

/// Lines that the text fills on a terminal of this width.
fn lines_of(text: &[u8], width_columns: usize) -> usize {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(console::measure_text_width);
    lines.map(|width| width.div_ceil(width_columns.max(1)).max(1)).sum()
}

/// The command that the user wants as pager.
fn command() -> Option<String> {
    let named = VARIABLES.iter().find_map(|name| std::env::var(name).ok());
    let command = named.unwrap_or_else(|| DEFAULT_PAGER.to_owned());
    (!command.trim().is_empty()).then_some(command)
}

/// Starts the command in a shell, as other programs do with `PAGER`.
fn spawn(command: &str) -> io::Result<(Child, ChildStdin)> {
    let (shell, option) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut pager = Command::new(shell);
    pager.arg(option).arg(command).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        pager.env("LESS", LESS_OPTIONS);
    }
    let mut child = pager.spawn()?;
    let input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((child, input))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_the_terminal_breaks_them() {
        assert_eq!(lines_of(b"", 80), 0);
        assert_eq!(lines_of(b"a\n\nb\n", 80), 3);
        assert_eq!(lines_of("é".repeat(80).as_bytes(), 80), 1);
        assert_eq!(lines_of("é".repeat(81).as_bytes(), 80), 2);
        assert_eq!(lines_of(b"\x1b[1mbold\x1b[0m\n", 4), 1);
    }

    #[test]
    fn short_text_is_printed_when_the_statement_ends() {
        let mut screen = Vec::new();
        let mut pager = Pager::new(&mut screen);
        (pager.height_lines, pager.width_columns) = (3, 80);
        pager.write_all(b"one\n").unwrap();
        pager.flush().unwrap();
        assert!(matches!(pager.state, State::Collecting(_)));
        pager.write_all(b"two\n").unwrap();
        pager.finish().unwrap();
        assert_eq!(screen, b"one\ntwo\n");
    }
}
