//! Interactive mode: a loop that reads statements with a line editor, keeps their history, and continues after errors.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use grampus::error::without_secrets;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::args::Cli;
use crate::exit_error::{ErrorReport, ExitError};
use crate::line_helper::{LineHelper, is_word_command};
use crate::session_tables;
use crate::shell::Shell;
use crate::statement_splitter::StatementSplitter;
use crate::terminal::note;
use crate::user_files::{self, RcFile};

const PROMPT: &str = "grampus> ";
const HISTORY_ENTRIES: usize = 10_000;

/// Runs until the user leaves. First comes the file of the user's own statements, if there is one and the options allow
/// it. A safe session has neither this file nor a history.
pub(crate) fn run(shell: &mut Shell, cli: &Cli) -> Result<(), ExitError> {
    greet(shell);
    if let Some(rc) = RcFile::find().filter(|_| !cli.no_rc && !cli.safe) {
        run_rc(shell, &rc)?;
    }
    let mut editor =
        editor(shell, !cli.safe).map_err(|error| ErrorReport::new(format!("cannot use the terminal: {error}")))?;
    let history = user_files::history().filter(|_| !cli.safe);
    if let Some(path) = &history {
        // Loading fails if there is no history yet.
        let _ = editor.load_history(path);
    }
    loop {
        // A panic of the line editor ends the line, and not the session.
        let read = catch_unwind(AssertUnwindSafe(|| editor.readline(PROMPT)));
        match read.unwrap_or(Err(ReadlineError::Interrupted)) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                let text = text.trim_end();
                let _ = editor.add_history_entry(without_secrets(text));
                if let Some(path) = &history {
                    save(&mut editor, path);
                }
                if !answer(shell, text)? {
                    return Ok(());
                }
                if let Some(helper) = editor.helper_mut() {
                    helper.refresh(&shell.context);
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(ReadlineError::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(ErrorReport::new(format!("cannot read the terminal: {error}")).into()),
        }
    }
}

/// Runs typed text and prints its errors. False after `\q`, `quit` or `exit`.
fn answer(shell: &mut Shell, text: &str) -> Result<bool, ExitError> {
    let typed = match text.to_ascii_lowercase().as_str() {
        "quit" | "exit" => "\\q",
        _ if is_word_command(text) => "\\?",
        _ => text,
    };
    let ran = shell.run_typed(typed);
    Ok(survive(shell, ran)?.unwrap_or(true))
}

/// Prints an error that does not end the shell; a closed output does. `None` after an error.
fn survive<T>(shell: &mut Shell, ran: Result<T, ExitError>) -> Result<Option<T>, ExitError> {
    match ran {
        Ok(outcome) => Ok(Some(outcome)),
        Err(ExitError::OutputClosed) => Err(ExitError::OutputClosed),
        Err(error) => {
            if matches!(error, ExitError::Interrupted) {
                shell.threads.recover();
            }
            error.print(shell.settings.verbose);
            Ok(None)
        }
    }
}

/// Runs the statements and commands of a file. An error names the file and the line, and the next statement runs.
/// `\q` and Ctrl-C end the file, not the shell.
fn run_rc(shell: &mut Shell, rc: &RcFile) -> Result<(), ExitError> {
    let name = rc.path.display().to_string();
    let text = match std::fs::read_to_string(&rc.path) {
        Err(error) if error.kind() == ErrorKind::NotFound && !rc.is_named => return Ok(()),
        read => read.map_err(|error| ErrorReport::file("read", &name, &error).into()),
    };
    let Some(text) = survive(shell, text)? else {
        return Ok(());
    };
    for input in StatementSplitter::split(&text) {
        let line = input.text().line;
        let ran = shell.run_silently(input);
        let is_interrupted = matches!(ran, Err(ExitError::Interrupted));
        let ran = ran.map_err(|error| error.at(format_args!("{name}, line {line}")));
        if survive(shell, ran)? == Some(false) || is_interrupted {
            break;
        }
    }
    Ok(())
}

fn greet(shell: &Shell) {
    if shell.settings.quiet {
        return;
    }
    let version = env!("CARGO_PKG_VERSION");
    note(format_args!(
        "Grampus {version}: SQL over ORC files. Statements end with ';'. \\? for help, \\q to leave."
    ));
    let tables = session_tables::names(&shell.context);
    if tables.is_empty() {
        note("No tables yet: CREATE EXTERNAL TABLE trips STORED AS ORC LOCATION 'PATH';");
    } else {
        note(format_args!("Tables: {}", tables.join(", ")));
    }
}

fn editor(shell: &Shell, completes_paths: bool) -> rustyline::Result<Editor<LineHelper, DefaultHistory>> {
    let config = Config::builder()
        .max_history_size(HISTORY_ENTRIES)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(LineHelper::new(&shell.context, completes_paths)));
    Ok(editor)
}

fn save(editor: &mut Editor<LineHelper, DefaultHistory>, path: &PathBuf) {
    if let Some(folder) = path.parent() {
        // The shell works without a history.
        let _ = std::fs::create_dir_all(folder);
    }
    if let Err(error) = editor.append_history(path) {
        log::info!("cannot keep the history in {}: {error}", path.display());
    }
}
