//! Interactive mode on a terminal: typed text, its output, Ctrl-C and Ctrl-D.
#![cfg(unix)]

use std::process::Command;

use rexpect::session::{PtySession, spawn_command};

const PROMPT: &str = "grampus> ";

struct Terminal {
    session: PtySession,
    state: tempfile::TempDir,
    /// Output before the first prompt.
    started: String,
}

impl Terminal {
    fn open(arguments: &[&str]) -> Self {
        Self::with_state(arguments, tempfile::tempdir().unwrap())
    }

    /// A terminal whose file of first statements has this text.
    fn with_rc(arguments: &[&str], rc: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        std::fs::create_dir(state.path().join("grampus")).unwrap();
        std::fs::write(state.path().join("grampus/grampusrc"), rc).unwrap();
        Self::with_state(arguments, state)
    }

    fn with_state(arguments: &[&str], state: tempfile::TempDir) -> Self {
        Self::with_environment(arguments, state, &[])
    }

    fn with_environment(arguments: &[&str], state: tempfile::TempDir, environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_grampus"));
        command
            .args(arguments)
            .env("XDG_STATE_HOME", state.path())
            .env("XDG_CONFIG_HOME", state.path())
            .env_remove("GRAMPUS_RC")
            .env("NO_COLOR", "1")
            .env("TERM", "xterm")
            .envs(environment.iter().copied());
        let session = spawn_command(command, Some(60_000)).unwrap();
        let started = String::new();
        let mut terminal = Self {
            session,
            state,
            started,
        };
        terminal.started = terminal.session.exp_string(PROMPT).unwrap();
        terminal
    }

    fn expect(&mut self, text: &str) {
        self.session.exp_string(text).unwrap();
    }

    /// A line after which the statement goes on.
    fn enter_part(&mut self, line: &str) {
        self.session.send_line(line).unwrap();
    }

    /// The end of a statement. What is expected next is its output, not the echo of what was typed:
    /// the line editor has turned bracketed paste off.
    fn enter(&mut self, line: &str) {
        self.session.send_line(line).unwrap();
        self.expect("\u{1b}[?2004l");
    }

    /// Ctrl-D at the next prompt, and the end of the program. Typed before the prompt, the terminal would take
    /// Ctrl-D for the end of a line.
    fn leave(&mut self) {
        self.expect(PROMPT);
        self.session.send_control('d').unwrap();
        self.session.exp_eof().unwrap();
    }
}

#[test]
fn statements_take_several_lines_and_errors_do_not_end_the_session() {
    let mut terminal = Terminal::open(&[]);
    terminal.enter_part("CREATE TABLE trips AS SELECT 1 AS miles");
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
    terminal.leave();
    let Terminal { session, state, .. } = terminal;
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
    terminal.leave();
}

#[test]
fn first_statements_run_before_the_first_prompt() {
    let rc =
        "SET datafusion.execution.batch_size = 77;\n-- a view\nCREATE VIEW\n  v AS SELECT 6 AS x;\n\\format json\n";
    let mut terminal = Terminal::with_rc(&["--timing"], rc);
    assert!(!terminal.started.contains("done in") && !terminal.started.contains("format is"));
    terminal.enter("SELECT x * 7 AS y FROM v;");
    terminal.expect("[{\"y\":42}]");
    terminal.expect("1 row in ");
    terminal.enter("SHOW datafusion.execution.batch_size;");
    terminal.expect("\"77\"");
    terminal.leave();
}

#[test]
fn errors_in_first_statements_name_file_and_line_and_do_not_end_the_shell() {
    let rc = "SELECT 1 AS shown;\n\nSELECT mils\n  FROM trips;\n\\fromat csv\nSELECT 6 * 7 AS later;\n\
              \\q\nSELECT 'unseen';\n";
    let mut terminal = Terminal::with_rc(&["-q"], rc);
    let started = terminal.started.clone();
    for expected in [
        "shown",
        "grampus/grampusrc, line 3: no table named trips",
        "grampus/grampusrc, line 5: no command named \\fromat",
        "42",
    ] {
        assert!(started.contains(expected), "{expected}: {started}");
    }
    assert!(!started.contains("unseen"), "{started}");
    terminal.enter("SELECT 'alive';");
    terminal.expect("alive");
    terminal.leave();
}

#[test]
fn first_statements_can_be_elsewhere_or_left_out() {
    let rc = "SELECT 'from the file' AS x;";
    let terminal = Terminal::with_rc(&["-q", "--no-rc"], rc);
    assert!(!terminal.started.contains("from the file"), "{}", terminal.started);
    let named = tempfile::tempdir().unwrap();
    let path = named.path().join("mine.sql");
    std::fs::write(&path, "SELECT 'from mine' AS x").unwrap();
    for (value, expected) in [
        ("", ""),
        (path.to_str().unwrap(), "from mine"),
        ("/none/such", "error: cannot read /none/such: no such file"),
    ] {
        let state = Terminal::with_rc(&["-q"], rc).state;
        let terminal = Terminal::with_environment(&["-q"], state, &[("GRAMPUS_RC", value)]);
        assert!(!terminal.started.contains("from the file"), "{}", terminal.started);
        assert!(terminal.started.contains(expected), "{}", terminal.started);
    }
}
