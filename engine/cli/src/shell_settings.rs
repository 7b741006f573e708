//! [`Settings`]: what backslash commands change, from the options of the command line on.

use std::fmt::Display;

use crate::args::{Cli, MaxRows};
use crate::backslash_command::Switch;
use crate::result_format::Format;
use crate::sql_literals::table_name;
use crate::terminal::note;

/// Rows of a table that are printed on a terminal by default.
const DEFAULT_TERMINAL_ROWS: usize = 100;

/// The settings that backslash commands change.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) format: Format,
    /// The table of INSERT statements, as SQL writes it.
    pub(crate) insert_table: String,
    pub(crate) max_rows: Option<usize>,
    pub(crate) expanded: bool,
    /// Whether types stand below the names of columns. `None`: in an interactive session, on the terminal.
    pub(crate) types: Option<bool>,
    pub(crate) timing: bool,
    pub(crate) io: bool,
    /// Whether long results go to a pager, in an interactive session.
    pub(crate) pager: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

impl Settings {
    pub(crate) fn new(cli: &Cli, interactive: bool, on_terminal: bool) -> Self {
        Self {
            format: cli.format,
            insert_table: table_name("table"),
            max_rows: match cli.max_rows {
                Some(MaxRows::All) => None,
                Some(MaxRows::Rows(rows)) => Some(rows),
                None => on_terminal.then_some(DEFAULT_TERMINAL_ROWS),
            },
            expanded: false,
            types: (cli.types || cli.no_types).then_some(cli.types),
            timing: cli.timing || (interactive && !cli.no_timing && !cli.quiet),
            io: cli.io,
            pager: interactive && !cli.safe,
            quiet: cli.quiet,
            verbose: cli.verbose > 0,
        }
    }

    /// Changes the setting that `field` names, and confirms its new state.
    pub(crate) fn set(&mut self, name: &str, switch: Switch, field: impl Fn(&mut Self) -> &mut bool) {
        let setting = field(self);
        *setting = switch.apply(*setting);
        let state = if *setting { "on" } else { "off" };
        self.confirm(format_args!("{name} is {state}"));
    }

    /// Prints the new state of a setting, unless quiet.
    pub(crate) fn confirm(&self, text: impl Display) {
        if !self.quiet {
            note(text);
        }
    }
}
