//! Types below headings, statements about tables, and commands of other shells, by the program.

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

fn grampus(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command
        .arg("-q")
        .args(arguments)
        .current_dir(folder)
        .env("NO_COLOR", "1");
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // The program may leave before it reads its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn printed(arguments: &[&str], input: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = grampus(folder.path(), arguments, input);
    assert_eq!(
        (text(&output.stderr), output.status.code()),
        (String::new(), Some(0)),
        "{input}"
    );
    text(&output.stdout)
}

fn failed(input: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let output = grampus(folder.path(), &["--format", "csv"], input);
    assert_eq!(output.status.code(), Some(1), "{input}");
    text(&output.stderr)
}

const TYPED: &str =
    "SELECT 1 AS id, 'x' AS a, CAST('1.5' AS DECIMAL(10, 2)) AS d, TIMESTAMP '2020-01-01' AS t, [1] AS l";

#[test]
fn types_stand_below_names_where_they_are_asked_for() {
    let with_types = "\
+--------+---------+---------------+---------------------+----------+
|     id | a       |             d | t                   | l        |
| BIGINT | VARCHAR | DECIMAL(10,2) | TIMESTAMP           | BIGINT[] |
+--------+---------+---------------+---------------------+----------+
|      1 | x       |          1.50 | 2020-01-01 00:00:00 | [1]      |
+--------+---------+---------------+---------------------+----------+
";
    assert_eq!(printed(&["--types", "-c", TYPED], ""), with_types);
    assert_eq!(printed(&[], &format!("\\types on\n{TYPED}")), with_types);
    // Programs see what they saw.
    for arguments in [
        ["--no-types", "-c", TYPED].as_slice(),
        &["--types", "--no-types", "-c", TYPED],
        &["-c", TYPED],
    ] {
        assert!(!printed(arguments, "").contains("BIGINT"), "{arguments:?}");
    }
    for format in ["markdown", "csv", "tsv", "json", "ndjson", "insert", "line", "vertical"] {
        let shown = printed(&["--types", "--format", format, "-c", TYPED], "");
        assert!(!shown.contains("BIGINT"), "{format}: {shown}");
    }
    let boxed = printed(&["--types", "--format", "box", "-c", "SELECT 1 AS a LIMIT 0"], "");
    assert_eq!(boxed, "┌────────┐\n│      a │\n│ BIGINT │\n├────────┤\n└────────┘\n");
}

#[test]
fn descriptions_have_types_that_cast_takes() {
    let described = printed(
        &[
            "--format",
            "csv",
            "-c",
            &format!("CREATE TABLE t AS {TYPED}; DESCRIBE t"),
        ],
        "",
    );
    let expected = "column_name,data_type,is_nullable\nid,BIGINT,NO\na,VARCHAR,NO\nd,\"DECIMAL(10,2)\",NO\n\
                    t,TIMESTAMP,NO\nl,BIGINT[],NO\n";
    assert_eq!(described, expected);
    let query = printed(
        &["--format", "csv", "-c", "DESCRIBE SELECT CAST(1 AS INT) AS \"A b\""],
        "",
    );
    assert_eq!(query, "column_name,data_type,is_nullable\nA b,INTEGER,NO\n");
    let summary = printed(&["--format", "ndjson", "-c", "SUMMARIZE SELECT 1 AS id"], "");
    assert!(summary.contains("\"column_type\":\"BIGINT\""), "{summary}");
    // Each name is read by CAST.
    for line in expected.lines().skip(1) {
        let name = line
            .split_once(',')
            .unwrap()
            .1
            .rsplit_once(',')
            .unwrap()
            .0
            .trim_matches('"');
        printed(&["-c", &format!("SELECT CAST(NULL AS {name})")], "");
    }
}

#[test]
fn show_tables_lists_the_users_tables() {
    let csv = |sql: &str| printed(&["--format", "csv", "-c", &format!("{MADE}; {sql}")], "");
    const MADE: &str = "CREATE TABLE trips AS SELECT 1 AS a; CREATE SCHEMA own; \
                        CREATE TABLE own.zones AS SELECT 2 AS b; \
                        CREATE VIEW v AS SELECT 3 AS c";
    let head = "table_catalog,table_schema,table_name,table_type\n";
    let zones = "datafusion,own,zones,BASE TABLE\n";
    let others = "datafusion,public,trips,BASE TABLE\ndatafusion,public,v,VIEW\n";
    // Statements that make tables as a query say how many rows there are.
    let ends = |sql: &str, expected: &str| {
        let shown = csv(sql);
        assert!(shown.ends_with(&format!("{head}{expected}")), "{sql}: {shown}");
    };
    ends("SHOW TABLES", &format!("{zones}{others}"));
    ends("show tables in own", zones);
    ends("SHOW TABLES LIKE 't%'", "datafusion,public,trips,BASE TABLE\n");
    ends("SHOW TABLES FROM datafusion.public", others);
    ends("SHOW TABLES LIKE 'it''s'", "");
    let all = csv("SHOW ALL TABLES");
    let all = all.split_once(head).unwrap().1;
    assert!(
        all.starts_with(&format!("{zones}{others}datafusion,information_schema,")),
        "{all}"
    );
}

#[test]
fn dot_commands_do_what_their_twins_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("part.sql"),
        ".mode ndjson\nSELECT 7 AS seven;\n.tables\nSELECT 8 AS eight",
    )
    .unwrap();
    let script = "CREATE TABLE trips (id INT NOT NULL, \"A b\" VARCHAR);\n\
                  .timer off\n.headers on\n.mode csv\nSELECT 1 AS a;\n  .tables\n.schema\n.schema trips\n\
                  .read part.sql\n\
                  .output out.json\nSELECT 9 AS nine;\n.output\n.mode insert t\nSELECT 10;\n.databases\n\
                  .quit\nSELECT 11;";
    let output = grampus(folder.path(), &[], script);
    assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)));
    let shown = text(&output.stdout);
    let tables = "+-------+---------+-------+------+\n\
                  | table | columns | files | rows |\n\
                  +-------+---------+-------+------+\n\
                  | trips |       2 |       |      |\n+-------+---------+-------+------+\n";
    let schema = "CREATE TABLE trips (id INTEGER NOT NULL, \"A b\" VARCHAR);\n";
    let inserts = "INSERT INTO t VALUES (10);\nINSERT INTO t VALUES ('datafusion', 'public');\n";
    let expected = format!("a\n1\n{tables}{schema}{schema}{{\"seven\":7}}\n{tables}{{\"eight\":8}}\n{inserts}");
    assert_eq!(shown, expected);
    assert_eq!(
        std::fs::read_to_string(folder.path().join("out.json")).unwrap(),
        "{\"nine\":9}\n"
    );
    // By -f and -c too.
    let output = grampus(folder.path(), &["-f", "part.sql", "-c", ".mode csv\nSELECT 1 AS a"], "");
    assert!(text(&output.stdout).ends_with("{\"eight\":8}\na\n1\n"), "{output:?}");
}

#[test]
fn definitions_are_read_again() {
    let made = "CREATE TABLE \"My t\" AS SELECT 1 AS a, 'x' AS b; CREATE TABLE \"T\" AS SELECT 1 AS \"A\"; \
                CREATE VIEW v AS SELECT 2 AS c;";
    let definitions = printed(&[], &format!("{made}\n.schema"));
    let again = printed(
        &["--format", "csv"],
        &format!("{definitions}\nSELECT count(*) AS n FROM \"My t\";SELECT * FROM v"),
    );
    assert!(again.ends_with("n\n0\nc\n2\n"), "{definitions}: {again}");
}

#[test]
fn other_dot_commands_say_what_to_write() {
    for (line, words) in [
        (
            ".import x.csv t",
            "hint: write CREATE TABLE t AS SELECT * FROM 'x.csv', or COPY t FROM 'x.csv'",
        ),
        (".open x.db", "hint: Grampus has no database file"),
        (".headers off", "error: .headers is always on"),
        (".mode html", "hint: write \\format markdown"),
        (".mode nonsense", "hint: there are: table, box"),
        (".tabels", "hint: did you mean .tables?"),
        (".schema nothing", "error: no table named nothing"),
        ("\\copy t to x", "hint: write COPY t TO 'x.csv'"),
    ] {
        let error = failed(line);
        assert!(error.contains(words), "{line}: {error}");
    }
}

#[test]
fn statements_and_options_of_other_programs_have_hints() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, message, hint) in [
        (
            &["SELECT * FROM 'x.orc'"][..],
            "error: a statement is no file: SELECT * FROM 'x.orc'\n",
            "hint: write -c before it: grampus -c \"SELECT * FROM 'x.orc'\"\n",
        ),
        (
            &["from \"x\""],
            "error: a statement is no file: from \"x\"\n",
            "hint: write -c before it\n",
        ),
        (
            &["-markdown", "-c", "SELECT 1"],
            "error: no option -markdown\n",
            "hint: write --format markdown\n",
        ),
    ] {
        let output = grampus(folder.path(), arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stderr), format!("{message}{hint}"), "{arguments:?}");
    }
    // A file of that name is a file.
    let output = grampus(folder.path(), &["-c", "COPY (SELECT 7 AS a) TO 'from x.orc'"], "");
    assert_eq!(output.status.code(), Some(0));
    let read = grampus(
        folder.path(),
        &["--format", "csv", "from x.orc", "-c", "FROM from_x"],
        "",
    );
    assert_eq!(
        (text(&read.stdout), text(&read.stderr)),
        ("a\n7\n".to_owned(), String::new())
    );
    for statement in ["DELETE FROM 'from x.orc'", "UPDATE 'from x.orc' SET a = 1"] {
        let output = grampus(folder.path(), &["-c", statement], "");
        let error = text(&output.stderr);
        assert!(error.contains("of a table in files"), "{error}");
        assert!(error.contains("INSERT OVERWRITE t SELECT"), "{error}");
    }
}

#[test]
fn names_of_schemas_match_as_names_do() {
    for (schema, is_found) in [("INFORMATION_SCHEMA", true), ("\"INFORMATION_SCHEMA\"", false)] {
        let tables = printed(&["--format", "csv", "-c", &format!("SHOW TABLES IN {schema}")], "");
        assert_eq!(tables.contains("columns"), is_found, "{schema}: {tables}");
    }
}
