//! Interactive mode: a loop that reads statements with a line editor, keeps their history, and continues after errors.

use std::io::ErrorKind;
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

use crate::exit_error::{ErrorReport, ExitError};
use crate::line_helper::{LineHelper, is_word_command};
use crate::session_tables;
use crate::shell::Shell;
use crate::terminal::note;

const PROMPT: &str = "grampus> ";
const HISTORY_ENTRIES: usize = 10_000;

/// Runs until the user leaves.
pub(crate) fn run(shell: &mut Shell) -> Result<(), ExitError> {
    greet(shell);
    let mut editor = editor(shell).map_err(|error| ErrorReport::new(format!("cannot use the terminal: {error}")))?;
    let history = history_file();
    if let Some(path) = &history {
        // Loading fails if there is no history yet.
        let _ = editor.load_history(path);
    }
    loop {
        match editor.readline(PROMPT) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                let text = text.trim_end();
                let _ = editor.add_history_entry(text);
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
    match shell.run_typed(typed) {
        Ok(go_on) => Ok(go_on),
        Err(ExitError::OutputClosed) => Err(ExitError::OutputClosed),
        Err(error) => {
            if matches!(error, ExitError::Interrupted) {
                shell.threads.recover();
            }
            error.print(shell.settings.verbose);
            Ok(true)
        }
    }
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

fn editor(shell: &Shell) -> rustyline::Result<Editor<LineHelper, DefaultHistory>> {
    let config = Config::builder()
        .max_history_size(HISTORY_ENTRIES)?
        .history_ignore_dups(true)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .auto_add_history(false)
        .build();
    let mut editor = Editor::with_config(config)?;
    editor.set_helper(Some(LineHelper::new(&shell.context)));
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

/// `$XDG_STATE_HOME/grampus/history`, by default `~/.local/state/grampus/history`.
fn history_file() -> Option<PathBuf> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let state = set("XDG_STATE_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| set("LOCALAPPDATA"))
        .or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("grampus").join("history"))
}
