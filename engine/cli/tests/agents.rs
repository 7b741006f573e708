//! Output for agents: compact Markdown and errors as JSON, by `--agent` or by a variable.

use std::process::Output;

use serde_json::{Value, json};

fn grampus(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command.args(arguments).envs(variables.iter().copied());
    command.env("CLICOLOR_FORCE", "1").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const QUERY: &str = "SELECT 12345 AS id, 'a|b' AS note, '' AS e UNION ALL SELECT 6, NULL, NULL ORDER BY 1 DESC";
const COMPACT: &str = "| id | note | e |\n|--:|---|---|\n| 12345 | a\\|b |   |\n| 6 | NULL | NULL |\n";

#[test]
fn variables_and_the_option_choose_compact_markdown() {
    for (arguments, variables) in [
        (&[][..], &[("AI_AGENT", "1")][..]),
        (&[], &[("CLAUDECODE", "1"), ("AI_AGENT", "")]),
        (&["--agent"], &[]),
        (&["--agent", "--format", "markdown"], &[]),
    ] {
        let output = grampus(&[arguments, &["-c", QUERY]].concat(), variables);
        assert_eq!(text(&output.stdout), COMPACT, "{arguments:?} {variables:?}");
        assert_eq!(text(&output.stderr), "");
    }
    // Two tables are two tables.
    let two = text(&grampus(&["--agent", "-c", "SELECT 1 AS a; SELECT 2 AS b"], &[]).stdout);
    assert_eq!(two, "| a |\n|--:|\n| 1 |\n\n| b |\n|--:|\n| 2 |\n");
}

#[test]
fn other_formats_and_empty_variables_stay() {
    let csv = grampus(&["--format", "csv", "-c", "SELECT 1 AS a"], &[("AI_AGENT", "1")]);
    assert_eq!(text(&csv.stdout), "a\n1\n");
    let table = grampus(&["--format", "table", "-c", "SELECT 1 AS a"], &[("AI_AGENT", "1")]);
    assert!(text(&table.stdout).starts_with("+---+"), "{}", text(&table.stdout));
    for variables in [[("AI_AGENT", "")], [("CLAUDECODE", "0")]] {
        let output = grampus(&["-c", "SELECT 1 AS a"], &variables);
        assert!(text(&output.stdout).contains("+---+"), "{variables:?}");
    }
}

fn error(arguments: &[&str], status: i32) -> Value {
    let output = grampus(arguments, &[("CLAUDECODE", "1")]);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    let text = text(&output.stderr);
    assert_eq!(text.lines().count(), 1, "{text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn errors_are_one_object_with_place_and_hint() {
    let syntax = error(&["-c", "SELECT 1;\n  SELEC 2"], 1);
    assert_eq!((&syntax["line"], &syntax["column"]), (&json!(2), &json!(3)));
    assert!(syntax["message"].as_str().unwrap().contains("found SELEC"), "{syntax}");
    assert!(
        syntax["hint"].as_str().unwrap().contains("did you mean SELECT"),
        "{syntax}"
    );
    let column = error(&["-c", "SELECT\n    lenght FROM (SELECT 1 AS length)"], 1);
    assert_eq!((&column["line"], &column["column"]), (&json!(2), &json!(5)));
    assert_eq!(column["hint"], json!("did you mean length?"));
    let file = error(&["none.orc", "-c", "SELECT 1"], 2);
    assert_eq!(
        file,
        json!({"message": "no such file: none.orc", "line": null, "column": null, "hint": null})
    );
    let option = error(&["--formt", "csv"], 2);
    assert_eq!(option["message"], json!("unexpected argument '--formt' found"));
    assert!(option["hint"].as_str().unwrap().contains("'--format'"), "{option}");
    let command = error(&["layout", "none.orc"], 1);
    assert!(command["message"].as_str().unwrap().contains("none.orc"), "{command}");
}
