//! Interactive mode on a terminal: typed text, its output, Ctrl-C and Ctrl-D.
#![cfg(unix)]

use std::process::Command;

use rexpect::session::{PtySession, spawn_command};

const PROMPT: &str = "grampus> ";

struct Terminal {
    session: PtySession,
    state: tempfile::TempDir,
}

impl Terminal {
    fn open(arguments: &[&str]) -> Self {
        Self::with_state(arguments, tempfile::tempdir().unwrap())
    }

    fn with_state(arguments: &[&str], state: tempfile::TempDir) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_grampus"));
        command
            .args(arguments)
            .env("XDG_STATE_HOME", state.path())
            .env("NO_COLOR", "1")
            .env("TERM", "xterm");
        let session = spawn_command(command, Some(60_000)).unwrap();
        let mut terminal = Self { session, state };
        terminal.expect(PROMPT);
        terminal
    }

    fn expect(&mut self, text: &str) {
        self.session.exp_string(text).unwrap();
    }

    fn enter(&mut self, line: &str) {
        self.session.send_line(line).unwrap();
    }

    /// Ctrl-D, and the end of the program.
    fn leave(&mut self) {
        self.session.send_control('d').unwrap();
        self.session.exp_eof().unwrap();
    }
}

#[test]
fn statements_take_several_lines_and_errors_do_not_end_the_session() {
    let mut terminal = Terminal::open(&[]);
    terminal.enter("CREATE TABLE trips AS SELECT 1 AS miles");
    terminal.enter("WHERE true;");
    terminal.expect("done in ");
    terminal.enter("SELECT mils FROM trips;");
    terminal.expect("error: no column named mils");
    terminal.expect("hint: did you mean miles?");
    terminal.expect(PROMPT);
    terminal.enter("SELECT miles FROM trips;");
    terminal.expect("1 row in ");
    terminal.leave();
}

#[test]
fn ctrl_c_cancels_the_query_and_not_the_session() {
    let mut terminal = Terminal::open(&["-p", "1"]);
    terminal.enter("SELECT count(*) FROM generate_series(1, 100000) a CROSS JOIN generate_series(1, 1000000) b;");
    // The progress line appears after a second.
    terminal.expect("(Ctrl-C cancels)");
    terminal.session.send_control('c').unwrap();
    terminal.expect("cancelled");
    terminal.expect(PROMPT);
    terminal.enter("SELECT 40 + 2 AS answer;");
    terminal.expect("42");
    terminal.expect(PROMPT);
    terminal.leave();
}

#[test]
fn ctrl_c_at_the_prompt_drops_the_typed_text() {
    let mut terminal = Terminal::open(&["-q"]);
    terminal.session.send("SELECT nonsense").unwrap();
    terminal.session.flush().unwrap();
    terminal.expect("nonsense");
    terminal.session.send_control('c').unwrap();
    terminal.expect(PROMPT);
    terminal.enter("SELECT 40 + 2 AS answer;");
    terminal.expect("42");
    terminal.leave();
}

#[test]
fn backslash_commands_change_the_session() {
    let mut terminal = Terminal::open(&[]);
    terminal.enter("\\timing off");
    terminal.expect("timing is off");
    terminal.enter("\\format json");
    terminal.expect("format is json");
    terminal.enter("SELECT 1 AS a;");
    terminal.expect("[{\"a\":1}]");
    terminal.enter("\\fromat csv");
    terminal.expect("did you mean \\format?");
    terminal.enter("\\?");
    terminal.expect("list the tables");
    terminal.enter("help");
    terminal.expect("list the tables");
    terminal.enter("\\q");
    terminal.session.exp_eof().unwrap();
}

#[test]
fn history_and_completion_survive_the_session() {
    let mut terminal = Terminal::open(&["-q"]);
    terminal.enter("SELECT 6 * 7 AS answer;");
    terminal.expect("42");
    terminal.expect(PROMPT);
    terminal.leave();
    let Terminal { session, state } = terminal;
    drop(session);
    let history = std::fs::read_to_string(state.path().join("grampus/history")).unwrap();
    assert!(history.contains("SELECT 6 * 7 AS answer;"), "{history}");
    let mut terminal = Terminal::with_state(&["-q"], state);
    // Up, Enter.
    terminal.enter("\u{1b}[A");
    terminal.expect("42");
    terminal.expect(PROMPT);
    terminal.session.send("SELECT approx_medi\t").unwrap();
    terminal.session.flush().unwrap();
    terminal.expect("approx_median(");
    terminal.session.send_control('c').unwrap();
    terminal.expect(PROMPT);
    terminal.leave();
}
