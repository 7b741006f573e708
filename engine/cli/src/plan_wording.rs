//! Rewording of planners' messages that are written for programmers: with names of plans' nodes and rules of plans.

use datafusion::functions_window::all_default_window_functions;

use crate::exit_error::ErrorReport;

/// The message in words for people; `None`: it can stay as it is.
pub(crate) fn reworded(message: &str) -> Option<ErrorReport> {
    let report = |words: String| ErrorReport::new(words);
    let quoted = |before: &str| {
        let (_, rest) = message.split_once(before)?;
        Some(rest.split_once('"')?.0)
    };
    if message.contains("require unique expression names") {
        // The expression is `count(Int64(1)) AS count(*)` or a name.
        let name = quoted("expression name but the expression \"").or_else(|| quoted("names but the expression \""))?;
        let name = name.rsplit(" AS ").next().unwrap_or(name);
        return Some(report(format!("two columns would be called {name}")).hint("name one of them: … AS name"));
    }
    if let Some(name) = quoted("duplicate unqualified field name \"") {
        return Some(
            report(format!("two aggregates would be called {name}: a cast does not count"))
                .hint("cast in a subquery: SELECT sum(a), sum(b) FROM (SELECT a, CAST(a AS INT) AS b FROM t)"),
        );
    }
    if message.contains("must appear in the GROUP BY clause or must be part of an aggregate function") {
        let column = quoted("column \"").or_else(|| quoted("Column \""))?;
        return Some(
            report(format!(
                "column {column} is neither in GROUP BY nor in an aggregate function"
            ))
            .hint(format!("GROUP BY {column}, or choose one of its values: min({column})")),
        );
    }
    if let Some((_, name)) = message.split_once("Schema contains duplicate qualified field name ") {
        return Some(
            report(format!("two tables have a column {name}"))
                .hint("give each table a name of its own: FROM t AS x JOIN t AS y ON …"),
        );
    }
    if let Some((_, rest)) = message.split_once("Cannot create filter with non-boolean predicate ") {
        let (predicate, found) = rest.split_once(" returning ")?;
        let predicate = predicate.trim_matches('\'');
        return Some(
            report(format!("a condition is true or false, and {predicate} is {found}")).hint("compare it: … = …"),
        );
    }
    if let Some((_, reason)) = message.split_once("regex parse error:") {
        let reason = reason.rsplit_once("error: ").map_or(reason, |(_, reason)| reason);
        return Some(report(format!("wrong regular expression: {}", reason.trim())));
    }
    if message.contains("does not support logical expression Wildcard") {
        return Some(
            report("* is no argument of this function".to_owned()).hint("only count(*) counts rows; name a column"),
        );
    }
    if let Some((_, what)) = message.split_once("does not support logical expression ") {
        return not_planned(what);
    }
    if let Some((statement, _)) = message.split_once(" not supported for Base table") {
        let statement = statement.rsplit([' ', ':']).next().unwrap_or(statement);
        return Some(report(format!("not supported: {statement} of a table in files")).hint(
            "write the rows that stay: INSERT OVERWRITE t SELECT … FROM t of a folder, \
                     or COPY (SELECT …) TO 'new.orc'",
        ));
    }
    if message.contains("table function 'unnest' not found") {
        return not_planned("Unnest");
    }
    if message.contains("Dot access not supported for non-string expr") {
        return Some(
            report("not supported: a field of an expression after a dot".to_owned())
                .hint("write get_field(expression, 'name')"),
        );
    }
    None
}

/// An expression that DataFusion's planner leaves in the plan.
fn not_planned(expression: &str) -> Option<ErrorReport> {
    let begins = |names: &[&str]| names.iter().any(|name| expression.starts_with(name));
    let (what, hint) = if begins(&["Exists", "InSubquery", "SetComparison"]) {
        (
            "EXISTS, IN, ANY or ALL with a subquery at this place",
            "join it: … LEFT JOIN (SELECT DISTINCT k FROM …) AS s ON …, and s.k IS NOT NULL is the value",
        )
    } else if begins(&["ScalarSubquery"]) {
        (
            "this correlated subquery as a value",
            "join it: … LEFT JOIN (SELECT k, max(x) AS x FROM … GROUP BY k) AS s ON …",
        )
    } else if begins(&["OuterReferenceColumn", "Unnest"]) {
        (
            "unnest in FROM of a column of another table there",
            "unnest it in a subquery: FROM (SELECT *, unnest(list) AS item FROM t) AS t",
        )
    } else {
        return None;
    };
    Some(ErrorReport::new(format!("not supported: {what}")).hint(hint))
}

/// The hint for a function that is a window function without its OVER.
pub(crate) fn window_hint(name: &str) -> Option<String> {
    let is_window = all_default_window_functions()
        .iter()
        .any(|function| function.name() == name);
    is_window.then(|| format!("{name} is a window function: {name}(…) OVER (ORDER BY …)"))
}
