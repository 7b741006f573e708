//! The program `grampus` on Parquet, compressed text and URLs: read, written, damaged, refused.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    let command_line = command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command_line.env("NO_COLOR", "1");
    command
}

fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = command(folder, arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn failed(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn failure(folder: &Path, arguments: &[&str]) -> String {
    failed(&command(folder, arguments).output().unwrap())
}

const ROWS: &str = "SELECT value AS id, value * 0.5 AS half, 'n' || value AS name FROM generate_series(1, 20000)";

#[test]
fn parquet_and_orc_are_written_read_and_joined() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for copy in [
        format!("COPY ({ROWS}) TO 'a.parquet'"),
        format!("COPY ({ROWS}) TO 'parts/' STORED AS PARQUET OPTIONS (compression 'zstd(3)')"),
        "COPY (FROM 'a.parquet') TO 'a.orc'".to_owned(),
    ] {
        printed(folder, &["-c", &copy]);
    }
    let sql = "SELECT count(*), sum(a.half), max(o.name) FROM 'a.parquet' a JOIN a o USING (id)";
    let rows = printed(folder, &["--no-timing", "--format", "csv", "a.orc", "-c", sql]);
    assert_eq!(rows.lines().nth(1), Some("20000,100005000.0,n9999"));
    let sql = "SELECT count(*), sum(id) FROM parts";
    let rows = printed(folder, &["--format", "csv", "-t", "parts=parts/*.parquet", "-c", sql]);
    assert_eq!(rows.lines().nth(1), Some("20000,200010000"));
}

#[test]
fn damaged_parquet_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    printed(folder, &["-c", &format!("COPY ({ROWS}) TO 'a.parquet'")]);
    let whole = fs::read(folder.join("a.parquet")).unwrap();
    fs::write(folder.join("truncated.parquet"), &whole[..whole.len() / 2]).unwrap();
    fs::write(folder.join("empty.parquet"), "").unwrap();
    fs::write(folder.join("text.parquet"), "this is no Parquet file").unwrap();
    let mut damaged = whole;
    for byte in &mut damaged[64..4096] {
        *byte = 0xa5;
    }
    fs::write(folder.join("damaged.parquet"), damaged).unwrap();
    for name in ["truncated.parquet", "empty.parquet", "text.parquet", "damaged.parquet"] {
        let error = failure(
            folder,
            &["-c", &format!("SELECT sum(id), sum(half), max(name) FROM '{name}'")],
        );
        assert!(error.contains(name) && error.lines().count() <= 2, "{name}: {error}");
        assert!(!error.contains("bug") && !error.contains("{ "), "{name}: {error}");
    }
}

#[test]
fn failed_copies_leave_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Large enough for uploads in parts: the rows before the error fill several.
    let rows = "SELECT value, repeat('x', 100) AS text, 10 / (290000 - value) AS a FROM generate_series(1, 300000)";
    for name in ["a.csv", "a.json", "a.parquet", "a.arrow", "a.orc"] {
        let error = failure(folder, &["-c", &format!("COPY ({rows}) TO '{name}'")]);
        assert!(error.contains("division by zero"), "{name}: {error}");
    }
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
}

#[test]
fn compressed_text_is_opened_as_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let copy = "COPY (SELECT 7 AS a) TO 'x.csv.gz' STORED AS CSV OPTIONS (compression gzip, has_header true)";
    printed(folder, &["-c", copy]);
    assert_eq!(&fs::read(folder.join("x.csv.gz")).unwrap()[..2], [0x1f, 0x8b]);
    assert_eq!(
        printed(folder, &["--format", "csv", "x.csv.gz", "-c", "FROM x"]),
        "a\n7\n"
    );
}

#[test]
fn variables_that_are_not_utf8_end_no_query() {
    let folder = tempfile::tempdir().unwrap();
    let mut query = command(folder.path(), &["-c", "SELECT * FROM 's3://bucket/a.orc'"]);
    let other = OsStr::from_bytes(b"\xff\xfe");
    query.env(other, other).env("OTHER", other).env("AWS_PROFILE", other);
    query.env("AWS_ENDPOINT", "http://127.0.0.1:9");
    let error = failed(&query.output().unwrap());
    assert!(
        error.contains("s3://bucket: the endpoint http://127.0.0.1:9 has no TLS"),
        "{error}"
    );
    assert!(error.contains("hint: set AWS_ALLOW_HTTP=true"), "{error}");
}

#[test]
fn urls_that_cannot_be_read_say_why() {
    let folder = tempfile::tempdir().unwrap();
    for (location, expected) in [
        (
            "hdfs://host/a.orc",
            "error: hdfs://host: the scheme hdfs is not known\nhint: known are local files and s3, s3a, gs,",
        ),
        (
            "ftp://user:S3CRET@host/a.csv",
            "error: ftp://user:***@host: the scheme ftp is not known\n",
        ),
        ("http://user:S3/CRET@host/a.csv", "error: http://user:***@host/a.csv: "),
        (
            "https://s3.eu-west-1.amazonaws.com/b/a.parquet",
            "hint: write s3://BUCKET/PATH and set AWS_REGION=eu-west-1\n",
        ),
    ] {
        for arguments in [
            ["-c", &format!("SELECT * FROM '{location}'")],
            ["-t", &format!("t={location}")],
            ["-vv", location],
        ] {
            let error = failure(folder.path(), &arguments);
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("CRET"), "{error}");
        }
    }
}

/// `dates.orc`: the last of three dates lies beyond every calendar of texts.
const FAR_DATES: &str = "SELECT i, arrow_cast(arrow_cast(CASE i WHEN 2 THEN 2147483647 ELSE i END, 'Int32'), \
                         'Date32') AS far FROM generate_series(0, 2) AS g(i)";

#[test]
fn values_without_a_text_end_a_result_in_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    printed(folder, &["-q", "-c", &format!("COPY ({FAR_DATES}) TO 'dates.orc'")]);
    for format in ["table", "csv", "tsv", "json", "ndjson"] {
        for column in ["far", "make_array(far) AS far", "named_struct('d', far) AS far"] {
            let query = format!("SELECT i, {column} FROM 'dates.orc'");
            let output = command(folder, &["-q", "--format", format, "-c", &query])
                .output()
                .unwrap();
            let error = failed(&output);
            assert!(
                error.contains("column far") && error.contains("BIGINT"),
                "{format}: {error}"
            );
            assert!(!String::from_utf8(output.stdout).unwrap().contains("ERROR"), "{format}");
        }
        // The numbers are there, and so are the other rows.
        let rows = printed(
            folder,
            &[
                "-q",
                "--format",
                format,
                "-c",
                "SELECT CAST(far AS BIGINT) AS d FROM 'dates.orc'",
            ],
        );
        assert!(rows.contains("2147483647"), "{rows}");
        let rows = printed(
            folder,
            &["-q", "--format", format, "-c", "SELECT * FROM 'dates.orc' WHERE i < 2"],
        );
        assert!(rows.contains("1970-01-02"), "{rows}");
    }
    for (file, stored) in [
        ("x.csv", ""),
        ("x.json", ""),
        ("x.ndjson", "STORED AS JSON"),
        ("x.txt", "STORED AS CSV"),
        ("x/", "STORED AS JSON"),
    ] {
        let error = failure(
            folder,
            &["-q", "-c", &format!("COPY (FROM 'dates.orc') TO '{file}' {stored}")],
        );
        assert!(
            error.contains("column far") && error.contains("BIGINT"),
            "{file}: {error}"
        );
    }
    printed(folder, &["-q", "-c", "COPY (FROM 'dates.orc') TO 'again.parquet'"]);
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["again.parquet", "dates.orc"]);
}

#[test]
fn nulls_of_every_kind_are_fields_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "SELECT NULL AS n, '' AS e, CAST(NULL AS VARCHAR) AS v, arrow_cast(NULL, 'Dictionary(Int8, Utf8)') AS d, \
               make_array(NULL, 1) AS l, make_array(NULL) AS m, CAST(NULL AS DATE) AS t";
    let csv = printed(folder.path(), &["-q", "--format", "csv", "-c", sql]);
    assert_eq!(csv, "n,e,v,d,l,m,t\n,\"\",,,\"[NULL, 1]\",[NULL],\n");
    let tsv = printed(
        folder.path(),
        &["-q", "--format", "tsv", "-c", "SELECT NULL AS n, '' AS e"],
    );
    assert_eq!(tsv, "n\te\n\t\"\"\n");
    let table = printed(
        folder.path(),
        &["-q", "--format", "table", "-c", "SELECT NULL AS n, '' AS e"],
    );
    assert!(table.contains("NULL"), "{table}");
}

/// The system refuses the last bytes, as on a full disk.
#[test]
fn files_that_cannot_be_finished_are_no_bug_and_leave_nothing() {
    for (file, stored) in [
        ("x.csv", "CSV"),
        ("x.json", "JSON"),
        ("x.parquet", "PARQUET"),
        ("x.arrow", "ARROW"),
        ("x.orc", "ORC"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        for place in [file, "parts/"] {
            let sql = format!(
                "COPY (SELECT value, random() AS r FROM generate_series(1, 400000)) TO '{place}' STORED AS {stored}"
            );
            let mut few = grampus_test_support::program("sh");
            few.args([
                "-c",
                "ulimit -f 64 && exec \"$0\" \"$@\"",
                env!("CARGO_BIN_EXE_grampus"),
                "-q",
                "-c",
                &sql,
            ]);
            let output = few
                .env("NO_COLOR", "1")
                .current_dir(folder.path())
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let error = failed(&output);
            assert!(
                error.contains(place) && error.to_lowercase().contains("file too large"),
                "{error}"
            );
            for words in ["bug", "grampus-", "Partial", "#1", "should be removed"] {
                assert!(!error.contains(words), "{error}");
            }
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{stored}");
        }
    }
}

/// Taxi files have `VendorID` as BIGINT up to 2022, and as INT from 2023 on.
#[test]
fn parquet_files_with_other_types_have_common_ones() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("d")).unwrap();
    let series = "FROM generate_series(1, 3000) t(v)";
    for copy in [
        format!(
            "COPY (SELECT v AS \"VendorID\", CAST(v AS INT) AS n, v / 2 AS only1, CAST(v AS FLOAT) AS f {series})
             TO 'd/1.parquet'"
        ),
        format!(
            "COPY (SELECT CAST(v + 3000 AS INT) AS \"VendorID\", v + 3000 AS n, v + 0.25 AS f {series})
             TO 'd/2.parquet'"
        ),
    ] {
        printed(folder, &["-c", &copy]);
    }
    for (sql, expected) in [
        (
            "SELECT count(*), min(VendorID), max(VendorID), sum(n), count(only1), sum(f) FROM t",
            "6000,1,6000,18003000,3000,9003750.0",
        ),
        ("SELECT count(*) FROM t WHERE VendorID > 2990 AND n <= 3010", "20"),
        ("SELECT count(*) FROM t WHERE VendorID = 4000 OR n = 5", "2"),
        ("SELECT sum(VendorID) FROM t WHERE n IN (1, 3001, 9000000000)", "3002"),
        (
            "SELECT count(*) FROM t a JOIN t b ON a.VendorID = b.n WHERE a.VendorID % 1000 = 0",
            "6",
        ),
        (
            "SELECT arrow_typeof(VendorID), arrow_typeof(n), arrow_typeof(f) FROM t LIMIT 1",
            "Int64,Int64,Float64",
        ),
        ("SELECT VendorID FROM t ORDER BY VendorID DESC LIMIT 1", "6000"),
    ] {
        let sql = sql
            .replace("FROM t", "FROM 'd/*.parquet' AS t")
            .replace("JOIN t", "JOIN 'd/*.parquet' AS t");
        let sql = sql.replace("AS t a", "AS a").replace("AS t b", "AS b");
        let rows = printed(folder, &["--format", "csv", "-c", &sql]);
        assert_eq!(rows.lines().nth(1), Some(expected), "{sql}");
    }
    printed(
        folder,
        &[
            "-c",
            &format!("COPY (SELECT 'x' AS \"VendorID\", 1 AS n {series}) TO 'd/3.parquet'"),
        ],
    );
    let error = failure(folder, &["-c", "SELECT count(*) FROM 'd/*.parquet'"]);
    assert!(error.contains("d/3.parquet: column VendorID is "), "{error}");
    assert!(
        error.contains("d/1.parquet: ") && error.contains("CREATE EXTERNAL TABLE"),
        "{error}"
    );
}

#[test]
fn repeated_names_of_csv_files_are_numbered() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("twice.csv"), "a,a,b,a_1,b\n1,x,2.5,4,07\n2,y,3.5,5,08\n").unwrap();
    let rows = printed(folder, &["--format", "csv", "-c", "SELECT * FROM 'twice.csv'"]);
    assert_eq!(rows, "a,a_2,b,a_1,b_1\n1,x,2.5,4,07\n2,y,3.5,5,08\n");
    let rows = printed(
        folder,
        &[
            "--format",
            "csv",
            "-c",
            "SELECT sum(a), max(a_2), min(b_1) FROM 'twice.csv' WHERE b > 3",
        ],
    );
    assert_eq!(rows.lines().nth(1), Some("2,y,08"));
}

#[test]
fn late_text_of_csv_files_ends_in_advice() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let numbers = (0..1500).map(|row| format!("{row}\n")).collect::<String>();
    fs::write(folder.join("late.csv"), format!("n\n{numbers}late\n")).unwrap();
    let error = failure(folder, &["-c", "SELECT count(n) FROM 'late.csv'"]);
    assert!(
        error.contains("late.csv: ") && error.contains("CREATE EXTERNAL TABLE"),
        "{error}"
    );
    let declared = "CREATE EXTERNAL TABLE t (n VARCHAR) STORED AS CSV LOCATION 'late.csv'; SELECT max(n) FROM t";
    let rows = printed(folder, &["--format", "csv", "-c", declared]);
    assert!(rows.ends_with("late\n"), "{rows}");
}

#[test]
fn csv_files_of_one_table_have_the_same_columns() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, text) in [
        ("1.csv", "a,b\n1,2\n"),
        ("2.csv", "a,b\n3,4\n"),
        ("swapped.csv", "b,a\n5,6\n"),
        ("more.csv", "a,b,c\n7,8,9\n"),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
    for files in ["'[12].csv'", "read_csv(['2.csv', '1.csv'])"] {
        let sum = format!("SELECT sum(a), sum(b) FROM {files}");
        let rows = printed(folder, &["--format", "csv", "-c", &sum]);
        assert_eq!(rows.lines().nth(1), Some("4,6"), "{files}");
    }
    for (files, other) in [
        ("'[1s]*.csv'", "swapped.csv: the columns are b, a, and a, b in "),
        (
            "read_csv(['1.csv', 'swapped.csv'], union_by_name = true)",
            "swapped.csv: the columns are b, a",
        ),
        ("read_csv(['1.csv', 'more.csv'])", "more.csv: the columns are a, b, c"),
    ] {
        let error = failure(folder, &["-c", &format!("SELECT * FROM {files}")]);
        assert!(error.contains(other) && error.contains("UNION ALL BY NAME"), "{error}");
    }
}
