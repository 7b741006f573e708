//! The formats of results, by the program: texts of every kind, and INSERT statements that are read again.

use std::io::Write;
use std::process::{Output, Stdio};

fn grampus(arguments: &[&str], input: &str) -> Output {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command.args(["-q"]).args(arguments).env("NO_COLOR", "1");
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // The program may leave before it reads its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn succeed(arguments: &[&str], input: &str) -> String {
    let output = grampus(arguments, input);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!(
        (text(output.stderr), output.status.code()),
        (String::new(), Some(0)),
        "{input}"
    );
    text(output.stdout)
}

const ODD: &str = "SELECT 1 AS n, 'a|b' AS \"x|y\", E'one\\ntwo' AS \"line\nend\", [1, NULL] AS l \
                   UNION ALL SELECT NULL, '日本語', '', [] ORDER BY n";

#[test]
fn markdown_escapes_what_would_end_a_cell() {
    let expected = "\
|    n | x\\|y   | line<br>end | l         |
|-----:|--------|-------------|-----------|
|    1 | a\\|b   | one<br>two  | [1, NULL] |
| NULL | 日本語 |             | []        |
";
    assert_eq!(succeed(&["--format", "markdown", "-c", ODD], ""), expected);
}

#[test]
fn boxes_have_lines_in_files_too() {
    let expected = "\
┌──────┬────────┬───────────┬───────────┐
│    n │ x|y    │ line\\nend │ l         │
├──────┼────────┼───────────┼───────────┤
│    1 │ a|b    │ one\\ntwo  │ [1, NULL] │
│ NULL │ 日本語 │           │ []        │
└──────┴────────┴───────────┴───────────┘
";
    assert_eq!(succeed(&["--format", "box", "-c", ODD], ""), expected);
}

#[test]
fn line_and_vertical_have_a_line_for_each_value() {
    let expected = "        n = 1\n      x|y = a|b\nline\\nend = one\\ntwo\n        l = [1, NULL]\n\n        \
                    n = NULL\n      x|y = 日本語\nline\\nend = \n        l = []\n";
    assert_eq!(succeed(&["--format", "line", "-c", ODD], ""), expected);
    let vertical = succeed(&["--format", "vertical", "-c", ODD], "");
    let by_x = succeed(&[], &format!("\\x on\n{ODD};"));
    assert!(vertical.starts_with("-[ row 1 ]-----"), "{vertical}");
    assert!(
        vertical.contains("\nn         | NULL\nx|y       | 日本語\n"),
        "{vertical}"
    );
    assert_eq!(vertical, by_x);
}

#[test]
fn results_without_rows_have_their_headings() {
    let sql = "SELECT 1 AS a, 'x' AS b LIMIT 0";
    for (format, expected) in [
        ("table", "+---+---+\n| a | b |\n+---+---+\n+---+---+\n"),
        ("box", "┌───┬───┐\n│ a │ b │\n├───┼───┤\n└───┴───┘\n"),
        ("markdown", "| a | b |\n|--:|---|\n"),
        ("line", ""),
        ("vertical", ""),
        ("insert", ""),
        ("csv", "a,b\n"),
        ("tsv", "a\tb\n"),
        ("json", "[]\n"),
        ("ndjson", ""),
    ] {
        assert_eq!(succeed(&["--format", format, "-c", sql], ""), expected, "{format}");
    }
}

#[test]
fn long_results_have_no_seam() {
    let sql = "SELECT v FROM generate_series(10001, 40000) AS t(v)";
    let markdown = succeed(&["--format", "markdown", "-c", sql], "");
    assert_eq!(markdown.lines().count(), 30_002);
    assert!(markdown.lines().all(|line| line.len() == 9), "{}", &markdown[..60]);
    let lines = succeed(&["--format", "line", "-c", sql], "");
    assert_eq!(lines.lines().filter(|line| line.is_empty()).count(), 29_999);
    assert!(!lines.starts_with('\n') && lines.ends_with("v = 40000\n"));
}

#[test]
fn plans_are_a_block_of_code_in_markdown() {
    let plan = succeed(&["--format", "markdown", "-c", "EXPLAIN SELECT 1 AS a"], "");
    assert!(plan.starts_with("```\n") && plan.ends_with("\n```\n"), "{plan}");
    let csv = succeed(&["--format", "csv", "-c", "EXPLAIN SELECT 1 AS a"], "");
    assert!(csv.starts_with("plan_type,plan\n"), "{csv}");
}

#[test]
fn format_names_its_formats_and_the_table_of_inserts() {
    let rows = "SELECT 1 AS a, 'it''s' AS b;";
    let printed = succeed(
        &[],
        &format!("\\format insert public.My Trips\n{rows}\n\\format insert\n{rows}"),
    );
    let expected = "INSERT INTO public.\"My Trips\" VALUES (1, 'it''s');\nINSERT INTO \"table\" VALUES (1, 'it''s');\n";
    assert_eq!(printed, expected);
    for (line, words) in [
        ("\\format nonsense", "box, markdown, line, vertical"),
        ("\\format csv trips", "takes no table: trips"),
    ] {
        let output = grampus(&[], line);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(words) && output.status.code() == Some(1), "{error}");
    }
}

/// Runs the statements of `--format insert` on an empty table of the same types, and compares both tables.
fn read_again(select: &str) {
    let statements = succeed(&["--format", "insert", "-c", select], "");
    let types = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'table'";
    let compared = format!("SELECT * FROM \"table\";{types} ORDER BY column_name;");
    for format in ["ndjson", "csv"] {
        let first = format!("CREATE TABLE \"table\" AS {select};{compared}");
        let again = format!("CREATE TABLE \"table\" AS SELECT * FROM ({select}) LIMIT 0;");
        // Statements that insert have the number of their rows as a result.
        let written = statements
            .lines()
            .filter(|line| line.starts_with("INSERT INTO "))
            .count();
        let expected = succeed(&["--format", format], &first);
        let found = succeed(&["--format", format], &format!("{again}\n{statements}\n{compared}"));
        let head = if format == "csv" {
            "count\n1\n"
        } else {
            "{\"count\":1}\n"
        };
        let found = found.strip_prefix(&head.repeat(written)).unwrap_or(&found);
        assert_eq!(found, expected, "{statements}");
    }
}

#[test]
fn inserted_literals_are_read_as_the_same_values() {
    for columns in [
        "true AS a, CAST(NULL AS BOOLEAN) AS b",
        "CAST(-128 AS TINYINT) AS a, CAST(32767 AS SMALLINT) AS b, CAST(-2147483648 AS INT) AS c, \
         -9223372036854775808 AS d, 18446744073709551615 AS e, arrow_cast(255, 'UInt8') AS f",
        "0.1 AS a, -0.0 AS b, 5e-324 AS c, 1.7976931348623157e308 AS d, CAST('NaN' AS DOUBLE) AS e, \
         CAST('-inf' AS DOUBLE) AS f, 1e21 AS g, CAST('inf' AS FLOAT) AS h, CAST(3.4028235e38 AS FLOAT) AS i, \
         CAST(0.1 AS FLOAT) AS j, CAST(1e-45 AS FLOAT) AS k, CAST(16777217.5 AS FLOAT) AS l",
        "CAST('-0.05' AS DECIMAL(5, 2)) AS a, CAST('12345678901234567890123456789012345678' AS DECIMAL(38, 0)) AS b, \
         CAST('0.1234567890123456789012345678901234567' AS DECIMAL(38, 37)) AS c, \
         CAST('12345678901234567890123456789012345678901.50' AS DECIMAL(50, 2)) AS d",
        "'it''s' AS a, '' AS b, E'a\\\\b\\nc;-- d\\t''' AS c, '日本語 \"x\" | $$' AS d, CAST(NULL AS VARCHAR) AS e",
        "X'00ff' AS a, X'' AS b, CAST(NULL AS BYTEA) AS c",
        "DATE '1582-10-15' AS a, DATE '+12345-01-02' AS b, DATE '-0044-03-15' AS c, DATE '9999-12-31' AS d",
        "TIMESTAMP '2020-02-29 23:59:59.123456789' AS a, TIMESTAMP '1677-09-22 00:00:00' AS b, \
         CAST('3000-01-01 10:00:00.123456' AS TIMESTAMP(6)) AS c, CAST('2020-01-01' AS TIMESTAMP(0)) AS d, \
         CAST('1969-12-31 23:59:59.999' AS TIMESTAMP(3)) AS e, arrow_cast(400000000000, 'Timestamp(s)') AS f",
        "arrow_cast('2020-07-01T10:00:00.5Z', 'Timestamp(µs, \"Europe/Berlin\")') AS a, \
         arrow_cast('2020-07-01T10:00:00Z', 'Timestamp(ns, \"UTC\")') AS b, CAST(NULL AS TIMESTAMP) AS c, \
         arrow_cast(400000000000, 'Timestamp(s, \"+02:00\")') AS d",
        "TIME '00:00:00' AS a, TIME '23:59:59.999999999' AS b, arrow_cast(TIME '23:59:59', 'Time32(s)') AS c",
        "INTERVAL '1 month -2 days 0.5 seconds' AS a, INTERVAL '0 seconds' AS b, arrow_cast(-123, 'Duration(ms)') AS c",
        "[1, NULL] AS a, ['it''s', ''] AS b, CAST([] AS BIGINT[]) AS c, [[1.5], []] AS d, CAST(NULL AS BIGINT[]) AS e, \
         [DATE '2020-01-01'] AS f, arrow_cast([1, 2], 'FixedSizeList(2, Int64)') AS g, \
         arrow_cast(['x'], 'LargeList(Utf8)') AS h",
        "{'a': 1, 'it''s': 'x'} AS a, {'a': {'b': [1, NULL]}} AS b, [{'a': 1}, NULL] AS c, {'A b': NULL::INT} AS d",
        "MAP {'k': 1, 'it''s': NULL} AS a, MAP {'1': ['x', NULL]} AS b",
        "arrow_cast('x', 'Dictionary(Int32, Utf8)') AS a, [arrow_cast('x', 'Dictionary(Int32, Utf8)')] AS b",
    ] {
        let select = format!("SELECT {columns}");
        read_again(&select);
    }
    // Several rows, and NULLs in each column.
    read_again("SELECT * FROM (VALUES (1, 'x', DATE '2020-01-01'), (NULL, NULL, NULL), (3, 'z', NULL)) AS t(a, b, c)");
    read_again("SELECT v, [v] AS l, {'v': v} AS s FROM generate_series(1, 40) AS t(v)");
}

#[test]
fn tables_of_markdown_are_parted_and_plans_are_those_of_explain() {
    let two = succeed(&["--format", "markdown", "-c", "SELECT 1 AS a; SELECT 2 AS b"], "");
    assert_eq!(two, "| a |\n|--:|\n| 1 |\n\n| b |\n|--:|\n| 2 |\n");
    let lines = succeed(&["--format", "line", "-c", "SELECT 1 AS a; SELECT 2 AS b"], "");
    assert_eq!(lines, "a = 1\n\nb = 2\n");
    // Columns of these names make no plan.
    for (sql, row) in [
        ("SELECT 'x' AS plan_type, 'y' AS plan", "| x         | y    |"),
        ("SELECT 1 AS plan_type, 2 AS plan", "|         1 |    2 |"),
    ] {
        let table = succeed(&["-c", sql], "");
        assert!(table.contains(row), "{table}");
    }
    let plan = succeed(&["--format", "markdown", "-c", "EXPLAIN SELECT 1"], "");
    assert!(plan.starts_with("```\nlogical plan\n"), "{plan}");
}
