//! [`Cli`]: the definition of the command line. Its doc comments are the texts of `--help`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use grampus::{Device, MemoryLimit};
use grampus_tools::taxi::ColumnSet;

use crate::exit_error::{ErrorReport, ExitError};
use crate::layout_options::LayoutOptions;
use crate::nvme_options::NvmeCommand;
use crate::result_format::Format;
use crate::setting::Setting;
use crate::{agent_mode, foreign_options, units};

const EXAMPLES: &str = "\
Examples:
  grampus trips.orc                                  ask questions; the table is called trips
  grampus trips.orc -c 'SELECT count(*) FROM trips'  ask one and leave
  grampus --table trips='data/*.orc' -f report.sql --format csv > report.csv
  grampus --io trips.orc -c 'SELECT avg(fare) FROM trips WHERE miles >= 30'
                                                     and see how few bytes the answer took
  AWS_REGION=eu-west-1 grampus s3://bucket/trips/    read a bucket (gs://, abfss://, https:// too)
  grampus nvme load t.orc --device 0000:01:00.0      a file for FROM 'nvme://0000:01:00.0/t.orc'
  grampus demo                                       a tour on made-up taxi trips";

/// SQL over ORC files that reads only the bytes a query turns out to need; Parquet, CSV, NDJSON and Arrow join them.
///
/// Without -c or -f it is interactive when standard input is a terminal, and reads SQL from standard input when not.
#[derive(Debug, Parser)]
#[command(name = "grampus", version, after_help = EXAMPLES, max_term_width = 110)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = false)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Files, folders, globs or URLs to open as tables, each named after its file: ORC, Parquet, CSV, NDJSON, Arrow
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<String>,

    /// Open PATH (file, folder, glob or URL) as table NAME; may be repeated
    #[arg(short = 't', long = "table", value_name = "NAME=PATH")]
    pub(crate) tables: Vec<String>,

    /// Run this SQL and leave; may be repeated
    // SQL may begin with a comment, which is no option.
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    pub(crate) commands: Vec<String>,

    /// Run the SQL in FILE ('-': standard input) and leave; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub(crate) files: Vec<String>,

    /// How results are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,

    /// Show the types of columns below their names, in the formats table and box [default: when interactive]
    #[arg(long, overrides_with = "no_types")]
    pub(crate) types: bool,

    /// Do not show the types of columns
    #[arg(long, overrides_with = "types")]
    pub(crate) no_types: bool,

    /// Write results to FILE instead of standard output; FILE appears when all statements have succeeded
    #[arg(short = 'o', long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Read the files that the command line names, and no others, and write none: for statements of others
    #[arg(long, conflicts_with = "output")]
    pub(crate) safe: bool,

    /// Most rows of a table to print ('all' for no limit) [default: 100 on a terminal, else all]
    #[arg(long, value_name = "N", value_parser = parse_max_rows)]
    pub(crate) max_rows: Option<MaxRows>,

    #[command(flatten)]
    pub(crate) resources: Resources,

    /// After each query, say what it read: bytes needed and moved, requests, what was skipped
    #[arg(long)]
    pub(crate) io: bool,

    /// When interactive, do not run the file of $GRAMPUS_RC or ~/.config/grampus/grampusrc first
    #[arg(long)]
    pub(crate) no_rc: bool,

    /// Say how long each query took [default: when interactive]
    #[arg(long, overrides_with = "no_timing")]
    pub(crate) timing: bool,

    /// Do not say how long each query took
    #[arg(long, overrides_with = "timing")]
    pub(crate) no_timing: bool,

    /// Write for an agent: compact Markdown, errors as JSON, no progress [default: if AI_AGENT or CLAUDECODE is set
    /// and standard output is no terminal]
    #[arg(long)]
    pub(crate) agent: bool,

    /// Print results and errors only: no greeting, progress or timing
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Say more: -v the chain of causes behind an error and what was decided, -vv everything logged
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// How much of the machine to use, and the session's settings.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Resources {
    /// Memory that queries may use, such as 512m or 4g; none for no limit [default: 80 % of the machine's]
    #[arg(short = 'm', long, value_name = "SIZE", value_parser = units::parse_memory_limit)]
    pub(crate) memory_limit: Option<MemoryLimit>,

    /// How many partitions (threads) to use [default: one per core]
    #[arg(short = 'p', long, value_name = "N", value_parser = units::parse_count)]
    pub(crate) partitions: Option<usize>,

    /// Folder for temporary files, such as data that does not fit into memory [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub(crate) temp_folder: Option<PathBuf>,

    /// Where filtered aggregates are computed: auto, gpu, prefer (the GPU wherever it can be) or cpu [default: auto]
    #[arg(long, value_name = "DEVICE", value_parser = parse_device)]
    pub(crate) device: Option<Device>,

    /// Set KEY before tables are opened, as SET does; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<Setting>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a small data set in a temporary folder, ask it the taxi questions, show what was read
    Demo(DemoArgs),
    /// Print where everything in an ORC file is, and how each column can be read
    Layout(LayoutArgs),
    /// Make up taxi trips, like New York's, for trying things out and measuring
    Taxi {
        #[command(subcommand)]
        command: TaxiCommand,
    },
    /// Make ORC files laid out for on-demand reading from Parquet, CSV or ORC
    Convert(ConvertArgs),
    /// Say what there is to compute on: GPU, memory, link, drivers; and for what is missing, how to get it
    Device(DeviceArgs),
    /// List NVMe controllers, move them to vfio-pci and back, and store files on their namespaces
    Nvme {
        #[command(subcommand)]
        command: NvmeCommand,
    },
    /// Measure: SQL statements, or what each path between storage and GPU reaches
    Bench {
        #[command(subcommand)]
        command: BenchCommand,
    },
    /// Print a shell's completion script
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct DeviceArgs {
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Measure how fast bytes come to the GPU by each path, and keep that for choosing between CPU and GPU
    #[arg(long)]
    pub(crate) calibrate: bool,

    /// Folder for the 2 GiB file that is measured with, removed afterwards [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR", requires = "calibrate")]
    pub(crate) folder: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BenchIoArgs {
    /// Sections to run [default: all]
    #[arg(long, value_name = "SECTION,…", value_delimiter = ',')]
    pub(crate) sections: Vec<String>,

    /// Folder for the data file, on the disk to be measured [default: $TMPDIR or /tmp]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,

    /// Size of the data file, in whole MiB
    #[arg(long, value_name = "SIZE", default_value = "8g", value_parser = units::parse_bytes)]
    pub(crate) size: usize,

    /// Write the figures to FILE too, as one JSON object ('-': print that instead)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Tiny sizes: the paths are checked, the figures mean nothing
    #[arg(long)]
    pub(crate) small: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// How many trips to make up, such as 500k or 3m
    #[arg(long, value_name = "N", default_value = "3m", value_parser = units::parse_rows)]
    pub(crate) rows: u64,

    /// Keep the data in DIR instead of a temporary folder that is removed
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,

    /// Replace DIR, whole; it may hold only what grampus wrote
    #[arg(long, requires = "keep")]
    pub(crate) overwrite: bool,

    #[command(flatten)]
    pub(crate) resources: Resources,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LayoutArgs {
    /// The ORC file
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Print one JSON object with everything there is to know
    #[arg(long, conflicts_with = "full")]
    pub(crate) json: bool,

    /// Print streams, row groups and chunks too
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaxiCommand {
    /// Write ORC files of made-up trips; the same options always give the same bytes
    Generate(GenerateArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Run statements again and again in one session: median times from text to last row, bytes needed and moved
    Sql(BenchSqlArgs),
    /// What each path between storage and GPU reaches, next to a plain kernel
    Io(BenchIoArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct BenchSqlArgs {
    /// Files with one statement each, named after them
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// A statement; may be repeated
    // SQL may begin with a comment, which is no option.
    #[arg(short = 'c', long = "command", value_name = "SQL", allow_hyphen_values = true)]
    pub(crate) commands: Vec<String>,

    /// Open PATH (file, folder, glob or URL) as table NAME; may be repeated
    #[arg(short = 't', long = "table", value_name = "NAME=PATH")]
    pub(crate) tables: Vec<String>,

    /// Runs of each statement after its first
    #[arg(long, value_name = "N", default_value = "5", value_parser = units::parse_count)]
    pub(crate) runs: usize,

    /// Write times, rows, bytes and plans to FILE ('-': standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) resources: Resources,
}

#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    /// How many trips, such as 500k, 20m or 1.7b
    #[arg(long, value_name = "N", value_parser = units::parse_rows)]
    pub(crate) rows: u64,

    /// Folder for the files, made if it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// How many files to spread the trips over [default: one for each 2.5 million trips, at most 64]
    #[arg(long, value_name = "K", value_parser = units::parse_count)]
    pub(crate) files: Option<usize>,

    /// Trips of different seeds differ
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,

    /// core: what the taxi queries use; full: all 51 columns; six: the doubles of q0 to q5
    #[arg(long, value_name = "SET", default_value = "core")]
    pub(crate) columns: ColumnSet,

    #[command(flatten)]
    pub(crate) layout: LayoutOptions,

    /// Threads to use [default: one per core]
    #[arg(short = 'p', long, value_name = "N", value_parser = units::parse_count)]
    pub(crate) partitions: Option<usize>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArgs {
    /// Parquet, CSV or ORC files, or folders of them
    #[arg(value_name = "IN", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// Folder for the ORC files, or one file name that ends in .orc
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// Columns to keep, in this order [default: all]
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,

    #[command(flatten)]
    pub(crate) layout: LayoutOptions,

    /// Rows in each stripe, such as 500k [default: a million]
    #[arg(long, value_name = "N", value_parser = units::parse_rows)]
    pub(crate) stripe_rows: Option<u64>,

    /// Begin another file after this many rows [default: one file per input]
    #[arg(long, value_name = "N", value_parser = units::parse_rows)]
    pub(crate) rows_per_file: Option<u64>,

    /// Before publishing, read every file again and compare it with what was put in
    #[arg(long)]
    pub(crate) verify: bool,

    /// The character between the fields of a CSV file; \t is a tab
    #[arg(long, value_name = "CHAR", default_value = ",", value_parser = units::parse_delimiter)]
    pub(crate) csv_delimiter: u8,

    /// The first line of a CSV file is data, not names
    #[arg(long)]
    pub(crate) csv_no_header: bool,

    /// A CSV field with this text is NULL, besides fields of nothing ("" is the empty text)
    #[arg(long, value_name = "TEXT")]
    pub(crate) csv_null: Option<String>,
}

/// The limit that `--max-rows` sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaxRows {
    All,
    Rows(usize),
}

pub(crate) fn parse_max_rows(text: &str) -> Result<MaxRows, String> {
    match text {
        "all" => Ok(MaxRows::All),
        _ => text
            .parse()
            .map(MaxRows::Rows)
            .map_err(|_| "expected a number of rows or 'all'".to_owned()),
    }
}

fn parse_device(text: &str) -> Result<Device, String> {
    text.parse().map_err(|_| "expected auto, gpu, prefer or cpu".to_owned())
}

/// SQL that the command line gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Job {
    /// `-c`
    Sql(String),
    /// `-f`
    File(String),
}

/// The parsed command line, and its `-c` and `-f` in the given order.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> (Cli, Vec<Job>) {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let texts: Vec<String> = arguments
        .iter()
        .skip(1)
        .map(|text| text.to_string_lossy().into_owned())
        .collect();
    if agent_mode::is_in_environment()
        || texts
            .iter()
            .take_while(|text| *text != "--")
            .any(|text| text == "--agent")
    {
        agent_mode::turn_on();
    }
    if let Some(report) = foreign_options::found(&texts) {
        refuse(report);
    }
    let parsed = Cli::command().try_get_matches_from(arguments).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((cli, matches))
    });
    match parsed {
        Ok((mut cli, matches)) => {
            if agent_mode::is_on() {
                cli.quiet = true;
                if matches.value_source("format") == Some(ValueSource::DefaultValue) {
                    cli.format = Format::Markdown;
                }
            }
            let jobs = jobs(&cli, &matches);
            (cli, jobs)
        }
        Err(error) if agent_mode::is_on() && error.use_stderr() => refuse(one_line(&error.render().to_string())),
        Err(error) => error.format(&mut Cli::command()).exit(),
    }
}

/// The parser's message without its usage, whose tip is the hint.
fn one_line(text: &str) -> ErrorReport {
    let mut paragraphs = text.split("\n\n").map(str::trim);
    let message = paragraphs.next().unwrap_or("").trim_start_matches("error: ");
    let tip = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: "));
    ErrorReport::new(message).hint(tip.unwrap_or("--help lists the options"))
}

/// Ends the program, whose command line is wrong.
fn refuse(report: ErrorReport) -> ! {
    ExitError::Usage(report).print(false);
    std::process::exit(2)
}

fn jobs(cli: &Cli, matches: &ArgMatches) -> Vec<Job> {
    let places = |id: &str| matches.indices_of(id).into_iter().flatten().collect::<Vec<_>>();
    let commands = cli.commands.iter().cloned().map(Job::Sql);
    let files = cli.files.iter().cloned().map(Job::File);
    let mut jobs: Vec<(usize, Job)> = places("commands").into_iter().zip(commands).collect();
    jobs.extend(places("files").into_iter().zip(files));
    jobs.sort_by_key(|(place, _)| *place);
    jobs.into_iter().map(|(_, job)| job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<(Cli, Vec<Job>), clap::Error> {
        let matches = Cli::command().try_get_matches_from([&["grampus"], arguments].concat())?;
        let cli = Cli::from_arg_matches(&matches)?;
        let jobs = jobs(&cli, &matches);
        Ok((cli, jobs))
    }

    #[test]
    fn definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_and_files_keep_their_order() {
        let (_, jobs) = parse(&["-c", "a", "-f", "b", "-c", "c"]).unwrap();
        assert_eq!(
            jobs,
            [Job::Sql("a".into()), Job::File("b".into()), Job::Sql("c".into())]
        );
    }

    #[test]
    fn first_word_is_a_subcommand_or_a_path() {
        assert!(matches!(parse(&["demo"]).unwrap().0.command, Some(Command::Demo(_))));
        let (cli, _) = parse(&["trips.orc", "-c", "SELECT 1", "zones.orc"]).unwrap();
        assert_eq!(cli.paths, ["trips.orc", "zones.orc"]);
    }

    #[test]
    fn limits_are_checked() {
        assert!(parse(&["-p", "0"]).is_err());
        assert!(parse(&["--max-rows", "some"]).is_err());
        assert_eq!(parse(&["--max-rows", "all"]).unwrap().0.max_rows, Some(MaxRows::All));
        let limit = parse(&["-m", "4g"]).unwrap().0.resources.memory_limit;
        assert_eq!(limit, Some(MemoryLimit::Bytes(4 << 30)));
    }
}
