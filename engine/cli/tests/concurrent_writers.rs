//! Processes of the program `grampus` that write and read one folder at the same time, some of them killed.
//!
//! Each statement that succeeds has its effect once, in one of the orders in which the statements could have run one
//! after the other; each that fails or is killed has it once or not at all.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};

/// Processes at the same time.
const WRITERS: u64 = 4;
/// Statements of each process in turn, in one case.
const STATEMENTS: u64 = 4;

fn start(folder: &Path, sql: &str) -> Child {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command
        .args(["-q", "-p", "2", "--format", "csv", "-c", sql])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// What a process printed, and whether it succeeded.
fn end(mut child: Child) -> (bool, String, String) {
    let mut printed = [String::new(), String::new()];
    child.stdout.take().unwrap().read_to_string(&mut printed[0]).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut printed[1]).unwrap();
    let [output, error] = printed;
    (child.wait().unwrap().success(), output, error)
}

fn run(folder: &Path, sql: &str) -> String {
    let (is_done, output, error) = end(start(folder, sql));
    assert!(is_done, "{sql}: {error}");
    output
}

fn cases() -> u64 {
    std::env::var("GRAMPUS_TEST_CASES").map_or(1, |cases| cases.parse().unwrap())
}

fn seed() -> u64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    std::env::var("GRAMPUS_TEST_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// The hidden entries in a folder and below.
fn hidden(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with('.') {
            found.push(name);
        } else if entry.file_type().unwrap().is_dir() {
            found.extend(hidden(&entry.path()));
        }
    }
    found
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// Three rows of a number of their own.
    Insert(u64),
    /// The same, by COPY into the folder.
    Copy(u64),
    /// All rows again, in one file: `INSERT OVERWRITE t SELECT * FROM t`.
    Compact,
    /// Without the rows of these numbers, modulo 4.
    Delete(u64),
    Read,
}

impl Kind {
    fn any(random: &mut Random, number: u64) -> Self {
        match random.below(10) {
            0..3 => Self::Insert(number),
            3..5 => Self::Copy(number),
            5..7 => Self::Compact,
            7 => Self::Delete(random.below(4)),
            _ => Self::Read,
        }
    }

    fn sql(&self, is_partitioned: bool) -> String {
        let table = "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION 't/'";
        let rows = |number: &u64| format!("SELECT {number} AS n, v, v % 2 AS p FROM generate_series(1, 3) AS g(v)");
        match self {
            Self::Insert(number) => format!("{table}; INSERT INTO t {}", rows(number)),
            Self::Copy(number) if is_partitioned => {
                format!("COPY ({}) TO 't/' STORED AS ORC PARTITIONED BY (p)", rows(number))
            }
            Self::Copy(number) => format!("COPY ({}) TO 't/c{number}.orc'", rows(number)),
            Self::Compact => format!("{table}; INSERT OVERWRITE t SELECT * FROM t"),
            Self::Delete(rest) => format!("{table}; INSERT OVERWRITE t SELECT * FROM t WHERE n < 0 OR n % 4 <> {rest}"),
            Self::Read => "SELECT n, count(*) AS c FROM 't/' GROUP BY n ORDER BY n".to_owned(),
        }
    }
}

/// One statement: its time, and what it did.
#[derive(Debug)]
struct Run {
    kind: Kind,
    began: u64,
    ended: u64,
    is_done: bool,
    output: String,
}

/// Rows by number: `n,c` lines. Each number has all three of its rows.
fn numbers(output: &str, is_atomic: impl Fn(u64) -> bool) -> BTreeSet<u64> {
    let lines = output.lines().skip(1).filter(|line| !line.starts_with('-'));
    let pairs = lines.map(|line| {
        let (number, count) = line.split_once(',').unwrap();
        (number.parse::<u64>().unwrap(), count.parse::<u64>().unwrap())
    });
    let pairs: Vec<_> = pairs.collect();
    for (number, count) in &pairs {
        assert!(
            *count == 3 || (!is_atomic(*number) && *count < 3),
            "{count} rows of {number}: {output}"
        );
    }
    pairs.into_iter().map(|(number, _)| number).collect()
}

/// Runs statements of several processes side by side, and compares what they left and read.
fn one_case(seed: u64, is_partitioned: bool) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let partitioned = if is_partitioned { "PARTITIONED BY (p)" } else { "" };
    let first = "(SELECT -1 AS n, 1 AS v, 1 AS p UNION ALL SELECT -1, 2, 0 UNION ALL SELECT -1, 3, 1)";
    run(folder, &format!("COPY {first} TO 't/' STORED AS ORC {partitioned}"));
    let clock = AtomicU64::new(0);
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let runs: Vec<Run> = std::thread::scope(|scope| {
        let writer = |writer: u64| {
            let mut random = Random(seed ^ (writer << 32));
            let mut runs = Vec::new();
            for turn in 0..STATEMENTS {
                let kind = Kind::any(&mut random, writer * STATEMENTS + turn);
                let kill = (random.below(4) == 0).then(|| Duration::from_millis(random.below(400)));
                let began = tick();
                let child = start(folder, &kind.sql(is_partitioned));
                if let Some(after) = kill {
                    std::thread::sleep(after);
                    // It may have ended.
                    let _ = kill_process(Pid::from_child(&child), Signal::KILL);
                }
                let (is_done, output, error) = end(child);
                check_error(&kind, &error, kill.is_some());
                let ended = tick();
                runs.push(Run {
                    kind,
                    began,
                    ended,
                    is_done,
                    output,
                });
            }
            runs
        };
        let writers: Vec<_> = (0..WRITERS).map(|number| scope.spawn(move || writer(number))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let is_atomic = |number: u64| {
        !is_partitioned
            || runs
                .iter()
                .all(|run| run.is_done || !matches!(run.kind, Kind::Insert(n) | Kind::Copy(n) if n == number))
    };
    let left = run(folder, &Kind::Read.sql(is_partitioned));
    let last = Run {
        kind: Kind::Read,
        began: tick(),
        ended: tick(),
        is_done: true,
        output: left,
    };
    for read in runs
        .iter()
        .chain([&last])
        .filter(|run| run.kind == Kind::Read && run.is_done)
    {
        let output = read
            .output
            .lines()
            .filter(|line| !line.starts_with("-1,"))
            .collect::<Vec<_>>()
            .join("\n");
        assert!(read.output.contains("-1,3"), "the first rows are gone: {read:?}");
        let found = numbers(&output, is_atomic);
        for run in &runs {
            let (Kind::Insert(number) | Kind::Copy(number)) = run.kind else {
                continue;
            };
            if run.began > read.ended {
                assert!(
                    !found.contains(&number),
                    "{number} is there before it was written: {read:?}"
                );
            }
            let may_be_deleted = runs.iter().any(|other| {
                other.kind == Kind::Delete(number % 4) && other.ended > run.began && other.began < read.ended
            });
            if run.is_done && run.ended < read.began && !may_be_deleted {
                assert!(found.contains(&number), "{number} is gone: {read:?}");
            }
            let is_deleted = runs.iter().any(|other| {
                other.is_done
                    && other.kind == Kind::Delete(number % 4)
                    && other.began > run.ended
                    && other.ended < read.began
            });
            assert!(!(is_deleted && found.contains(&number)), "{number} is back: {read:?}");
        }
    }
    // A statement into the same place removes what killed processes left.
    run(folder, "COPY (SELECT 7 AS n, 1 AS v, 1 AS p) TO 't/' STORED AS ORC");
    run(folder, "COPY (SELECT 7 AS n) TO 'other.orc'");
    assert_eq!(hidden(folder), Vec::<String>::new());
}

/// Only statements that replace the folder may be refused, and reads whose files they replaced.
fn check_error(kind: &Kind, error: &str, may_be_killed: bool) {
    if error.is_empty() || (may_be_killed && !error.contains("error:")) {
        return;
    }
    let expected: &[&str] = match kind {
        Kind::Compact | Kind::Delete(_) => &[
            "since the statement began",
            "another process is writing into it",
            "has changed",
            "No such file",
            "no such file",
        ],
        Kind::Read => &["No such file", "no such file", "has changed"],
        Kind::Insert(_) | Kind::Copy(_) => &[],
    };
    assert!(expected.iter().any(|words| error.contains(words)), "{kind:?}: {error}");
}

#[test]
fn statements_of_several_processes_have_their_effects_once() {
    let seed = seed();
    println!("GRAMPUS_TEST_SEED={seed}");
    for case in 0..cases() {
        one_case(seed.wrapping_add(case), case % 2 == 1);
    }
}

/// Compaction beside insertions: the rows that an INSERT has committed stay.
#[test]
fn overwriting_loses_no_insertion() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(
        folder,
        "COPY (SELECT value AS n FROM generate_series(1, 100000)) TO 't/' STORED AS ORC",
    );
    let table = "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION 't/'";
    let began = Instant::now();
    let (mut inserted, mut refused) = (0, 0);
    for round in 0..6 * cases() {
        let compact = start(
            folder,
            &format!("{table}; INSERT OVERWRITE t SELECT n FROM t ORDER BY n DESC"),
        );
        // At every phase of the other statement.
        std::thread::sleep(Duration::from_millis(30 * (round % 12)));
        let insert = start(
            folder,
            &format!("{table}; INSERT INTO t SELECT -1 FROM generate_series(1, 10)"),
        );
        let (is_done, _, error) = end(insert);
        assert!(is_done, "INSERT: {error}");
        inserted += 10;
        let (is_done, _, error) = end(compact);
        assert!(is_done || error.contains("since the statement began"), "{error}");
        refused += u32::from(!is_done);
        let rows = run(folder, "SELECT count(*) FROM 't/' WHERE n = -1");
        assert_eq!(
            rows.lines().nth(1),
            Some(inserted.to_string().as_str()),
            "round {round}"
        );
    }
    println!("{refused} of {} refused, in {:?}", 6 * cases(), began.elapsed());
}

/// Many files at once, by many processes: none is taken for the leftover of another.
#[test]
fn partitioned_copies_into_one_folder_all_succeed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir_all(folder.join("t/p=1")).unwrap();
    for user in ["t/.notes.grampus", "t/p=1/.x.abcdef.grampus"] {
        fs::write(folder.join(user), "of a user").unwrap();
    }
    let mut copies = 0;
    for _ in 0..cases() {
        let sql = "COPY (SELECT value % 40 AS p, value AS v FROM generate_series(0, 399)) TO 't/' STORED AS ORC \
                   PARTITIONED BY (p)";
        let children: Vec<Child> = (0..6).map(|_| start(folder, sql)).collect();
        for child in children {
            let (is_done, _, error) = end(child);
            assert!(is_done, "{error}");
            copies += 1;
        }
    }
    let rows = run(folder, "SELECT count(*), count(DISTINCT v) FROM 't/'");
    assert_eq!(rows.lines().nth(1), Some(format!("{},400", 400 * copies).as_str()));
    let mut users = hidden(folder);
    users.sort();
    assert_eq!(users, [".notes.grampus", ".x.abcdef.grampus"]);
}
