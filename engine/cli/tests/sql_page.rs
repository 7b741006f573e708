//! docs/SQL.md: each expression of its tables has the result that the page states.

use std::process::Stdio;

/// Expressions and results of the page's tables.
fn rows() -> Vec<(String, String)> {
    let page = include_str!("../../../docs/SQL.md");
    let cells = page.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let mut cells = line
            .trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().trim_matches('`').to_owned());
        (cells.next().unwrap(), cells.next().unwrap())
    };
    cells.map(row).collect()
}

#[test]
fn expressions_of_the_sql_page_have_the_stated_results() {
    let rows = rows();
    assert!(rows.len() >= 25, "{} rows", rows.len());
    for (expression, expected) in rows {
        let sql = format!("SELECT {expression} AS x");
        let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
        let command = command.args(["-q", "--format", "csv", "-c", &sql]).stdin(Stdio::null());
        let output = command.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        match expected.as_str() {
            "error" => assert_eq!(output.status.code(), Some(1), "{expression}: {printed}"),
            _ => assert_eq!(printed, format!("x\n{expected}\n"), "{expression}"),
        }
    }
}
