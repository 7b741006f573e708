//! The program `grampus` writes ORC and reads other formats; a write that is interrupted or killed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn grampus(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
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

/// Whether a hidden folder has files before they are published.
fn is_writing(folder: &Path) -> bool {
    let staging = names(folder).into_iter().find(|name| name.starts_with(".grampus-"));
    staging.is_some_and(|staging| names(&folder.join(staging)).len() > 1)
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
    while !is_writing(folder) {
        assert!(child.try_wait().unwrap().is_none(), "the program ended");
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was written");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
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
        assert!(!folder.path().join("out").exists(), "{signal:?}");
        if signal == Signal::INT {
            assert_eq!(names(folder.path()), Vec::<String>::new());
        }
        // The same place takes the next statement.
        let sql = "COPY (SELECT 1 AS value, 0 AS p) TO 'out/' STORED AS ORC PARTITIONED BY (p)";
        printed(folder.path(), &["-c", sql]);
        let rows = printed(folder.path(), &["--format", "csv", "-t", "t=out", "-c", "FROM t"]);
        assert_eq!(rows, "value,p\n1,0\n");
        assert_eq!(names(folder.path()), ["out"]);
    }
}

/// A name stands for what it leads to, in every format.
#[cfg(unix)]
#[test]
fn copies_keep_the_mode_of_a_file_and_the_links_to_it() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
    for format in ["orc", "csv", "json", "parquet", "arrow"] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(format!("{name}.{format}"));
        let copy = |name: &str| {
            let sql = format!("COPY (SELECT 7 AS a) TO '{name}.{format}' STORED AS {format}");
            grampus(folder.path(), &["-c", &sql]).output().unwrap()
        };
        let rows = |name: &str| {
            let sql = format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{name}.{format}'; FROM t");
            printed(folder.path(), &["-q", "--format", "csv", "-c", &sql])
        };
        fs::write(path("private"), "old").unwrap();
        fs::set_permissions(path("private"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        symlink(path("private"), path("link")).unwrap();
        symlink(format!("elsewhere/new.{format}"), path("dangling")).unwrap();
        for name in ["link", "dangling"] {
            let output = copy(name);
            assert!(output.status.success(), "{output:?}");
            assert!(
                fs::symlink_metadata(path(name)).unwrap().is_symlink(),
                "{name}.{format}"
            );
            assert_eq!(rows(name), "a\n7\n", "{format}");
        }
        let mode = fs::metadata(path("private")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{format}");
        assert_eq!(rows("private"), "a\n7\n", "{format}");
        assert_eq!(names(&folder.path().join("elsewhere")), [format!("new.{format}")]);

        let made = Command::new("mkfifo").arg(path("pipe")).status();
        assert!(made.unwrap().success());
        symlink("/dev/null", path("device")).unwrap();
        for (name, shown) in [
            ("pipe", format!("pipe.{format}")),
            ("device", format!("device.{format}")),
        ] {
            let output = copy(name);
            let error = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success(), "{name}.{format}");
            assert!(
                error.contains(&shown) && error.contains("it is no regular file"),
                "{error}"
            );
        }
        assert!(fs::symlink_metadata(path("pipe")).unwrap().file_type().is_fifo());
        assert!(fs::symlink_metadata(path("device")).unwrap().is_symlink());
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        // Neither temporary files nor a part of a name.
        let mut found = names(folder.path());
        found.sort();
        let expected = ["dangling", "device", "link", "pipe", "private"].map(|name| format!("{name}.{format}"));
        assert_eq!(
            found,
            [&expected[..2], &["elsewhere".to_owned()], &expected[2..]].concat()
        );
    }
}
