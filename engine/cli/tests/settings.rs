//! Settings: `SET`, `SHOW` and `--set`, their errors, and the tables opened under them.

use std::process::Stdio;

use insta::assert_snapshot;

/// Exit status, standard output and standard error of a run.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command.args(arguments).stdin(Stdio::null()).env("NO_COLOR", "1");
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Standard output of a run that must succeed and print nothing on standard error.
fn printed(arguments: &[&str]) -> String {
    let (status, output, errors) = run(arguments);
    assert_eq!((errors, status), (String::new(), Some(0)));
    output
}

/// Standard error of a run that must fail with `status`.
fn failed(status: i32, arguments: &[&str]) -> String {
    let (found, output, errors) = run(arguments);
    assert_eq!((output, found), (String::new(), Some(status)), "{errors}");
    errors
}

#[test]
fn settings_are_checked() {
    assert_snapshot!(
        failed(1, &["-c", "SET grampus.local_io = 'tape'"]),
        @"error: grampus.local_io is 'mmap' or 'read', not 'tape'"
    );
    assert_snapshot!(
        failed(1, &["-c", "SET datafusion.execution.batch_size = 'many'"]),
        @"error: error setting config datafusion.execution.batch_size: invalid digit found in string"
    );
    assert_snapshot!(failed(1, &["-c", "SET no.such = 1"]), @r"
    error: no setting named no.such
    hint: SHOW ALL lists the settings
    ");
    assert_snapshot!(failed(1, &["-c", "SET datafusion.execution.bach_size = 1"]), @r"
    error: no setting named datafusion.execution.bach_size
    hint: did you mean datafusion.execution.batch_size? SHOW ALL lists the settings
    ");
    assert_snapshot!(failed(1, &["-c", "SHOW grampus.devise"]), @r"
    error: no setting named grampus.devise
    hint: did you mean grampus.device? SHOW ALL lists the settings
    ");
}

#[test]
fn settings_are_set_on_the_command_line() {
    let set = [
        "--set",
        "grampus.device=cpu",
        "--set",
        "datafusion.execution.batch_size = 7",
    ];
    let show = [
        "--format",
        "csv",
        "-c",
        "SHOW grampus.device",
        "-c",
        "SHOW datafusion.execution.batch_size",
    ];
    assert_eq!(
        printed(&[&set[..], &show[..]].concat()),
        "name,value\ngrampus.device,cpu\nname,value\ndatafusion.execution.batch_size,7\n"
    );
    let memory = ["--set", "datafusion.runtime.memory_limit=1G", "-c", "SELECT 1"];
    assert!(printed(&memory).contains('1'));
    assert_snapshot!(failed(2, &["--set", "grampus.devise=gpu", "-c", "SELECT 1"]), @r"
    error: no setting named grampus.devise
    hint: did you mean grampus.device? SHOW ALL lists the settings
    ");
    assert_snapshot!(
        failed(2, &["--set", "grampus.device=abacus", "-c", "SELECT 1"]),
        @"error: grampus.device is one of auto, gpu, prefer, cpu, not 'abacus'"
    );
    // The subcommands take the same option.
    assert!(failed(2, &["demo", "--set", "grampus.devise=gpu", "--rows", "1k"]).contains("no setting named"));
    assert!(failed(2, &["bench", "sql", "-c", "SELECT 1", "--set", "device"]).contains("expected KEY=VALUE"));
}

#[test]
fn first_statements_of_the_interactive_shell_do_not_run_for_commands() {
    let folder = tempfile::tempdir().unwrap();
    let rc = folder.path().join("rc");
    std::fs::write(&rc, "SELECT 'from the file';").unwrap();
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    let command = command.args(["-q", "--format", "csv", "-c", "SELECT 1 AS a"]);
    let output = command.env("GRAMPUS_RC", &rc).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "a\n1\n");
}

#[test]
fn settings_of_the_command_line_hold_when_tables_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("times.orc");
    let copy = format!("COPY (SELECT TIMESTAMP '2020-01-01' AS at) TO '{}'", file.display());
    printed(&["-q", "--format", "csv", "-o", "/dev/null", "-c", &copy]);
    let table = file.to_str().unwrap();
    let set = ["--set", "grampus.timestamp_unit=us", "--format", "csv", table, "-c"];
    let typed = printed(&[&set[..], &["SELECT arrow_typeof(at) AS t FROM times"]].concat());
    assert!(typed.contains("µs") || typed.contains("Microsecond"), "{typed}");
}
