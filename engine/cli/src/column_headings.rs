//! [`ColumnHeadings`]: the names of a result's columns. A column without an alias is named by its expression as
//! written, where DataFusion's names lose parentheses.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, Statement as SqlStatement, Visit, Visitor};

/// The headings that a statement's text gives.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ColumnHeadings {
    /// Of the columns before the first `*`; `None` leaves a name as it is.
    first: Vec<Option<String>>,
    /// Of the columns after the last `*`; `None`: there is no `*`.
    last: Option<Vec<Option<String>>>,
}

impl ColumnHeadings {
    /// The headings of a statement's result.
    pub(crate) fn of(statement: &Statement) -> Self {
        let Statement::Statement(statement) = statement else {
            return Self::default();
        };
        let SqlStatement::Query(query) = statement.as_ref() else {
            return Self::default();
        };
        match projection(&query.body) {
            // The result has the columns of the last operator.
            _ if !query.pipe_operators.is_empty() => Self::default(),
            Some(items) => Self::of_items(items),
            None => Self::default(),
        }
    }

    fn of_items(items: &[SelectItem]) -> Self {
        let is_star = |item: &SelectItem| match item {
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => true,
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => chooses_columns(expr),
            _ => false,
        };
        let headings = |items: &[SelectItem]| items.iter().map(heading).collect();
        match (items.iter().position(is_star), items.iter().rposition(is_star)) {
            (Some(from), Some(to)) => Self {
                first: headings(&items[..from]),
                last: Some(headings(&items[to + 1..])),
            },
            _ => Self {
                first: headings(items),
                last: None,
            },
        }
    }

    /// The schema of a result with these headings.
    pub(crate) fn apply(&self, schema: &SchemaRef) -> SchemaRef {
        let length = schema.fields().len();
        let known = self.first.len() + self.last.as_ref().map_or(0, Vec::len);
        if known > length || (self.last.is_none() && known < length) {
            return Arc::clone(schema);
        }
        let mut names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
        let last = self.last.as_deref().unwrap_or_default();
        let places = (0..self.first.len()).chain(length - last.len()..length);
        for (place, heading) in places.zip(self.first.iter().chain(last)) {
            if let Some(heading) = heading {
                names[place] = heading;
            }
        }
        renamed(schema, &names)
    }
}

/// The select list that names a query's columns: of a UNION, the first one.
fn projection(body: &SetExpr) -> Option<&[SelectItem]> {
    match body {
        SetExpr::Select(select) => Some(&select.projection),
        SetExpr::Query(query) => projection(&query.body),
        SetExpr::SetOperation { left, .. } => projection(left),
        _ => None,
    }
}

/// Whether an expression stands for one of each column that `COLUMNS(…)` chooses.
fn chooses_columns(expr: &Expr) -> bool {
    struct Calls;
    impl Visitor for Calls {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("columns") => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Calls).is_break()
}

fn heading(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::CompoundFieldAccess { .. },
        ) => None,
        SelectItem::UnnamedExpr(expression) => Some(expression.to_string()),
        _ => None,
    }
}

fn renamed(schema: &SchemaRef, names: &[&str]) -> SchemaRef {
    let fields = schema.fields().iter().zip(names);
    let fields: Vec<_> = fields
        .map(|(field, name)| field.as_ref().clone().with_name(*name))
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The schema with a number after each repeated name: `id`, `id_1`, `id_2`.
pub(crate) fn unique(schema: &SchemaRef) -> SchemaRef {
    let mut taken: HashSet<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut seen = HashSet::new();
    let mut names = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let mut name = field.name().clone();
        let mut number = 0;
        while !seen.insert(name.clone()) {
            loop {
                number += 1;
                name = format!("{}_{number}", field.name());
                if taken.insert(name.clone()) {
                    break;
                }
            }
        }
        names.push(name);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    renamed(schema, &names)
}

/// The batch with the names of `schema`.
pub(crate) fn with_names(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(renamed(&batch.schema(), &names), batch.columns().to_vec(), &options)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};
    use datafusion::sql::parser::DFParser;

    use super::*;

    fn schema(names: &[&str]) -> SchemaRef {
        let fields: Vec<Field> = names
            .iter()
            .map(|name| Field::new(*name, DataType::Int64, true))
            .collect();
        Arc::new(Schema::new(fields))
    }

    fn names(schema: &SchemaRef) -> Vec<String> {
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn headings(sql: &str, columns: &[&str]) -> Vec<String> {
        let statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        names(&ColumnHeadings::of(&statement).apply(&schema(columns)))
    }

    #[test]
    fn expressions_without_an_alias_are_headings() {
        assert_eq!(headings("SELECT avg((a - b) / c) FROM t", &["x"]), ["avg((a - b) / c)"]);
        assert_eq!(
            headings("SELECT t.a, 1 AS n, (a) FROM t", &["a", "n", "a"]),
            ["a", "n", "(a)"]
        );
        assert_eq!(
            headings("SELECT -a, *, b + 1 FROM t", &["x", "a", "b", "y"]),
            ["-a", "a", "b", "b + 1"]
        );
        assert_eq!(
            headings("WITH u AS (SELECT 1) (SELECT (a) * 2 FROM u) UNION SELECT 3", &["x"]),
            ["(a) * 2"]
        );
        assert_eq!(
            headings("SELECT count(*), t.*, u.*, 'x'", &["x", "y", "z"]),
            ["count(*)", "y", "'x'"]
        );
    }

    #[test]
    fn other_statements_keep_their_names() {
        for sql in ["VALUES (1)", "EXPLAIN SELECT 1 + 1", "SHOW TABLES", "SELECT 1 + 1, 2"] {
            assert_eq!(headings(sql, &["x"]), ["x"], "{sql}");
        }
        assert_eq!(headings("SELECT 1 + 1, *, 2 + 2", &["x"]), ["x"]);
    }

    #[test]
    fn repeated_names_are_numbered() {
        let unique = |columns: &[&str]| names(&unique(&schema(columns)));
        assert_eq!(unique(&["a", "b"]), ["a", "b"]);
        assert_eq!(unique(&["a", "a", "a"]), ["a", "a_1", "a_2"]);
        assert_eq!(unique(&["a", "a_1", "a", "a_1"]), ["a", "a_1", "a_2", "a_1_1"]);
    }
}
