//! Temporary files of the program `grampus`: none stays after any end but SIGKILL, and the next start removes those.
#![cfg(unix)]

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A sort that does not fit into 60 MB, for several seconds.
const SPILLING: &str = "SELECT value, repeat('x', 100) || value AS pad FROM generate_series(1, 20000000) ORDER BY pad";

fn command(temporary: &Path, arguments: &[&str]) -> Command {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command.args(arguments).stdin(Stdio::null()).env("TMPDIR", temporary);
    command
        .env("NO_COLOR", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Its answer of 2 GB is not kept.
fn spilling(temporary: &Path) -> Command {
    let arguments = ["-q", "-m", "60m", "-p", "2", "--format", "csv", "-c", SPILLING];
    let mut command = command(temporary, &arguments);
    command.stdout(Stdio::null());
    command
}

/// Whether this process, and so its children, ignore the end of the terminal, as `nohup` arranges.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 != 0)
}

/// Bytes of all files below a folder.
fn bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.len()),
    });
    sizes.sum()
}

/// Waits until the child has written temporary files.
fn wait_for_spilling(temporary: &Path) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while bytes(temporary) < 1 << 20 {
        assert!(Instant::now() < deadline, "the query does not spill");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn end(child: Child, signal: Signal) -> Output {
    kill_process(Pid::from_child(&child), signal).unwrap();
    child.wait_with_output().unwrap()
}

fn left(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().path().display().to_string())
        .collect()
}

#[test]
fn spilled_files_vanish_with_each_signal_and_its_exit_status() {
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        if signal == Signal::HUP && ignores_hangups() {
            continue;
        }
        let temporary = tempfile::tempdir().unwrap();
        let child = spilling(temporary.path()).spawn().unwrap();
        wait_for_spilling(temporary.path());
        let output = end(child, signal);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(left(temporary.path()), [""; 0], "{signal:?}");
    }
}

#[test]
fn spilled_files_of_a_failed_query_vanish() {
    let temporary = tempfile::tempdir().unwrap();
    let limit = "SET datafusion.runtime.max_temp_directory_size = '3M'";
    let arguments = ["-q", "-m", "60m", "-p", "2", "-c", limit, "-c", SPILLING];
    let output = command(temporary.path(), &arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(left(temporary.path()), [""; 0]);
}

#[test]
fn spilled_files_vanish_when_the_output_is_closed() {
    let temporary = tempfile::tempdir().unwrap();
    let sql = "SELECT value, repeat('x', 100) || value AS pad FROM generate_series(1, 1000000) ORDER BY pad";
    let arguments = ["-q", "-m", "60m", "-p", "2", "--format", "csv", "-c", sql];
    let mut child = command(temporary.path(), &arguments).spawn().unwrap();
    let mut first = [0; 64];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.stderr.as_slice(), output.status.code()), (&b""[..], Some(141)));
    assert_eq!(left(temporary.path()), [""; 0]);
}

#[test]
fn next_start_removes_the_files_of_a_killed_query_and_no_other() {
    let temporary = tempfile::tempdir().unwrap();
    let child = spilling(temporary.path()).spawn().unwrap();
    wait_for_spilling(temporary.path());
    end(child, Signal::KILL);
    assert_eq!(left(temporary.path()).len(), 1);
    std::fs::create_dir(temporary.path().join("grampus-notes")).unwrap();
    std::fs::write(temporary.path().join("grampus-notes/mine"), "x").unwrap();
    let running = spilling(temporary.path()).spawn().unwrap();
    wait_for_spilling(temporary.path());
    assert_eq!(left(temporary.path()).len(), 2, "the killed query's folder is gone");
    let output = command(temporary.path(), &["-c", "SELECT 1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(left(temporary.path()).len(), 2, "a running query keeps its folder");
    end(running, Signal::TERM);
    assert!(temporary.path().join("grampus-notes/mine").exists());
    assert_eq!(left(temporary.path()).len(), 1);
}

#[test]
fn second_interrupt_ends_at_once() {
    let temporary = tempfile::tempdir().unwrap();
    // The program waits for a script that does not come, and no query listens.
    let mut child = command(temporary.path(), &["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    while left(temporary.path()).is_empty() && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(200));
    let open = child.stdin.take();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = end(child, Signal::INT);
    drop(open);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert_eq!(left(temporary.path()), [""; 0]);
}

/// Whether a new file is being written beside the table's folder.
fn is_staging(folder: &Path) -> bool {
    let staged = left(folder).into_iter().filter(|path| path.contains("/.grampus-"));
    let mut files = staged.filter_map(|path| std::fs::read_dir(Path::new(&path).join("new")).ok());
    files.any(|mut entries| entries.next().is_some())
}

#[test]
fn overwriting_that_is_interrupted_or_killed_leaves_the_old_files() {
    let (temporary, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let table = format!("t={}/t", folder.path().display());
    let copy = format!("COPY (SELECT 1 AS a) TO '{}/t/old.orc'", folder.path().display());
    let made = command(temporary.path(), &["-c", &copy]).output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let endless = "INSERT OVERWRITE t SELECT value AS a FROM generate_series(1, 10000000000)";
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut child = command(temporary.path(), &["-q", "-t", &table, "-c", endless])
            .spawn()
            .unwrap();
        while !is_staging(folder.path()) {
            assert!(child.try_wait().unwrap().is_none(), "the statement ended");
            std::thread::sleep(Duration::from_millis(5));
        }
        end(child, signal);
        assert_eq!(left(&folder.path().join("t")).len(), 1);
        assert!(folder.path().join("t/old.orc").exists(), "{signal:?}");
        // A killed process leaves its hidden folder to the next one.
        let expected = if signal == Signal::KILL { 2 } else { 1 };
        assert_eq!(left(folder.path()).len(), expected, "{signal:?}");
    }
    let whole = "INSERT OVERWRITE t SELECT a + 1 FROM t";
    let arguments = [
        "-q",
        "--format",
        "csv",
        "-t",
        &table,
        "-c",
        whole,
        "-c",
        "SELECT a FROM t",
    ];
    let output = command(temporary.path(), &arguments).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "count\n1\na\n2\n");
    assert_eq!(left(folder.path()).len(), 1);
}
