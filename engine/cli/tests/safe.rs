//! `--safe`: statements and commands open no files but those that the command line names, and write none.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// What each file has that no statement may read.
const MARKER: &str = "Pl4ntedM4rk";

/// A folder with files to name, `own.*`, and planted files.
struct World {
    folder: tempfile::TempDir,
    planted: BTreeMap<PathBuf, Vec<u8>>,
}

impl World {
    fn plant() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("own")).unwrap();
        fs::create_dir(folder.path().join("planted")).unwrap();
        fs::create_dir(folder.path().join("grampus")).unwrap();
        let mut sql = String::new();
        for file in ["own.orc", "own.parquet", "own.csv", "own.json", "own/a.orc"] {
            sql.push_str(&format!("COPY (SELECT 1 AS a, 'x' AS s) TO '{file}';"));
        }
        for file in [
            "p.orc",
            "p.parquet",
            "p.csv",
            "p.json",
            "planted/a.orc",
            "planted/a.parquet",
        ] {
            sql.push_str(&format!("COPY (SELECT 1 AS a, '{MARKER}' AS s) TO '{file}';"));
        }
        let made = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"))
            .args(["-q", "-c", &sql])
            .current_dir(&folder)
            .output();
        assert!(made.unwrap().status.success());
        let script = format!("SELECT '{MARKER}' AS s;\n");
        fs::write(folder.path().join("p.sql"), &script).unwrap();
        fs::write(folder.path().join("grampus/grampusrc"), &script).unwrap();
        fs::write(folder.path().join("own.sql"), "SELECT 42 AS answer;\n").unwrap();
        let planted = contents(folder.path());
        Self { folder, planted }
    }

    /// The status and the output of a run, which has no planted text, wrote no file and changed none.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        for home in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
            command.env(home, self.folder.path());
        }
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(!text.contains(MARKER), "{arguments:?}: {text}");
        assert!(
            contents(self.folder.path()) == self.planted,
            "{arguments:?} wrote: {text}"
        );
        (output.status.code(), text)
    }
}

/// Files below a folder.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.append(&mut contents(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

/// Statements and commands that name files. `{}` is a path without the end of its name.
const READS: [&str; 32] = [
    "SELECT * FROM '{}.orc'",
    "SELECT * FROM \"{}.orc\"",
    "SELECT * FROM '{}.parquet'",
    "FROM '{}.csv'",
    "SELECT * FROM '{}.json'",
    "SELECT * FROM './{}.orc'",
    "SELECT * FROM '~/{}.orc'",
    "SELECT * FROM '{}*.orc'",
    "SELECT * FROM '{}nted/'",
    "SELECT * FROM '{}nted/*.parquet'",
    "SELECT * FROM 'file:///tmp/{}.orc'",
    "SELECT * FROM 'http://127.0.0.1:9/{}.orc'",
    "SELECT * FROM 's3://bucket/{}.parquet'",
    "SELECT * FROM read_csv('{}.csv')",
    "SELECT * FROM read_parquet(['{}.parquet'])",
    "SELECT * FROM parquet_scan('{}.parquet')",
    "SELECT * FROM read_json('{}.json')",
    "SELECT * FROM read_orc('{}.orc')",
    "SELECT * FROM read_text('{}.sql')",
    "SELECT * FROM read_blob('{}.sql')",
    "SELECT * FROM glob('{}*')",
    "SELECT * FROM orc_metadata('{}.orc')",
    "SELECT * FROM parquet_metadata('{}.parquet')",
    "SELECT (SELECT max(s) FROM '{}.orc') AS s",
    "WITH t AS (SELECT * FROM '{}.orc') SELECT * FROM t",
    "EXPLAIN ANALYZE SELECT * FROM '{}.orc'",
    "DESCRIBE '{}.orc'",
    "SUMMARIZE '{}.orc'",
    "CREATE VIEW v AS SELECT * FROM '{}.orc'",
    "CREATE TABLE t AS SELECT * FROM '{}.orc'",
    "CREATE TABLE t(a BIGINT, s VARCHAR); COPY t FROM '{}.csv'",
    "PREPARE q AS SELECT * FROM '{}.orc'",
];

/// Statements that write files, or name them for later.
const WRITES: [&str; 18] = [
    "COPY own TO '{}.orc'",
    "COPY (SELECT 1 AS a) TO '{}.csv' (header false)",
    "COPY (SELECT 1 AS a) TO '{}.parquet'",
    "COPY (SELECT 1 AS a) TO 's3://bucket/{}.parquet'",
    "EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO '{}.orc'",
    "COPY own TO '{}nted' (FORMAT parquet, PARTITION_BY (s))",
    "INSERT INTO own VALUES (2, 'y')",
    "INSERT OVERWRITE own SELECT * FROM own",
    "INSERT INTO folder VALUES (2, 'y')",
    "INSERT OVERWRITE folder SELECT * FROM own",
    "INSERT INTO '{}.orc' VALUES (2, 'y')",
    "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{}.orc'",
    "CREATE EXTERNAL TABLE t (a INT) STORED AS CSV LOCATION '{}nted/'",
    "CREATE EXTERNAL TABLE t STORED AS ORC LOCATION '{}nted/new/' AS SELECT 1 AS a",
    "CREATE OR REPLACE TABLE t STORED AS ORC LOCATION '{}nted/new/' AS SELECT 1 AS a",
    "SET datafusion.runtime.temp_directory = '{}nted'",
    "SET grampus.cache_folder = '{}nted'",
    "SET datafusion.catalog.location = '{}nted'",
];

const COMMANDS: [&str; 6] = [
    "\\i {}.sql",
    "\\o {}.txt",
    "\\pager on",
    ".read {}.sql",
    ".output {}.txt",
    ".pager on",
];

/// Commands that look for a table of the name, and for no file.
const NAMES: [&str; 4] = ["\\d '{}.orc'", "\\d {}.orc", ".schema '{}.orc'", ".schema {}.orc"];

#[test]
fn no_statement_opens_or_writes_a_file() {
    let world = World::plant();
    let named = ["--safe", "-q", "own.orc", "-t", "folder=own/"];
    for statement in READS.iter().chain(&WRITES).chain(&COMMANDS) {
        // A file that is there is refused as one that is not: neither is looked for.
        for name in ["p", "missing"] {
            let statement = statement.replace("{}nted", if name == "p" { "planted" } else { "missing" });
            let statement = statement.replace("{}", name);
            let (status, text) = world.run(&[&named[..], &["-c", &statement]].concat());
            assert_eq!(status, Some(1), "{statement}: {text}");
            assert!(text.contains("--safe is on, and refuses it"), "{statement}: {text}");
        }
    }
    for command in NAMES {
        let (status, text) = world.run(&[&named[..], &["-c", &command.replace("{}", "p")]].concat());
        assert_eq!(status, Some(1), "{command}: {text}");
    }
}

#[test]
fn options_that_write_are_refused() {
    let world = World::plant();
    for arguments in [
        &["--safe", "-o", "x.csv", "-c", "SELECT 1"][..],
        &["--safe", "convert", "own.csv", "--out", "x.orc"],
        &["--safe", "demo", "--keep", "x"],
        &[
            "--safe",
            "--set",
            "datafusion.runtime.temp_directory=planted",
            "-c",
            "SELECT 1",
        ],
        &["--safe", "--set", "grampus.cache_folder=planted", "-c", "SELECT 1"],
    ] {
        let (status, text) = world.run(arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {text}");
        assert!(text.contains("--safe"), "{arguments:?}: {text}");
    }
}

#[test]
fn named_files_and_tables_in_memory_are_there() {
    let world = World::plant();
    for (sql, expected) in [
        ("SELECT s FROM own", "x"),
        ("SELECT a FROM folder", "1"),
        ("SELECT count(*) FROM parquet JOIN own USING (a)", "1"),
        (
            "CREATE TABLE t AS SELECT a FROM own; INSERT INTO t VALUES (7); SELECT sum(a) FROM t",
            "8",
        ),
        ("CREATE VIEW v AS SELECT a + 1 AS b FROM own; SELECT b FROM v", "2"),
        ("SET datafusion.execution.batch_size = 100; SELECT a FROM own", "1"),
        ("EXPLAIN ANALYZE SELECT a FROM own", "OrcScanExec"),
    ] {
        let tables = ["own.orc", "-t", "folder=own/", "-t", "parquet=own.parquet"];
        let arguments = [&["--safe", "-q", "--format", "csv"], &tables[..], &["-c", sql]].concat();
        let (status, text) = world.run(&arguments);
        assert_eq!(status, Some(0), "{sql}: {text}");
        assert!(text.contains(expected), "{sql}: {text}");
    }
    let (status, text) = world.run(&["--safe", "-q", "--format", "csv", "-f", "own.sql"]);
    assert_eq!((status, text.as_str()), (Some(0), "answer\n42\n"));
}

#[test]
#[cfg(unix)]
fn the_shell_has_no_history_and_no_first_statements() {
    let world = World::plant();
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command
        .args(["--safe", "own.orc"])
        .current_dir(&world.folder)
        .env("XDG_STATE_HOME", world.folder.path())
        .env("XDG_CONFIG_HOME", world.folder.path())
        .env_remove("GRAMPUS_RC")
        .env("GRAMPUS_PAGER", "touch pager-ran")
        .env("NO_COLOR", "1")
        .env("TERM", "xterm");
    let mut terminal = rexpect::session::spawn_command(command, Some(60_000)).unwrap();
    let started = terminal.exp_string("grampus> ").unwrap();
    assert!(!started.contains(MARKER), "{started}");
    terminal.send_line("SELECT * FROM generate_series(1, 500);").unwrap();
    terminal.exp_string("500 rows in ").unwrap();
    terminal.exp_string("grampus> ").unwrap();
    // Tab completes no path.
    terminal.send("SELECT * FROM 'plan\t").unwrap();
    terminal.send_control('c').unwrap();
    let shown = terminal.exp_string("grampus> ").unwrap();
    assert!(!shown.contains("planted"), "{shown}");
    terminal.send_control('d').unwrap();
    terminal.exp_eof().unwrap();
    assert!(contents(world.folder.path()) == world.planted);
}
