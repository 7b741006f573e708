//! [`Shell`]: one session with its settings, in which statements and backslash commands run.
//!
//! 1. Input is split into statements and commands ([`StatementSplitter`]).
//! 2. A statement runs on the worker threads, and its rows go to a [`ResultWriter`].
//! 3. A command is parsed ([`BackslashCommand`]) and executed here.
//! 4. Timing and I/O figures of a statement go to standard error.

use std::any::Any;
use std::io::{self, BufRead, Write};

use datafusion::catalog::TableProvider;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use grampus::caught_panic::caught;
use grampus::{OrcTable, ScanIo, sql_type_name};
use grampus_tools::atomic_output::TemporaryFolder;

use crate::args::{Cli, Job, MaxRows};
use crate::backslash_command::BackslashCommand;
use crate::dot_command::DotCommand;
use crate::error_messages::{ErrorContext, explain};
use crate::exit_error::{ErrorReport, ExitError};
use crate::interrupts::{InterruptWatch, Interrupts, SignalMode};
use crate::io_wording::{disk_line, io_line};
use crate::progress::Progress;
use crate::result_format::Format;
use crate::result_output::ResultOutput;
use crate::result_writer::{ResultStyle, ResultWriter};
use crate::shell_settings::Settings;
use crate::sql_literals::table_name;
use crate::statement_runner::{self, StatementError, StatementOutcome};
use crate::statement_splitter::{Input, InputText, StatementSplitter};
use crate::terminal::{self, note};
use crate::text_table::{TableForm, TableStyle, TextTable, words_in_columns};
use crate::threads::Threads;
use crate::{agent_mode, disk_reads, scratch_folder, session, session_tables, units};

/// Depth to which scripts may include each other.
const MAX_INCLUDE_DEPTH: usize = 16;

/// Width of lists if the output is no terminal.
const LIST_WIDTH_COLUMNS: usize = 100;

/// A session with its settings, its threads and its output.
pub(crate) struct Shell {
    pub(crate) context: SessionContext,
    pub(crate) settings: Settings,
    pub(crate) threads: Threads,
    interrupts: Interrupts,
    results: ResultOutput,
    is_interactive: bool,
    /// Whether commands open and write no files, and start no programs.
    is_safe: bool,
    /// Whether neither timing nor I/O figures are printed, whatever the settings.
    is_silent: bool,
    /// Number of running `\i` commands, one inside of the other.
    include_depth: usize,
    /// Folders that SQL named for temporary files.
    spill_folders: Vec<TemporaryFolder>,
    /// The folder of temporary files. Fields are dropped in order: the last one goes when the queries have ended.
    _scratch: Option<TemporaryFolder>,
}

impl Shell {
    /// Opens the session and the tables of the command line.
    pub(crate) fn open(cli: &Cli, interactive: bool) -> Result<Self, ExitError> {
        let interrupts = Interrupts::listen(match interactive {
            true => SignalMode::Interactive,
            false => SignalMode::Command,
        })?;
        let scratch = scratch_folder::create_if_possible(cli.resources.temp_folder.as_deref())?;
        let results = ResultOutput::open(cli.output.as_deref())?;
        let mut shell = Self {
            context: session::open(&cli.resources, cli.safe)?,
            settings: Settings::new(cli, interactive, results.is_terminal()),
            threads: Threads::start(cli.resources.partitions)?,
            interrupts,
            results,
            is_interactive: interactive,
            is_safe: cli.safe,
            is_silent: false,
            include_depth: 0,
            spill_folders: Vec::new(),
            _scratch: scratch,
        };
        shell.open_tables(cli)?;
        Ok(shell)
    }

    fn open_tables(&mut self, cli: &Cli) -> Result<(), ExitError> {
        for spec in session_tables::specs(&cli.paths, &cli.tables)? {
            let watch = self.interrupts.watch();
            let context = self.context.clone();
            let opened = async move { grampus::session::register_files(&context, &spec.name, &spec.location).await };
            let opened = self.threads.race(&watch, opened)?;
            opened.map_err(|error| self.explain(&error, None))?;
        }
        Ok(())
    }

    /// Runs `work` on the worker threads until it is done or Ctrl-C ends it.
    fn wait_for<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, ExitError> {
        self.threads.race(&self.interrupts.watch(), work)
    }

    /// Ends the session: publishes the output files.
    pub(crate) fn finish(self) -> Result<(), ExitError> {
        self.results.finish()
    }

    /// Runs `-c` and `-f` in order, up to the first failure.
    pub(crate) fn run_jobs(&mut self, jobs: &[Job]) -> Result<(), ExitError> {
        let watch = self.interrupts.watch();
        for job in jobs {
            match job {
                Job::Sql(sql) => self.run_inputs(StatementSplitter::split(sql), &watch)?,
                Job::File(path) => self.run_file(path, &watch)?,
            };
        }
        Ok(())
    }

    /// Runs typed text, up to the first failure. False after `\q`.
    pub(crate) fn run_typed(&mut self, text: &str) -> Result<bool, ExitError> {
        let watch = self.interrupts.watch();
        self.run_inputs(StatementSplitter::split(text), &watch)
    }

    /// Runs one statement or command without timing, figures and confirmations. False after `\q`.
    pub(crate) fn run_silently(&mut self, input: Input) -> Result<bool, ExitError> {
        let watch = self.interrupts.watch();
        let quiet = std::mem::replace(&mut self.settings.quiet, true);
        self.is_silent = true;
        let ran = self.run_inputs([input], &watch);
        self.is_silent = false;
        self.settings.quiet = quiet;
        ran
    }

    /// Runs a script; `-` is standard input. False after `\q`.
    fn run_file(&mut self, path: &str, watch: &InterruptWatch) -> Result<bool, ExitError> {
        if path == "-" {
            return self.run_lines(io::stdin().lock(), "standard input", watch);
        }
        let file = std::fs::File::open(path).map_err(|error| ErrorReport::file("open", path, &error))?;
        self.run_lines(io::BufReader::new(file), path, watch)
    }

    /// Runs lines as they are read: each statement starts when its semicolon arrives.
    fn run_lines(&mut self, mut lines: impl BufRead, name: &str, watch: &InterruptWatch) -> Result<bool, ExitError> {
        let mut splitter = StatementSplitter::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = lines
                .read_until(b'\n', &mut line)
                .map_err(|error| ErrorReport::file("read", name, &error))?;
            if length == 0 {
                break;
            }
            let text = std::str::from_utf8(&line)
                .map_err(|_| ErrorReport::new(format!("{name} is not text")).hint("SQL scripts are UTF-8"))?;
            if !self.run_inputs(splitter.push_line(text), watch)? {
                return Ok(false);
            }
        }
        self.run_inputs(splitter.finish(), watch)
    }

    fn run_inputs(
        &mut self,
        inputs: impl IntoIterator<Item = Input>,
        watch: &InterruptWatch,
    ) -> Result<bool, ExitError> {
        for input in inputs {
            if watch.fired() {
                return Err(ExitError::Interrupted);
            }
            match input {
                Input::Statement(input) => self.run_statement(&input, watch)?,
                Input::Command(input) if input.text.starts_with('.') => {
                    if !self.run_dot_command(&input, watch)? {
                        return Ok(false);
                    }
                }
                Input::Command(input) => {
                    if !self.run_command(BackslashCommand::parse(&input.text)?)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Runs a script for `\i`. False after `\q`.
    fn include(&mut self, path: &str) -> Result<bool, ExitError> {
        if self.include_depth == MAX_INCLUDE_DEPTH {
            let report = ErrorReport::new(format!("{path} is included too deeply"));
            return Err(report.hint("does it include itself?").into());
        }
        self.include_depth += 1;
        let watch = self.interrupts.watch();
        let ran = self.run_file(path, &watch);
        self.include_depth -= 1;
        ran
    }

    /// Executes a command of another shell. False after `.quit`.
    fn run_dot_command(&mut self, input: &InputText, watch: &InterruptWatch) -> Result<bool, ExitError> {
        match DotCommand::parse(&input.text)? {
            DotCommand::Backslash(line) => return self.run_command(BackslashCommand::parse(&line)?),
            DotCommand::Sql(text) => self.run_statement(&InputText { text, ..input.clone() }, watch)?,
            DotCommand::Schema(table) => {
                let text = session_tables::definitions(&self.context, table.as_deref());
                self.print(&text.map_err(|error| self.explain(&error, None))?)?;
            }
            DotCommand::Nothing => {}
        }
        Ok(true)
    }

    /// Executes a command. False after `\q`.
    fn run_command(&mut self, command: BackslashCommand) -> Result<bool, ExitError> {
        let shows_types = self.shows_types();
        if self.is_safe
            && let Some(refused) = command.of_files()
        {
            let report = ErrorReport::new(format!("{refused}: --safe is on, and refuses it"));
            return Err(report
                .hint("no command opens or writes a file, or starts a program")
                .into());
        }
        let settings = &mut self.settings;
        match command {
            BackslashCommand::Quit => return Ok(false),
            BackslashCommand::Help => self.print(&BackslashCommand::help())?,
            BackslashCommand::ListTables => self.list_tables()?,
            BackslashCommand::DescribeTable(name) => self.describe_table(name)?,
            BackslashCommand::Timing(switch) => settings.set("timing", switch, |settings| &mut settings.timing),
            BackslashCommand::Io(switch) => settings.set("io", switch, |settings| &mut settings.io),
            BackslashCommand::Types(switch) => {
                let now = *settings.types.get_or_insert(shows_types);
                settings.set("types", switch, |settings| settings.types.get_or_insert(now));
            }
            BackslashCommand::Pager(switch) => settings.set("pager", switch, |settings| &mut settings.pager),
            BackslashCommand::Output(path) => self.redirect(path.as_deref())?,
            BackslashCommand::Expanded(switch) => {
                settings.set("one value a line", switch, |settings| &mut settings.expanded);
            }
            BackslashCommand::Format { format, table } => {
                settings.format = format.unwrap_or(settings.format);
                if settings.format == Format::Insert {
                    settings.insert_table = table_name(table.as_deref().unwrap_or("table"));
                }
                settings.confirm(format_args!("format is {}", settings.format.name()));
            }
            BackslashCommand::MaxRows(max_rows) => {
                match max_rows {
                    None => {}
                    Some(MaxRows::All) => settings.max_rows = None,
                    Some(MaxRows::Rows(rows)) => settings.max_rows = Some(rows),
                }
                let rows = settings.max_rows.map_or_else(
                    || "all rows".to_owned(),
                    |rows| format!("at most {}", units::counted(rows as u64, "row")),
                );
                settings.confirm(format_args!("tables print {rows}"));
            }
            BackslashCommand::Include(path) => return self.include(&path),
            BackslashCommand::ListFunctions(part) => {
                let names = session::function_names(&self.context).into_iter();
                let names: Vec<String> = names.filter(|name| name.contains(&part)).collect();
                let width = self.table_style().width.unwrap_or(LIST_WIDTH_COLUMNS);
                self.print(&words_in_columns(&names, width))?;
            }
        }
        Ok(true)
    }

    /// Lets results go to a file, or to the command line's output again.
    fn redirect(&mut self, path: Option<&str>) -> Result<(), ExitError> {
        if let Some(published) = self.results.redirect(path)? {
            self.settings.confirm(format_args!("{published} is written"));
        }
        match path {
            Some(path) => self.settings.confirm(format_args!("results go to {path} until \\o")),
            None => self.settings.confirm("results are printed"),
        }
        Ok(())
    }

    fn list_tables(&mut self) -> Result<(), ExitError> {
        let names = session_tables::names(&self.context);
        if names.is_empty() {
            note("no tables; CREATE EXTERNAL TABLE name STORED AS ORC LOCATION 'PATH'; opens one");
            return Ok(());
        }
        let mut rows = Vec::with_capacity(names.len());
        for name in names {
            let provider = session_tables::provider(&self.context, &name);
            let columns = provider.as_ref().map_or(0, |provider| provider.schema().fields().len());
            let state = self.context.state();
            let files = self.wait_for(async move {
                let provider: Option<&(dyn TableProvider + 'static)> = provider.as_deref();
                let table = provider.and_then(|provider| (provider as &dyn Any).downcast_ref::<OrcTable>())?;
                table.files(&state).await.ok()
            })?;
            let (count, total) = files.map_or_else(Default::default, |files| {
                let rows = files.iter().map(|file| file.file.tail.rows).sum();
                (units::count(files.len() as u64), units::count(rows))
            });
            rows.push(vec![name, columns.to_string(), count, total]);
        }
        let numeric = [false, true, true, true];
        self.print_list(&TextTable::of_text(
            &["table", "columns", "files", "rows"],
            &numeric,
            rows,
        ))
    }

    fn describe_table(&mut self, name: String) -> Result<(), ExitError> {
        let context = self.context.clone();
        let found = self.wait_for(async move { context.table_provider(name.as_str()).await })?;
        let provider = found.map_err(|error| self.explain(&error, None))?;
        let schema = provider.schema();
        let rows = schema.fields().iter().map(|field| {
            let null = if field.is_nullable() { "yes" } else { "no" };
            vec![field.name().clone(), sql_type_name(field.data_type()), null.to_owned()]
        });
        let names = ["column", "type", "null"];
        self.print_list(&TextTable::of_text(&names, &[false; 3], rows.collect()))
    }

    /// Prints a table that is never expanded.
    fn print_list(&mut self, table: &TextTable) -> Result<(), ExitError> {
        let style = TableStyle {
            form: TableForm::Grid,
            ..self.table_style()
        };
        self.print(&table.render(style))
    }

    fn run_statement(&mut self, input: &InputText, watch: &InterruptWatch) -> Result<(), ExitError> {
        let mut progress = Progress::new(!self.settings.quiet);
        let style = self.result_style();
        let is_paged = self.settings.pager && self.is_interactive && !self.is_silent;
        let mut output = self.results.begin(is_paged);
        let writer: &mut dyn Write = &mut output;
        let mut has_begun = false;
        let disk_before = disk_reads::bytes().filter(|_| self.settings.io);
        let query = statement_runner::run(
            &self.context,
            &self.threads,
            input,
            watch,
            &mut progress,
            |schema, plan| {
                has_begun = true;
                ResultWriter::new(writer, schema, plan, style)
            },
        );
        // A panic on this thread, too, ends the statement and not the session.
        let ran = caught(&input.text, || Ok(self.threads.block_on(query)));
        let ran = ran.unwrap_or_else(|error| Err(StatementError::Query(Box::new(error))));
        progress.clear();
        // Rows that were printed before an error stay visible.
        let finished = output.finish();
        self.adopt_spill_folders();
        let error = match (ran, finished) {
            (Ok(outcome), Ok(_)) => {
                self.print_figures(&outcome, disk_reads::bytes_since(disk_before));
                return Ok(());
            }
            // The user has left the pager.
            (Err(StatementError::Exit(ExitError::OutputClosed)), Ok(false)) => return Ok(()),
            (Ok(_), Err(error)) | (Err(StatementError::Exit(error)), _) => error,
            (Err(StatementError::Query(error)), _) => self.explain(&error, Some(input)).into(),
        };
        if has_begun && let Some(name) = self.results.drop_file() {
            note(format_args!(
                "{name} is not written: its results would be incomplete. Results are printed"
            ));
        }
        Err(error)
    }

    /// Takes over the folders that `SET datafusion.runtime.temp_directory` made: they vanish at the end too.
    fn adopt_spill_folders(&mut self) {
        for folder in self.context.runtime_env().disk_manager.temp_dir_paths() {
            let is_known = |known: &TemporaryFolder| folder.starts_with(known.path());
            if !self._scratch.iter().chain(&self.spill_folders).any(is_known) {
                self.spill_folders.push(TemporaryFolder::adopt(folder));
            }
        }
    }

    /// Prints text to the output of results.
    fn print(&mut self, text: &str) -> Result<(), ExitError> {
        self.results.print(text)
    }

    /// The style of tables under the current settings.
    fn table_style(&self) -> TableStyle {
        TableStyle {
            max_rows: self.settings.max_rows.filter(|_| !self.results.is_file()),
            width: self.results.is_terminal().then(terminal::width_columns),
            form: match self.settings.expanded {
                true => TableForm::Records,
                false => TableForm::Grid,
            },
            types: self.shows_types(),
            is_compact: agent_mode::is_on(),
        }
    }

    /// Whether types stand below the names of columns. They are for people: what a script prints on a terminal, and
    /// what goes to a file, may be read by a program.
    fn shows_types(&self) -> bool {
        let is_for_people = self.is_interactive && self.results.is_terminal();
        self.settings.types.unwrap_or(is_for_people)
    }

    /// The style of results under the current settings.
    fn result_style(&self) -> ResultStyle {
        ResultStyle {
            format: self.settings.format,
            table: self.table_style(),
            insert_table: self.settings.insert_table.clone(),
            follows: self.results.has_text(),
        }
    }

    /// The error in words, with this session's tables in mind.
    fn explain(&self, error: &DataFusionError, statement: Option<&InputText>) -> ErrorReport {
        let context = ErrorContext {
            statement,
            tables: session_tables::names(&self.context),
            settings: session::setting_names(&self.context),
        };
        explain(error, &context)
    }

    /// Prints timing and I/O figures, if the settings ask for them.
    fn print_figures(&self, outcome: &StatementOutcome, disk_bytes: Option<u64>) {
        if self.is_silent {
            return;
        }
        if self.settings.timing {
            let rows = outcome
                .rows
                .map_or_else(|| "done".to_owned(), |rows| units::counted(rows, "row"));
            note(format_args!("{rows} in {}", units::duration(outcome.time)));
        }
        if self.settings.io && (outcome.rows.is_some() || outcome.io != ScanIo::default()) {
            note(io_line(&outcome.io, outcome.stopped));
            if let Some(line) = disk_bytes.and_then(|bytes| disk_line(&outcome.io, bytes)) {
                note(line);
            }
        }
    }
}
