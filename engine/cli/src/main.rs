//! The `grampus` command, from its arguments to its exit status.
//!
//! ```text
//! args            what can be asked for             interactive  the conversation; completion helps typing
//! shell           one session, its settings         commands     \d, \timing, …
//! script          input to statements               query        one statement beside its printing loop
//! output          rows to table, csv, tsv, json     table        aligned text
//! error_messages  DataFusion's errors to words      exit_error   what ends a command, and its exit status
//! layout          where everything in a file is     generate     taxi generate, convert
//! demo            the tour                          device       what there is to compute on
//! bench_sql       statements, timed                 bench_io     what each path to the GPU reaches
//! ```
//!
//! Everything that reads ORC is in the library of the same name.

mod args;
mod bench_io;
mod bench_sql;
mod commands;
mod completion;
mod demo;
mod device;
mod error_chain;
mod error_messages;
mod exit_error;
mod generate;
mod interactive;
mod interrupt;
mod layout;
mod local;
mod output;
mod progress;
mod query;
mod runtime;
mod script;
mod shell;
mod table;
mod tables;
mod units;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use args::{BenchCommand, Cli, Command, Job, TaxiCommand};
use clap::CommandFactory;
use exit_error::Failure;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs the command line.
fn main() -> ExitCode {
    let (cli, jobs) = args::parse();
    start_log(cli.verbose);
    allow_open_files();
    match run(&cli, &jobs) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell(cli.verbose > 0);
            failure.exit_code()
        }
    }
}

/// Allows as many open files as the system lets this process have: a table may have more than the 1,024 that are usual at first, and a
/// query keeps those open that it reads on the GPU.
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

fn run(cli: &Cli, jobs: &[Job]) -> Result<(), Failure> {
    match &cli.command {
        None => query(cli, jobs),
        Some(Command::Demo(arguments)) => demo::run(arguments),
        Some(Command::Layout(arguments)) => layout::run(arguments),
        Some(Command::Taxi {
            command: TaxiCommand::Generate(arguments),
        }) => generate::taxi_generate(arguments),
        Some(Command::Bench {
            command: BenchCommand::Sql(arguments),
        }) => bench_sql::run(arguments),
        Some(Command::Convert(arguments)) => generate::convert_files(arguments),
        Some(Command::Device(arguments)) => device::run(arguments),
        Some(Command::Bench {
            command: BenchCommand::Io(arguments),
        }) => bench_io::run(arguments),
        Some(Command::Completions { shell }) => {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "grampus", &mut text);
            io::stdout()
                .write_all(&text)
                .map_err(|error| exit_error::output(&error))
        }
    }
}

/// Runs SQL from the command line, the terminal or standard input.
fn query(cli: &Cli, jobs: &[Job]) -> Result<(), Failure> {
    let interactive = jobs.is_empty() && io::stdin().is_terminal();
    let mut shell = shell::Shell::open(cli, interactive)?;
    if interactive {
        interactive::run(&mut shell)
    } else if jobs.is_empty() {
        shell.run_jobs(&[Job::File("-".to_owned())])
    } else {
        shell.run_jobs(jobs)
    }
}

/// Says something to the person on standard error. That nobody may be listening is no reason to stop.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

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
                record.args()
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
