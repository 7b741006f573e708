//! The program `grampus` writes ORC and reads other formats; a write that is interrupted or killed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn grampus(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_grampus"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = grampus(folder, arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn tables_of_other_formats_are_named_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("zones.csv"), "id,zone\n1,Newark\n2,Queens\n").unwrap();
    fs::write(folder.path().join("trips.ndjson"), "{\"zone\":2,\"miles\":1.5}\n").unwrap();
    let sql = "COPY (SELECT z.zone, miles FROM trips JOIN zones z ON z.id = trips.zone) TO 'joined.orc'";
    printed(folder.path(), &["zones.csv", "-t", "trips=trips.ndjson", "-c", sql]);
    let rows = printed(folder.path(), &["--format", "csv", "joined.orc", "-c", "FROM joined"]);
    assert_eq!(rows, "zone,miles\nQueens,1.5\n");
}

/// Starts a COPY that takes minutes, into the folder `out`, and waits until it has begun to write.
fn long_copy(folder: &Path) -> Child {
    let sql = "COPY (SELECT value, value % 3 AS p FROM generate_series(1, 1000000000)) TO 'out/' STORED AS ORC \
               PARTITIONED BY (p) OPTIONS (stripe_rows 10000)";
    let mut child = grampus(folder, &["-q", "-c", sql])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !folder.join("out/p=0").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the program ended");
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was written");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

fn visible_files(folder: &Path) -> Vec<String> {
    let parts = names(&folder.join("out"));
    let files = parts.iter().flat_map(|part| names(&folder.join("out").join(part)));
    files.filter(|name| !name.starts_with('.')).collect()
}

#[cfg(unix)]
#[test]
fn interrupted_and_killed_copies_leave_no_visible_file() {
    use rustix::process::{Pid, Signal, kill_process};
    for signal in [Signal::INT, Signal::KILL] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = long_copy(folder.path());
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        assert_eq!(visible_files(folder.path()), Vec::<String>::new(), "{signal:?}");
        if signal == Signal::INT {
            let hidden: Vec<String> = names(&folder.path().join("out/p=0"));
            assert_eq!(hidden, Vec::<String>::new());
        }
        // The same place takes the next statement.
        let sql = "COPY (SELECT 1 AS value, 0 AS p) TO 'out/' STORED AS ORC PARTITIONED BY (p)";
        printed(folder.path(), &["-c", sql]);
        let rows = printed(folder.path(), &["--format", "csv", "-t", "t=out", "-c", "FROM t"]);
        assert_eq!(rows, "value,p\n1,0\n");
    }
}
