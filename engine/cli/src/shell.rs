//! One person's session: the tables and settings that statements and backslash commands work on, and what is
//! said after each of them.

use std::io::{self, BufRead, IsTerminal, Write};

use datafusion::prelude::SessionContext;
use grampus::{GrampusConfig, ScanIo};

use crate::args::{Cli, Format, Job, MaxRows, Resources};
use crate::error_messages::{Known, explain};
use crate::exit_error::{self, Failure, Report};
use crate::interrupts::{Catch, Interrupts, Watch};
use crate::result_writer::{Sink, writer};
use crate::progress::Progress;
use crate::statement_runner::{self, Outcome, Stop};
use crate::threads::Threads;
use crate::statement_splitter::{Input, Piece, Splitter};
use crate::text_table::Look;
use crate::{backslash_command, note, session_tables, units};

/// Rows of a table that are printed on a terminal unless more are asked for.
const ROWS_ON_A_TERMINAL: usize = 100;

/// What backslash commands change.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) format: Format,
    pub(crate) max_rows: Option<usize>,
    pub(crate) expanded: bool,
    pub(crate) timing: bool,
    pub(crate) io: bool,
    pub(crate) quiet: bool,
    pub(crate) verbose: bool,
}

impl Settings {
    fn new(cli: &Cli, interactive: bool) -> Self {
        let on_terminal = cli.output.is_none() && io::stdout().is_terminal();
        Self {
            format: cli.format,
            max_rows: match cli.max_rows {
                Some(MaxRows::All) => None,
                Some(MaxRows::Rows(rows)) => Some(rows),
                None => on_terminal.then_some(ROWS_ON_A_TERMINAL),
            },
            expanded: false,
            timing: cli.timing || (interactive && !cli.no_timing && !cli.quiet),
            io: cli.io,
            quiet: cli.quiet,
            verbose: cli.verbose > 0,
        }
    }
}

/// See the module.
pub(crate) struct Shell {
    pub(crate) context: SessionContext,
    pub(crate) settings: Settings,
    pub(crate) threads: Threads,
    interrupts: Interrupts,
    writer: Box<dyn Write + Send>,
    on_terminal: bool,
    /// Files that `\i` is inside of.
    pub(crate) depth: usize,
}

impl Shell {
    /// Opens the session and the tables of the command line.
    pub(crate) fn open(cli: &Cli, interactive: bool) -> Result<Self, Failure> {
        let interrupts = Interrupts::listen(Catch::Interrupt);
        let interrupts = interrupts.map_err(|error| exit_error::file("listen for", "Ctrl-C", &error))?;
        let mut shell = Self {
            context: session(&cli.resources)?,
            settings: Settings::new(cli, interactive),
            threads: Threads::start(cli.resources.partitions)?,
            interrupts,
            writer: writer(cli.output.as_deref())?,
            on_terminal: cli.output.is_none() && io::stdout().is_terminal(),
            depth: 0,
        };
        shell.open_tables(cli)?;
        Ok(shell)
    }

    fn open_tables(&mut self, cli: &Cli) -> Result<(), Failure> {
        for spec in tables::specs(&cli.paths, &cli.tables)? {
            let watch = self.interrupts.watch();
            let context = self.context.clone();
            let opened = async move { grampus::session::register_orc(&context, &spec.name, &spec.location).await };
            let opened = self.threads.race(&watch, opened)?;
            opened.map_err(|error| self.explain(&error, None))?;
        }
        Ok(())
    }

    /// Has the workers do something that Ctrl-C ends.
    pub(crate) fn wait_for<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        self.threads.race(&self.interrupts.watch(), work)
    }

    /// Runs `-c` and `-f` in order, up to the first failure.
    pub(crate) fn run_jobs(&mut self, jobs: &[Job]) -> Result<(), Failure> {
        let watch = self.interrupts.watch();
        for job in jobs {
            match job {
                Job::Sql(sql) => self.run_inputs(Splitter::split(sql), &watch)?,
                Job::File(path) => self.run_file(path, &watch)?,
            };
        }
        Ok(())
    }

    /// Runs what a person typed, up to the first failure. False: they want to leave.
    pub(crate) fn run_typed(&mut self, text: &str) -> Result<bool, Failure> {
        let watch = self.interrupts.watch();
        self.run_inputs(Splitter::split(text), &watch)
    }

    /// Runs a script; `-` is standard input. False: it asked to leave.
    pub(crate) fn run_file(&mut self, path: &str, watch: &Watch) -> Result<bool, Failure> {
        if path == "-" {
            return self.run_lines(io::stdin().lock(), "standard input", watch);
        }
        let file = std::fs::File::open(path).map_err(|error| exit_error::file("open", path, &error))?;
        self.run_lines(io::BufReader::new(file), path, watch)
    }

    /// A script named by `\i`.
    pub(crate) fn include(&mut self, path: &str) -> Result<bool, Failure> {
        let watch = self.interrupts.watch();
        self.run_file(path, &watch)
    }

    /// Each statement runs as soon as its semicolon is read.
    fn run_lines(&mut self, mut lines: impl BufRead, name: &str, watch: &Watch) -> Result<bool, Failure> {
        let mut splitter = Splitter::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = lines
                .read_until(b'\n', &mut line)
                .map_err(|error| exit_error::file("read", name, &error))?;
            if length == 0 {
                break;
            }
            let text = std::str::from_utf8(&line)
                .map_err(|_| Report::new(format!("{name} is not text")).hint("SQL scripts are UTF-8"))?;
            if !self.run_inputs(splitter.push_line(text), watch)? {
                return Ok(false);
            }
        }
        self.run_inputs(splitter.finish(), watch)
    }

    fn run_inputs(&mut self, inputs: impl IntoIterator<Item = Input>, watch: &Watch) -> Result<bool, Failure> {
        for input in inputs {
            if watch.fired() {
                return Err(Failure::Interrupted);
            }
            match input {
                Input::Statement(piece) => self.run_statement(&piece, watch)?,
                Input::Command(piece) => {
                    if !commands::run(self, &piece.text)? {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    fn run_statement(&mut self, piece: &Piece, watch: &Watch) -> Result<(), Failure> {
        let mut progress = Progress::new(!self.settings.quiet);
        let (format, look) = (self.settings.format, self.look());
        let writer: &mut dyn Write = &mut self.writer;
        let query = query::run(&self.context, &self.threads, piece, watch, &mut progress, |schema| {
            Sink::new(writer, format, schema, look)
        });
        let ran = self.threads.block_on(query);
        progress.clear();
        match ran {
            Ok(outcome) => {
                self.tell(&outcome);
                Ok(())
            }
            Err(stop) => {
                // What was printed before the error is worth having; a closed pipe is noticed at the next write.
                let _ = self.writer.flush();
                Err(match stop {
                    Stop::Failure(failure) => failure,
                    Stop::Query(error) => self.explain(&error, Some(piece)).into(),
                })
            }
        }
    }

    /// Prints text where results go.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Failure> {
        let written = self
            .writer
            .write_all(text.as_bytes())
            .and_then(|()| self.writer.flush());
        written.map_err(|error| exit_error::output(&error))
    }

    /// How tables are drawn now.
    pub(crate) fn look(&self) -> Look {
        Look {
            max_rows: self.settings.max_rows,
            width: self.on_terminal.then(terminal_width),
            expanded: self.settings.expanded,
        }
    }

    /// The error in words, with this session's tables in mind.
    pub(crate) fn explain(&self, error: &datafusion::error::DataFusionError, piece: Option<&Piece>) -> Report {
        let known = Known {
            statement: piece,
            tables: tables::names(&self.context),
        };
        explain(error, &known)
    }

    fn tell(&self, outcome: &Outcome) {
        if self.settings.timing {
            let rows = outcome
                .rows
                .map_or_else(|| "done".to_owned(), |rows| units::counted(rows, "row"));
            note(format_args!("{rows} in {}", units::duration(outcome.time)));
        }
        if self.settings.io && (outcome.rows.is_some() || outcome.io != ScanIo::default()) {
            note(io_line(&outcome.io, outcome.stopped));
        }
    }
}

/// Columns of the terminal; those that say nothing sensible have 80.
pub(crate) fn terminal_width() -> usize {
    match usize::from(console::Term::stdout().size().1) {
        0..20 => 80,
        width => width,
    }
}

/// What the scans of a query read, in one line.
pub(crate) fn io_line(io: &ScanIo, stopped: bool) -> String {
    if *io == ScanIo::default() {
        return "io: no ORC file was read".to_owned();
    }
    format!(
        "io: needed {}, moved {} (amplification {}), {}, {} of {} skipped, {} of {} passed{}",
        units::bytes(io.needed_bytes),
        units::bytes(io.moved_bytes),
        units::ratio(io.amplification()),
        units::counted(io.read_requests, "request"),
        units::count(io.row_groups_skipped),
        units::counted(io.row_groups_total, "row group"),
        units::count(io.rows_passed),
        units::counted(io.rows_scanned, "row"),
        if stopped { " until it was stopped" } else { "" },
    )
}

/// A session with the settings of the command line.
pub(crate) fn session(resources: &Resources) -> Result<SessionContext, Failure> {
    let mut config = GrampusConfig {
        target_partitions: resources.partitions,
        memory_limit_bytes: resources.memory_limit,
        ..GrampusConfig::default()
    };
    config.options.device = resources.device.unwrap_or_default();
    let context = grampus::session::context(config).map_err(|error| explain(&error, &Known::default()))?;
    // Places of unknown columns and functions in the text, for errors.
    context
        .state_ref()
        .write()
        .config_mut()
        .options_mut()
        .sql_parser
        .collect_spans = true;
    Ok(context)
}
