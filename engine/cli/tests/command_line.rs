//! The program `grampus` on its command line: output, errors and exit status.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;

fn grampus(arguments: &[&str]) -> Command {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command.args(arguments).stdin(Stdio::null()).env("NO_COLOR", "1");
    command
}

fn run(arguments: &[&str]) -> Output {
    grampus(arguments).output().unwrap()
}

/// Standard output of a run that must succeed and print nothing on standard error.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)));
    text(&output.stdout)
}

/// Standard error of a run that must fail with `status`.
fn failed(status: i32, arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    assert_eq!(text(&output.stdout), "");
    text(&output.stderr)
}

fn piped(arguments: &[&str], input: &str) -> Output {
    let mut child = grampus(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const ROWS: &str = "SELECT * FROM (VALUES (1, 0.5, 'a,\"b'), (2, NULL, NULL)) AS t(id, miles, note) ORDER BY id";

#[test]
fn formats_print_the_same_rows() {
    assert_snapshot!(printed(&["-c", ROWS]), @r#"
    +----+-------+------+
    | id | miles | note |
    +----+-------+------+
    |  1 |   0.5 | a,"b |
    |  2 |  NULL | NULL |
    +----+-------+------+
    "#);
    assert_snapshot!(printed(&["--format", "csv", "-c", ROWS]), @r#"
    id,miles,note
    1,0.5,"a,""b"
    2,,
    "#);
    assert_eq!(
        printed(&["--format", "tsv", "-c", "SELECT 1 AS a, 2 AS b"]),
        "a\tb\n1\t2\n"
    );
    assert_snapshot!(printed(&["--format", "ndjson", "-c", ROWS]), @r#"
    {"id":1,"miles":0.5,"note":"a,\"b"}
    {"id":2,"miles":null,"note":null}
    "#);
    let json: serde_json::Value = serde_json::from_str(&printed(&["--format", "json", "-c", ROWS])).unwrap();
    assert_eq!(json[0]["note"], "a,\"b");
    assert_eq!(json[1]["miles"], serde_json::Value::Null);
}

#[test]
fn summaries_have_their_own_headings() {
    let sql = "SUMMARIZE SELECT column1 * 2 AS \"twice é\" FROM (VALUES (1), (NULL))";
    assert_eq!(
        printed(&["--format", "csv", "-c", sql]),
        "column_name,column_type,min,max,approx_unique,avg,std,q25,q50,q75,count,null_percentage\n\
         twice é,BIGINT,2,2,1,2.0,,2.0,2.0,2.0,2,50.0\n"
    );
    // Places count from the word SUMMARIZE.
    assert_snapshot!(failed(1, &["-c", "SUMMARIZE 3 t"]), @r"
    error: SQL syntax, line 1, column 11: expected identifier, found 3
    hint: look at `SUMMARIZE ▸ 3 t`
    ");
}

#[test]
fn command_may_begin_with_a_comment() {
    let sql = "-- how many?\nSELECT 2 AS n";
    assert_eq!(printed(&["--format", "csv", "-c", sql]), "n\n2\n");
}

#[test]
fn results_without_rows_keep_their_form() {
    let none = "SELECT 1 AS a WHERE false";
    assert_eq!(printed(&["--format", "json", "-c", none]), "[]\n");
    assert_eq!(printed(&["--format", "csv", "-c", none]), "a\n");
    assert_eq!(printed(&["--format", "ndjson", "-c", none]), "");
    assert_eq!(
        printed(&["--format", "csv", "-c", "SET datafusion.execution.batch_size = 100"]),
        ""
    );
}

#[test]
fn output_can_go_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out.csv");
    assert_eq!(
        printed(&["--format", "csv", "-o", file.to_str().unwrap(), "-c", "SELECT 1 AS a"]),
        ""
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), "a\n1\n");
}

#[test]
fn tables_can_be_cut() {
    assert_snapshot!(printed(&["--max-rows", "2", "-c", "SELECT value FROM generate_series(1, 5000)"]), @r"
    +-------+
    | value |
    +-------+
    |     1 |
    |     2 |
    +-------+
    … 4,998 more rows (2 shown; --max-rows or \maxrows shows more)
    ");
}

#[test]
fn commands_and_scripts_run_in_order_in_one_session() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script.sql");
    std::fs::write(
        &script,
        "-- two statements\nINSERT INTO t VALUES (2);\nINSERT INTO t VALUES (3)",
    )
    .unwrap();
    let create = "CREATE TABLE t AS SELECT 1 AS a";
    let arguments = [
        "--format",
        "ndjson",
        "-c",
        create,
        "-f",
        script.to_str().unwrap(),
        "-c",
        "SELECT sum(a) AS s FROM t",
    ];
    assert!(printed(&arguments).ends_with("{\"s\":6}\n"));
}

#[test]
fn standard_input_is_a_script() {
    let output = piped(
        &["--format", "csv"],
        "SELECT 1 AS a;\nSELECT ';' AS b -- not the end;\n;\n\\format json\nSELECT 3 AS c",
    );
    assert_eq!(text(&output.stdout), "a\n1\nb\n;\n[{\"c\":3}]\n");
    assert_eq!(output.status.code(), Some(0));
    let output = piped(&["-q", "--format", "csv", "-f", "-"], "SELECT 1 AS a");
    assert_eq!(text(&output.stdout), "a\n1\n");
}

#[test]
fn script_stops_at_the_first_error() {
    let output = piped(&["--format", "csv"], "SELECT 1 AS a;\nSELECT b;\nSELECT 2 AS c;");
    assert_eq!(text(&output.stdout), "a\n1\n");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn errors_say_what_is_wrong_and_what_to_do() {
    let t = "CREATE TABLE trips AS SELECT 1 AS miles, 2 AS total, 'x' AS flag;";
    let with_table = |sql: &str| failed(1, &["-c", &format!("{t}{sql}")]);
    assert_snapshot!(with_table("SELECT mles FROM trips"), @r"
    error: no column named mles
    hint: did you mean miles?
    ");
    assert_snapshot!(with_table("SELECT speed FROM trips"), @r"
    error: no column named speed
    hint: there are: miles, total, flag
    ");
    assert_snapshot!(with_table("\nSELECT\n  speed FROM trips WHERE flag = \"Y\""), @r#"
    error: no column named Y (line 3, column 33)
    hint: a text is written in single quotes: 'Y'
    "#);
    assert_snapshot!(with_table("SELECT * FROM trisp"), @r"
    error: no table named trisp
    hint: did you mean trips?
    ");
    assert_snapshot!(with_table("SELECT sum(flag) FROM trips"), @r"
    error: sum does not take (Utf8)
    hint: DESCRIBE table shows the types, CAST(x AS type) changes one
    ");
    assert_snapshot!(with_table("SELECT flag + 1 FROM trips"), @r"
    error: cannot coerce arithmetic expression Utf8 + Int64 to valid types
    hint: the types do not fit; DESCRIBE table shows them, CAST(x AS type) changes one
    ");
    assert_snapshot!(with_table("SELECT CAST(flag AS INT) FROM trips"), @r"
    error: cannot cast string 'x' to value of Int32 type
    hint: TRY_CAST gives NULL where a value does not fit
    ");
    assert_snapshot!(failed(1, &["-c", "SELECT * FROM nothing"]), @r"
    error: no table named nothing
    hint: open one: --table name=PATH, or CREATE EXTERNAL TABLE name STORED AS ORC LOCATION 'PATH'
    ");
    assert_snapshot!(failed(1, &["-c", "SELECT 1 / 0"]), @r"
    error: division by zero
    hint: divide by nullif(x, 0) to get NULL instead
    ");
    assert_snapshot!(failed(1, &["-c", "SELECT sqroot(2)"]), @r"
    error: no function named sqroot
    hint: did you mean sqrt?
    ");
}

#[test]
fn errors_name_no_inner_part_of_a_plan() {
    let t = "CREATE TABLE t AS SELECT 1 AS a, 'x' AS s;";
    let wrong = |sql: &str| failed(1, &["-c", &format!("{t}{sql}")]);
    for (sql, message) in [
        (
            "SELECT sum(a), s FROM t",
            "column t.s is neither in GROUP BY nor in an aggregate function",
        ),
        (
            "SELECT count(*), count(*) FROM t",
            "two columns would be called count(*)",
        ),
        ("SELECT 1 AS x, 2 AS x", "two columns would be called x"),
        ("SELECT * FROM t JOIN t ON a = a", "two tables have a column t.a"),
        (
            "SELECT a FROM t WHERE s",
            "a condition is true or false, and t.s is Utf8",
        ),
        ("SELECT s ~ '(' FROM t", "wrong regular expression: unclosed group"),
        (
            "SELECT struct(a).b FROM t",
            "not supported: a field of an expression after a dot",
        ),
        ("SELECT max(*) FROM t", "* is no argument of this function"),
        ("SELECT row_number() FROM t", "no function named row_number"),
        ("SELECT 5 # 3", "sharp is no operator here"),
        (
            "SET grampus.device = 'abacus'",
            "grampus.device is one of auto, gpu, prefer, cpu, not 'abacus'",
        ),
        (
            "SET datafusion.execution.batch_size = 0",
            "datafusion.execution.batch_size: value must be greater than 0",
        ),
    ] {
        let error = wrong(sql);
        assert!(error.contains(message), "{sql}: {error}");
        for inner in ["{ ", "Some(", "Span(", "Ident", "error: error:", "Expr", "Cast error"] {
            assert!(!error.contains(inner), "{sql}: {error}");
        }
    }
}

#[test]
fn value_that_cannot_be_printed_ends_separated_output() {
    let error = failed(1, &["--format", "csv", "-c", "SELECT from_unixtime(99999999999999)"]);
    assert!(
        error.starts_with("error: cannot print the result: column from_unixtime"),
        "{error}"
    );
}

#[test]
fn syntax_errors_name_the_place() {
    assert_snapshot!(failed(1, &["-c", "SELEC 1"]), @r"
    error: SQL syntax, line 1, column 1: expected an SQL statement, found SELEC
    hint: did you mean SELECT? Look at `▸ SELEC 1`
    ");
    assert_snapshot!(
        failed(1, &["-c", "SET datafusion.execution.batch_size = 10;\n  SELECT (1;"]),
        @"error: SQL syntax: expected ), but the statement ends there"
    );
    assert_snapshot!(failed(1, &["-c", "SELECT 'open"]), @r"
    error: SQL syntax, line 1, column 8: unterminated string literal
    hint: look at `SELECT ▸ 'open`
    ");
}

#[test]
fn memory_limit_error_says_how_to_allow_more() {
    let sql = "SELECT value % 2, array_agg(value) FROM generate_series(1, 300000) GROUP BY 1";
    let error = failed(1, &["-m", "200k", "-c", sql]);
    assert!(
        error.starts_with("error: the query needs more than the memory limit of 200.0 KiB (-m, "),
        "{error}"
    );
    assert!(error.contains("): it holds "), "{error}");
    assert!(
        error.ends_with("hint: allow more with -m (as in -m 4g), or use fewer threads with -p\n"),
        "{error}"
    );
    let set = "SET datafusion.runtime.memory_limit = '200K'";
    let error = failed(1, &["-c", set, "-c", sql]);
    assert!(
        error.starts_with("error: the query needs more than the memory limit (datafusion.runtime.memory_limit): "),
        "{error}"
    );
    // Neither names an operator.
    assert!(!error.contains("Grouped") && !error.contains("Stream"), "{error}");
}

#[test]
fn memory_is_limited_by_default_and_unlimited_if_asked() {
    let sql = "SELECT value FROM generate_series(1, 3) ORDER BY 1";
    for limit in ["none", "0", "64m"] {
        assert!(printed(&["-m", limit, "-c", sql]).contains('3'));
    }
    assert!(failed(2, &["-m", "lots"]).contains("or none for no limit"));
}

#[test]
fn wrong_command_line_exits_with_2() {
    assert!(
        failed(2, &["--format", "xml"])
            .contains("table, box, markdown, line, vertical, csv, tsv, json, ndjson, insert")
    );
    assert!(failed(2, &["-m", "lots"]).contains("a size such as 512m, 4g or 1.5GiB"));
    assert!(failed(2, &["-m", "10", "-c", "SELECT 1"]).contains("10 bytes are too few for any query: write a unit"));
    assert_snapshot!(failed(2, &["dmeo"]), @r"
    error: no such file or command: dmeo
    hint: did you mean grampus demo?
    ");
    assert_snapshot!(failed(2, &["missing.orc"]), @"error: no such file: missing.orc");
    assert_snapshot!(failed(2, &["--table", "t="]), @r"
    error: --table t= names no table or no path
    hint: write --table name=PATH
    ");
}

#[test]
fn missing_script_is_an_error() {
    assert_snapshot!(failed(1, &["-f", "missing.sql"]), @"error: cannot open missing.sql: no such file or directory");
}

#[test]
fn closed_pipe_is_no_error_and_exits_with_141() {
    let mut child = grampus(&["--format", "csv", "-c", "SELECT * FROM generate_series(1, 100000000)"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(141)));
}

#[test]
fn timing_and_io_go_to_standard_error() {
    let output = run(&["--timing", "--io", "--format", "csv", "-c", "SELECT 1 AS a"]);
    assert_eq!(text(&output.stdout), "a\n1\n");
    let said = text(&output.stderr);
    assert!(said.starts_with("1 row in "), "{said}");
    assert!(said.contains("io: "), "{said}");
}

#[test]
fn plans_are_printed_unchanged() {
    let plan = printed(&[
        "-p",
        "1",
        "-c",
        "EXPLAIN SELECT value FROM generate_series(1, 9) WHERE value > 3",
    ]);
    assert!(plan.starts_with("logical plan\n  Filter: "), "{plan}");
    assert!(plan.contains("\nphysical plan\n  FilterExec: "), "{plan}");
    let plan = printed(&["-c", "EXPLAIN ANALYZE SELECT 1"]);
    assert!(plan.contains("output_rows=1"), "{plan}");
}

#[test]
fn help_and_completions_are_printed() {
    assert!(printed(&["--help"]).contains("Examples:"));
    assert!(printed(&["completions", "bash"]).contains("_grampus"));
}

#[cfg(unix)]
#[test]
fn interrupted_query_exits_with_130() {
    use rustix::process::{Pid, Signal, kill_process};
    let sql = "SELECT count(*) FROM generate_series(1, 100000) a CROSS JOIN generate_series(1, 1000000) b";
    let mut child = grampus(&["-c", "SELECT 1 AS begun", "-c", sql, "--format", "csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first result appears after the signal handlers are installed.
    let mut begun = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut begun).unwrap();
    assert_eq!(text(&begun), "begun\n1\n");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (text(&output.stderr), output.status.code()),
        ("cancelled\n".to_owned(), Some(130))
    );
}

/// Whether there may be a GPU. If so, these commands measure.
fn may_have_a_gpu() -> bool {
    grampus_cuda::library().is_ok()
}

#[test]
fn device_report_names_missing_software_and_its_installation() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = grampus(arguments)
            .env("XDG_CACHE_HOME", folder.path())
            .output()
            .unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (status, shown, _) = run(&["device"]);
    assert_eq!(status, Some(0));
    assert!(shown.contains("NVIDIA driver") && shown.contains("NVRTC"), "{shown}");
    let (status, shown, _) = run(&["device", "--json"]);
    assert_eq!(status, Some(0));
    let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(json["calibrated"], false);
    assert!(json["machine"]["devices"].is_array() && json["rates"]["push_bytes"].is_number());
    if may_have_a_gpu() {
        return println!("ignored: there may be a GPU");
    }
    assert_eq!(json["usable"], false);
    let missing = json["machine"]["missing"][0].as_str().unwrap();
    assert!(missing.contains("install NVIDIA's driver"), "{missing}");
    let (status, shown, said) = run(&["device", "--calibrate"]);
    assert_eq!((status, shown.as_str()), (Some(1), ""));
    assert!(
        said.contains("there is nothing to calibrate: no NVIDIA driver"),
        "{said}"
    );
}

#[test]
fn device_is_chosen_on_the_command_line() {
    let shown = printed(&["--device", "cpu", "--format", "csv", "-c", "SHOW grampus.device"]);
    assert_eq!(shown, "name,value\ngrampus.device,cpu\n");
    let said = failed(2, &["--device", "abacus", "-c", "SELECT 1"]);
    assert!(said.contains("expected auto, gpu, prefer or cpu"), "{said}");
}

#[test]
fn bench_io_without_a_gpu_is_an_error() {
    let said = failed(2, &["bench", "io", "--sections", "hits,misses"]);
    assert!(
        said.contains("no section named misses") && said.contains("mapped"),
        "{said}"
    );
    if may_have_a_gpu() {
        return println!("ignored: there may be a GPU");
    }
    let said = failed(1, &["bench", "io", "--small"]);
    assert!(said.contains("no NVIDIA driver") && said.lines().count() <= 2, "{said}");
}
