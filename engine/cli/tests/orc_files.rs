//! The program `grampus` on ORC files: generated, converted, opened in every way, and damaged.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use insta::assert_snapshot;

fn grampus(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .env("NO_COLOR", "1");
    command.output().unwrap()
}

fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = grampus(folder, arguments);
    assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)));
    text(&output.stdout)
}

fn failed(status: i32, folder: &Path, arguments: &[&str]) -> String {
    let output = grampus(folder, arguments);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A folder with `trips/`: 20,000 trips in two files.
fn trips() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "taxi", "generate", "--rows", "20k", "--files", "2", "--out", "trips", "--quiet",
    ];
    assert_eq!(printed(folder.path(), &arguments), "");
    folder
}

fn first_file(folder: &Path) -> PathBuf {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join("trips"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files.swap_remove(0)
}

const COUNT: &str = "SELECT count(*) AS n FROM trips";

/// A query keeps its files open on the GPU. If there is a C++ compiler for the kernels, host threads stand for the GPU.
#[cfg(unix)]
#[test]
fn table_may_have_more_files_than_the_first_limit_of_open_files() {
    let folder = trips();
    let file = first_file(folder.path());
    std::fs::create_dir(folder.path().join("many")).unwrap();
    for copy in 0..100 {
        std::fs::copy(&file, folder.path().join(format!("many/{copy}.orc"))).unwrap();
    }
    let mut command = grampus_test_support::program("sh");
    let few = command.args([
        "-c",
        "ulimit -Sn 64 && exec \"$0\" \"$@\"",
        env!("CARGO_BIN_EXE_grampus"),
    ]);
    few.args(["--format", "csv", "-t", "trips=many"]);
    for statement in [
        "SET grampus.device = 'prefer'",
        "SET grampus.gpu_target = 'host'",
        "SELECT count(*) AS n FROM trips WHERE trip_distance >= 0 OR trip_distance < 0",
    ] {
        few.args(["-c", statement]);
    }
    let output = few.current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    assert_eq!(
        (text(&output.stderr), text(&output.stdout)),
        (String::new(), "n\n1024000\n".to_owned())
    );
}

#[test]
fn tables_open_from_files_folders_globs_and_statements() {
    let folder = trips();
    let folder = folder.path();
    let csv = |arguments: &[&str]| printed(folder, &[&["--format", "csv"], arguments].concat());
    assert_eq!(csv(&["--table", "trips=trips", "-c", COUNT]), "n\n20000\n");
    assert_eq!(csv(&["trips/*.orc", "-c", COUNT]), "n\n20000\n");
    assert_eq!(csv(&["trips", "-c", COUNT]), "n\n20000\n");
    assert_eq!(csv(&["-c", "SELECT count(*) AS n FROM 'trips/*.orc'"]), "n\n20000\n");
    let create = "CREATE EXTERNAL TABLE trips STORED AS ORC LOCATION 'trips/'";
    assert_eq!(csv(&["-c", create, "-c", COUNT]), "n\n20000\n");
    let one = format!("one={}", first_file(folder).display());
    assert_eq!(csv(&["-t", &one, "-c", "SELECT count(*) AS n FROM one"]), "n\n10240\n");
}

#[test]
fn io_line_reports_needed_and_moved_bytes() {
    let folder = trips();
    let sql = "SELECT sum(total_amount) AS total FROM trips WHERE trip_distance >= 20";
    let output = grampus(folder.path(), &["--io", "--format", "csv", "trips", "-c", sql]);
    let said = text(&output.stderr);
    assert!(said.starts_with("io: needed 15"), "{said}");
    assert!(said.contains(" KiB (amplification 1."), "{said}");
    assert!(
        said.contains("0 of 3 row groups skipped") && said.contains("of 20,000 rows passed"),
        "{said}"
    );
    let plan = printed(folder.path(), &["trips", "-c", &format!("EXPLAIN ANALYZE {sql}")]);
    assert!(plan.contains("OrcScanExec") && plan.contains("moved_bytes"), "{plan}");
}

#[test]
fn tables_and_columns_are_listed() {
    let folder = trips();
    let script = folder.path().join("d.sql");
    std::fs::write(&script, "\\d\n").unwrap();
    assert_snapshot!(printed(folder.path(), &["trips", "-f", "d.sql"]), @r"
    +-------+---------+-------+--------+
    | table | columns | files |   rows |
    +-------+---------+-------+--------+
    | trips |      15 |     2 | 20,000 |
    +-------+---------+-------+--------+
    ");
    std::fs::write(&script, "\\d trips\n").unwrap();
    let columns = printed(folder.path(), &["trips", "-f", "d.sql"]);
    assert!(columns.contains("| trip_distance        | DOUBLE"), "{columns}");
    let tables = printed(folder.path(), &["--format", "csv", "trips", "-c", "SHOW TABLES"]);
    assert!(tables.contains("public,trips,BASE TABLE"), "{tables}");
}

#[test]
fn missing_wrong_and_damaged_files_have_errors_of_their_own() {
    let folder = trips();
    let folder = folder.path();
    let first = first_file(folder);
    let bytes = std::fs::read(&first).unwrap();
    std::fs::write(folder.join("text.orc"), "not ORC at all, but long enough to be read").unwrap();
    std::fs::write(folder.join("empty.orc"), "").unwrap();
    std::fs::write(folder.join("cut.orc"), &bytes[..bytes.len() / 2]).unwrap();
    let sql = |path: &str| format!("SELECT count(*) FROM '{path}'");
    let missing = failed(1, folder, &["-c", &sql("missing.orc")]);
    assert!(
        missing.starts_with("error: ") && missing.contains("missing.orc"),
        "{missing}"
    );
    for (name, what) in [
        ("text.orc", "not an ORC file"),
        ("empty.orc", "empty"),
        ("cut.orc", "not an ORC file"),
    ] {
        let error = failed(1, folder, &["-c", &sql(name)]);
        assert!(
            error.starts_with("error: ") && error.contains(name) && error.contains(what),
            "{error}"
        );
        assert!(error.lines().count() <= 2, "{error}");
    }
    let error = failed(1, folder, &["-t", "t=missing/*.orc", "-c", "SELECT 1"]);
    assert!(
        error.starts_with("error: ") && error.contains("missing/*.orc"),
        "{error}"
    );
}

#[test]
fn generated_files_overwrite_others_only_on_request() {
    let folder = trips();
    let again = ["taxi", "generate", "--rows", "1k", "--out", "trips"];
    assert_snapshot!(failed(1, folder.path(), &again), @r"
    error: trips is not empty
    hint: name another folder, or replace this one with --overwrite
    ");
    printed(folder.path(), &[&again[..], &["--overwrite", "-q"]].concat());
}

#[test]
fn conversions_keep_every_row() {
    let folder = trips();
    let folder = folder.path();
    std::fs::write(folder.join("zones.csv"), "id,name\n1,Newark\n2,\n").unwrap();
    printed(
        folder,
        &[
            "convert",
            "zones.csv",
            "--out",
            "zones.orc",
            "--compression",
            "zstd",
            "--verify",
            "-q",
        ],
    );
    assert_snapshot!(printed(folder, &["--format", "csv", "zones.orc", "-c", "SELECT * FROM zones ORDER BY id"]), @r"
    id,name
    1,Newark
    2,
    ");
    printed(
        folder,
        &[
            "convert",
            "trips",
            "--out",
            "small",
            "--columns",
            "trip_distance,extra",
            "--compression",
            "snappy",
            "--direct",
            "extra",
            "-q",
        ],
    );
    assert_eq!(
        printed(folder, &["--format", "csv", "-t", "trips=small", "-c", COUNT]),
        "n\n20000\n"
    );
    assert!(failed(1, folder, &["convert", "missing.parquet", "--out", "x"]).contains("missing.parquet"));
}

#[test]
fn demo_answers_and_removes_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command
        .args(["demo", "--rows", "20k"])
        .env("TMPDIR", folder.path())
        .env("NO_COLOR", "1")
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report = text(&output.stdout);
    for words in [
        "Trips of at least 30 miles",
        "Trips of at least 20 miles",
        "whole columns",
        "dollars per mile",
    ] {
        assert!(report.contains(words), "{report}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let output = grampus(folder.path(), &["demo", "--rows", "1k", "--keep", "kept"]);
    assert!(
        text(&output.stdout).contains("Ask on: grampus --io --table trips=kept"),
        "{output:?}"
    );
    assert_eq!(std::fs::read_dir(folder.path().join("kept")).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn interrupted_demo_removes_its_files() {
    use rustix::process::{Pid, Signal, kill_process};
    let folder = tempfile::tempdir().unwrap();
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
        command
            .args(["demo", "--rows", "500m"])
            .env("TMPDIR", folder.path())
            .stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while std::fs::read_dir(folder.path()).unwrap().count() == 0 {
            assert!(Instant::now() < deadline, "the demo did not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(300));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

#[test]
fn layouts_are_printed_for_people_and_for_programs() {
    let folder = trips();
    let file = first_file(folder.path()).display().to_string();
    let report = printed(folder.path(), &["layout", &file]);
    assert!(
        report.contains("10,240 rows") && report.contains("trip_distance"),
        "{report}"
    );
    let json = printed(folder.path(), &["layout", "--json", &file]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rows"], 10_240);
    assert_eq!(json["problems"].as_array().unwrap().len(), 0);
    let full = printed(folder.path(), &["layout", "--full", &file]);
    assert!(full.lines().count() > report.lines().count());
    assert_snapshot!(failed(1, folder.path(), &["layout", "trips"]), @r"
    error: trips is a folder
    hint: name a file in it
    ");
    assert_snapshot!(
        failed(1, folder.path(), &["layout", "none.orc"]),
        @"error: cannot open none.orc: no such file or directory"
    );
}

#[test]
fn bench_sql_reports_times_answers_and_bytes() {
    let folder = trips();
    let folder = folder.path();
    std::fs::write(folder.join("count.sql"), COUNT).unwrap();
    let long = "SELECT count(*) AS n FROM trips WHERE trip_distance >= 30";
    let arguments = [
        "bench",
        "sql",
        "count.sql",
        "-c",
        long,
        "-t",
        "trips=trips",
        "--runs",
        "2",
        "--set",
        "grampus.prune=false",
        "--json",
        "times.json",
    ];
    let output = grampus(folder, &arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("times.json")).unwrap()).unwrap();
    let statements = json["statements"].as_array().unwrap();
    assert_eq!(
        (statements[0]["name"].as_str(), statements[1]["name"].as_str()),
        (Some("count"), Some("c1"))
    );
    assert_eq!(statements[0]["rows"][0]["n"], 20_000);
    assert_eq!(statements[1]["rows"][0]["n"], statements[1]["rows_passed"]);
    assert_eq!(statements[1]["runs_ms"].as_array().unwrap().len(), 2);
    assert_eq!(statements[1]["needed_bytes"], 20_000 * 8);
    let error = failed(2, folder, &["bench", "sql", "-t", "trips=trips"]);
    assert!(error.contains("no statement"), "{error}");
}

#[test]
fn bench_sql_shows_rows_as_the_answer_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "SELECT * FROM (VALUES (3, 'c'), (1, NULL), (2, '\\')) AS t(z, a) JOIN (VALUES (3, 0.1e0 + 0.2e0), \
               (1, 1e0 / 3e0), (2, -1.7976931348623157e308)) AS u(z, x) ON t.z = u.z ORDER BY t.z";
    let output = grampus(
        folder.path(),
        &["bench", "sql", "-c", sql, "--runs", "1", "--json", "-"],
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let statement = &json["statements"][0];
    assert_eq!(statement["columns"], serde_json::json!(["z", "a", "z_1", "x"]));
    assert_eq!(statement["rows"].as_array().unwrap().len(), 3);
    assert_eq!(statement["rows"][1]["a"], "\\");
    let rows = [
        r#"{"z":1,"a":null,"z_1":1,"x":0.3333333333333333}"#,
        r#"{"z":2,"a":"\\","z_1":2,"x":-1.7976931348623157e308}"#,
        r#"{"z":3,"a":"c","z_1":3,"x":0.30000000000000004}"#,
    ];
    let places: Vec<_> = rows
        .map(|row| text.find(row).unwrap_or_else(|| panic!("{row}: {text}")))
        .into();
    assert!(places.is_sorted(), "{text}");
    let none = ["bench", "sql", "-c", "SELECT 1 AS a WHERE false", "--json", "-"];
    let none = grampus(folder.path(), &none);
    let json: serde_json::Value = serde_json::from_slice(&none.stdout).unwrap();
    assert_eq!(json["statements"][0]["rows"], serde_json::json!([]));
    assert_eq!(json["statements"][0]["columns"], serde_json::json!(["a"]));
}
