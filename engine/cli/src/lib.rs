//! The program `grampus`, from its arguments to its exit status. The Python package has it too.
//!
//! | file | contents |
//! | --- | --- |
//! | `setting`, `layout_options` | one `--set` of the command line; options of commands that write ORC |
//! | `nvme_options` | options of `nvme` |
//! | `agent_mode`, `result_format` | output for programs that read it as people do; formats of results |
//! | `args`, `foreign_options` | definition of the command line; options of other programs |
//! | `terminal`, `units` | notes on standard error; quantities as text |
//! | `wording`, `keywords` | texts of messages; SQL keywords |
//! | `caught_signal` | the signals that end a command |
//! | `exit_error` | why a command ends early, and its exit status |
//! | `error_chain`, `error_messages` | the root of a library's error; that error in words |
//! | `plan_wording`, `setting_wording` | planners' messages, and messages about settings, in words |
//! | `interrupts`, `threads` | Ctrl-C and other signals; the threads that run queries |
//! | `scratch_folder` | the folder of a command's temporary files |
//! | `output` | standard output, or a file that is published when it is complete |
//! | `pager`, `result_output` | a program for long results; where the rows of statements go |
//! | `cell_text`, `table_borders` | texts of values; lines of tables |
//! | `text_records`, `text_table` | values on lines of their own; aligned text |
//! | `separated_values`, `sql_literals` | comma- and tab-separated values; INSERT statements |
//! | `column_headings` | the names of a result's columns |
//! | `explain_tree`, `explained_plan` | a plan's operators on a terminal; the answer to EXPLAIN |
//! | `result_writer` | results in each format |
//! | `calibrate` | this machine's rates, measured |
//! | `progress`, `disk_reads` | the progress line of a query; bytes that disks have read for the process |
//! | `session`, `session_tables` | an SQL session; its tables |
//! | `statement_splitter`, `statement_runner` | input to statements; one statement beside its printing loop |
//! | `backslash_command`, `dot_command` | `\d`, `\timing` and others; `.tables`, `.mode` and others |
//! | `io_wording`, `shell_settings` | what a query has read, in words; what commands change |
//! | `shell` | the session in which statements and commands run |
//! | `named_tables`, `completion` | tables of unfinished statements; ends of unfinished words |
//! | `line_helper` | completion, colours, the end of a statement |
//! | `user_files`, `interactive` | history and statements of the user; the line editor's loop |
//! | `subcommands` | `demo`, `layout`, `taxi generate`, `convert`, `device`, `nvme`, `bench` |
//!
//! **Invariant:** no file here parses ORC. Queries read it through the library `grampus`, layouts through
//! `grampus-orc-layout`.

mod agent_mode;
mod args;
mod backslash_command;
mod calibrate;
mod caught_signal;
mod cell_text;
mod column_headings;
mod completion;
mod disk_reads;
mod dot_command;
mod error_chain;
mod error_messages;
mod exit_error;
mod explain_tree;
mod explained_plan;
mod foreign_options;
mod interactive;
mod interrupts;
mod io_wording;
mod keywords;
mod layout_options;
mod line_helper;
mod named_tables;
mod nvme_options;
mod output;
mod pager;
mod plan_wording;
mod progress;
mod result_format;
mod result_output;
mod result_writer;
mod scratch_folder;
mod separated_values;
mod session;
mod session_tables;
mod setting;
mod setting_wording;
mod shell;
mod shell_settings;
mod sql_literals;
mod statement_runner;
mod statement_splitter;
mod subcommands;
mod table_borders;
mod terminal;
mod text_records;
mod text_table;
mod threads;
mod units;
mod user_files;
mod wording;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

use args::{BenchCommand, Cli, Command, Job, TaxiCommand};
use clap::CommandFactory;
use error_messages::explain_alone;
use exit_error::ExitError;
use grampus::caught_panic::caught;
use grampus::error::without_secrets;
use subcommands::{bench_io, bench_sql, convert, demo, device, generate, layout, nvme};
use terminal::note;

/// Runs a command line, whose first argument is the program's name. Returns the exit status.
///
/// The process is the program's own: its signals, its limits and its log are changed, and some commands end it.
pub fn run_program(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let (cli, jobs) = args::parse(arguments);
    start_log(cli.verbose);
    allow_open_files();
    log_panics();
    // Statements catch theirs. What is left ends the command, and its temporary files are removed.
    let ran = caught("grampus", || Ok(run(&cli, &jobs)));
    match ran.unwrap_or_else(|panic| Err(explain_alone(&panic))) {
        Ok(()) => 0,
        Err(error) => {
            error.print(cli.verbose > 0);
            error.exit_status()
        }
    }
}

/// Logs panics in place of printing them: each becomes an error, which is printed.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| log::info!("{panic}")));
}

/// Raises the limit of open files to the largest that the system allows. The usual limit is 1,024. A table may have
/// more files, and a query keeps the files open that it reads on the GPU.
fn allow_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        if let Err(e) = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: maximum,
                maximum,
            },
        ) {
            log::info!("open files stay limited to {current:?}: {e}");
        }
    }
}

fn run(cli: &Cli, jobs: &[Job]) -> Result<(), ExitError> {
    match &cli.command {
        None => query(cli, jobs),
        Some(Command::Demo(arguments)) => demo::run(arguments),
        Some(Command::Layout(arguments)) => layout::run(arguments),
        Some(Command::Taxi {
            command: TaxiCommand::Generate(arguments),
        }) => generate::run(arguments),
        Some(Command::Bench {
            command: BenchCommand::Sql(arguments),
        }) => bench_sql::run(arguments),
        Some(Command::Convert(arguments)) => convert::run(arguments),
        Some(Command::Device(arguments)) => device::run(arguments),
        Some(Command::Nvme { command }) => nvme::run(command),
        Some(Command::Bench {
            command: BenchCommand::Io(arguments),
        }) => bench_io::run(arguments),
        Some(Command::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "grampus", &mut text);
            io::stdout().write_all(&text).map_err(|error| ExitError::output(&error))
        }
    }
}

/// Runs SQL from the command line, the terminal or standard input.
fn query(cli: &Cli, jobs: &[Job]) -> Result<(), ExitError> {
    let interactive = jobs.is_empty() && io::stdin().is_terminal();
    let mut shell = shell::Shell::open(cli, interactive)?;
    if interactive {
        interactive::run(&mut shell, cli)?;
    } else if jobs.is_empty() {
        shell.run_jobs(&[Job::File("-".to_owned())])?;
    } else {
        shell.run_jobs(jobs)?;
    }
    shell.finish()
}

/// Prints the log on standard error, at a level chosen by the number of `-v`.
fn start_log(verbose: u8) {
    struct Log;
    impl log::Log for Log {
        fn enabled(&self, _: &log::Metadata<'_>) -> bool {
            true
        }
        fn log(&self, record: &log::Record<'_>) {
            note(format_args!(
                "{}: {}: {}",
                record.level().as_str().to_lowercase(),
                record.target(),
                without_secrets(&record.args().to_string())
            ));
        }
        fn flush(&self) {}
    }
    let level = match verbose {
        0 => return,
        1 => log::LevelFilter::Info,
        _ => log::LevelFilter::Debug,
    };
    if log::set_logger(&Log).is_ok() {
        log::set_max_level(level);
    }
}
