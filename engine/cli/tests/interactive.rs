//! Interactive mode on a terminal: typed text, its output, Ctrl-C and Ctrl-D.
#![cfg(unix)]

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
        let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
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
fn plans_are_trees_with_times_and_rows() {
    let mut terminal = Terminal::open(&["-q"]);
    let tens = "SELECT v FROM generate_series(1, 1000) AS t(v) WHERE v % 10 = 0";
    terminal.enter(&format!("EXPLAIN ANALYZE {tens};"));
    terminal.expect("time  share          rows  operator");
    terminal.session.exp_regex(r" % +100  FilterExec\r\n {33}\S").unwrap();
    terminal.session.exp_regex(r" % +1,000  LazyMemoryExec\r\n").unwrap();
    terminal
        .session
        .exp_regex(r"total [0-9.]+ m?s, in which operators worked ")
        .unwrap();
    terminal.expect(PROMPT);
    // The session reads bytes as letters, so lines and branches have other names here.
    terminal.enter("\\pager off");
    terminal.expect(PROMPT);
    terminal.enter(&format!("EXPLAIN {tens} UNION ALL {tens};"));
    terminal
        .session
        .exp_regex(r"logical plan\r\nUnion\r\n[^ ]+ SubqueryAlias\r\n")
        .unwrap();
    terminal
        .session
        .exp_regex(r"physical plan\r\nUnionExec\r\n[^ ]+ ")
        .unwrap();
    terminal.expect(PROMPT);
    terminal.enter(&format!("EXPLAIN FORMAT TREE {tens};"));
    terminal
        .session
        .exp_regex(r"physical plan\r\n +[^ A-Za-z]+\r\n")
        .unwrap();
    terminal.leave();
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

/// A terminal with this pager.
fn with_pager(arguments: &[&str], pager: &str) -> Terminal {
    let state = tempfile::tempdir().unwrap();
    Terminal::with_environment(arguments, state, &[("GRAMPUS_PAGER", pager), ("PAGER", "false")])
}

const LONG: &str = "SELECT value AS n FROM generate_series(1, 90);";

#[test]
fn long_results_go_to_the_pager() {
    let mut terminal = with_pager(&["-q"], "sed 's/^/paged /'");
    terminal.enter("SELECT 40 + 2 AS answer;");
    let short = terminal.session.exp_string(PROMPT).unwrap();
    assert!(short.contains("42") && !short.contains("paged"), "{short}");
    for statement in [LONG, "\\format csv", LONG] {
        terminal.enter(statement);
        let text = terminal.session.exp_string(PROMPT).unwrap();
        if statement == LONG {
            // The last line has the editor's control characters.
            let lines = text.lines().filter(|line| line.contains(|c: char| c.is_ascii_digit()));
            let lines: Vec<&str> = lines.filter(|line| !line.contains('\u{1b}')).collect();
            assert_eq!(lines.len(), 90, "{text}");
            assert!(lines.iter().all(|line| line.starts_with("paged ")), "{text}");
        }
    }
    terminal.enter("\\pager off");
    terminal.expect(PROMPT);
    terminal.enter(LONG);
    let text = terminal.session.exp_string(PROMPT).unwrap();
    assert!(text.contains("90") && !text.contains("paged"), "{text}");
    terminal.enter("\\pager on");
    terminal.expect(PROMPT);
    terminal.enter(LONG);
    terminal.expect("paged 90");
    terminal.leave();
}

#[test]
fn missing_pager_loses_no_row() {
    // One line is longer than a pipe holds.
    let wide = "SELECT repeat('x', 3000) || value AS n FROM generate_series(1, 90);";
    for pager in ["/none/such", "none-such -R", "exit 126"] {
        let mut terminal = with_pager(&["-q", "--format", "csv"], pager);
        for statement in [LONG, wide] {
            terminal.enter(statement);
            let text = terminal.session.exp_string(PROMPT).unwrap();
            assert!(text.contains("the pager did not run"), "{pager}: {text}");
            let rows = text.lines().filter(|line| line.ends_with(|c: char| c.is_ascii_digit()));
            assert_eq!(rows.count(), 90, "{pager}: {text}");
        }
        terminal.enter("SELECT 'alive';");
        terminal.expect("alive");
        terminal.leave();
    }
    let mut terminal = with_pager(&["-q"], "");
    terminal.enter(LONG);
    let text = terminal.session.exp_string(PROMPT).unwrap();
    assert!(text.contains("90") && !text.contains("pager"), "{text}");
    terminal.enter("\\q");
    terminal.session.exp_eof().unwrap();
}

#[test]
fn pager_that_is_left_early_ends_the_statement_and_not_the_session() {
    let mut terminal = with_pager(&["--format", "csv"], "head -n 3");
    // The rows of this query would take hours.
    terminal.enter("SELECT a.value, b.value FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b;");
    let text = terminal.session.exp_string(PROMPT).unwrap();
    assert!(!text.contains("error"), "{text}");
    assert!(
        text.lines().filter(|line| !line.trim().is_empty()).count() < 8,
        "{text}"
    );
    terminal.enter("SELECT 40 + 2 AS answer;");
    terminal.expect("42");
    terminal.expect("1 row in ");
    terminal.leave();
}

#[test]
fn scripts_and_first_statements_have_no_pager() {
    let state = Terminal::with_rc(&["-q"], LONG).state;
    let terminal = Terminal::with_environment(&["-q"], state, &[("GRAMPUS_PAGER", "sed 's/^/paged /'")]);
    assert!(
        terminal.started.contains("90") && !terminal.started.contains("paged"),
        "{}",
        terminal.started
    );
}

#[test]
fn results_go_to_a_file_until_the_next_command() {
    let mut terminal = Terminal::open(&[]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    std::fs::write(&path, "older").unwrap();
    let name = path.display().to_string();
    terminal.enter("\\format csv");
    terminal.expect(PROMPT);
    terminal.enter(&format!("\\o {name}"));
    terminal.expect(&format!("results go to {name} until \\o"));
    terminal.expect(PROMPT);
    // No time of a query looks like this number.
    terminal.enter("SELECT 6 * 7000007 AS answer;");
    let text = terminal.session.exp_string(PROMPT).unwrap();
    assert!(!text.contains("42000042") && text.contains("1 row in "), "{text}");
    // A statement without a result, and one that fails before its first row, change nothing.
    terminal.enter("SELECT nonsense;");
    terminal.expect("error: no column named nonsense");
    terminal.expect(PROMPT);
    terminal.enter("SELECT value AS n FROM generate_series(1, 150);");
    terminal.expect(PROMPT);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "older");
    terminal.enter("\\o");
    terminal.expect(&format!("{name} is written"));
    terminal.expect(PROMPT);
    let rows: String = (1..=150).map(|n| format!("{n}\n")).collect();
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        format!("answer\n42000042\nn\n{rows}")
    );
    terminal.enter("SELECT 'printed';");
    terminal.expect("printed");
    terminal.expect(PROMPT);
    let is_folder = format!("error: cannot write {}: it is a folder", folder.path().display());
    for (command, error) in [
        (format!("\\o {}", folder.path().display()), is_folder.as_str()),
        ("\\o |less".to_owned(), "error: \\o takes a file, not a command"),
    ] {
        terminal.enter(&command);
        terminal.expect(error);
        terminal.expect(PROMPT);
        terminal.enter("SELECT 'printed';");
        terminal.expect("printed");
        terminal.expect(PROMPT);
    }
    // The end of the session publishes a file too. Tables have all of their rows there.
    let table = folder.path().join("table.txt");
    terminal.enter("\\format table");
    terminal.expect(PROMPT);
    terminal.enter(&format!("\\o {}", table.display()));
    terminal.expect(PROMPT);
    terminal.enter("SELECT value AS n FROM generate_series(1, 150);");
    terminal.leave();
    assert_eq!(std::fs::read_to_string(&table).unwrap().lines().count(), 150 + 4);
}

#[test]
fn file_of_a_failed_or_cancelled_statement_is_dropped() {
    let mut terminal = Terminal::open(&["--format", "csv", "-p", "1"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    let name = path.display().to_string();
    let drops = format!("{name} is not written: its results would be incomplete");
    terminal.enter(&format!("\\o {name}"));
    terminal.expect(PROMPT);
    terminal.enter("SELECT 10 / (value - 20000) FROM generate_series(1, 30000);");
    terminal.expect(&drops);
    terminal.expect("error: ");
    terminal.expect(PROMPT);
    terminal.enter(&format!("\\o {name}"));
    terminal.expect(PROMPT);
    terminal.enter("SELECT count(*) FROM generate_series(1, 100000) a CROSS JOIN generate_series(1, 1000000) b;");
    terminal.expect("(Ctrl-C cancels)");
    terminal.session.send_control('c').unwrap();
    terminal.expect(&drops);
    terminal.expect("cancelled");
    terminal.expect(PROMPT);
    terminal.enter("SELECT 'printed';");
    terminal.expect("printed");
    terminal.leave();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn history_has_no_passwords_and_no_keys() {
    let mut terminal = Terminal::open(&[]);
    for statement in [
        "SELECT 'http://u:Hidd3n@host/a';",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 's3://b/a.csv' OPTIONS ('aws.secret_access_key' 'Hidd3n' 'oops');",
        "CREATE EXTERNAL TABLE t STORED AS CSV LOCATION 'a.csv' OPTIONS (\"aws.session_token\" 'Hidd3n');",
    ] {
        terminal.enter(statement);
        terminal.expect(PROMPT);
    }
    terminal.session.send_control('d').unwrap();
    terminal.session.exp_eof().unwrap();
    let history = std::fs::read_to_string(terminal.state.path().join("grampus/history")).unwrap();
    assert!(
        history.contains("http://u:***@host/a") && history.contains("'***' 'oops'"),
        "{history}"
    );
    assert!(!history.contains("Hidd3n"), "{history}");
}
