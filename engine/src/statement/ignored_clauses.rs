//! [`refuse`]: clauses that the SQL parser reads and DataFusion's planner leaves out without a word.
//!
//! A query without its `CONNECT BY` has another answer, and `DELETE … LIMIT 1` would delete all rows. Clauses that
//! change no answer (`FOR UPDATE`, hints) may stay.

use std::ops::ControlFlow;

use datafusion::common::plan_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, Expr, Function, FunctionArguments, GroupByExpr, GroupByWithModifier, LimitClause, Query,
    Select, Statement as SqlStatement, TableConstraint, TableFactor, TableWithJoins, VisitorMut,
};

use super::{expressions, samples};

/// Refuses a statement with such a clause.
///
/// # Errors
/// If it has one; the error says what to write instead.
pub(super) fn refuse(state: &SessionState, statement: &mut Statement) -> Result<()> {
    let mut search = Search { state, found: None };
    if let Statement::CreateExternalTable(table) = statement {
        search.refuse_constraints(&table.columns, &table.constraints);
    }
    expressions::visit(statement, &mut search);
    search.found.map_or(Ok(()), Err)
}

struct Search<'a> {
    state: &'a SessionState,
    found: Option<DataFusionError>,
}

impl Search<'_> {
    fn refuse_if(&mut self, is_there: bool, clause: &str, hint: &str) {
        if is_there {
            let error = plan_datafusion_err!("{clause} is not supported: {hint}");
            self.found.get_or_insert(error);
        }
    }
}

impl Search<'_> {
    /// Refuses keys of tables. Nothing checks them, and the planner believes them: it drops DISTINCT over a key.
    fn refuse_constraints(&mut self, columns: &[ColumnDef], constraints: &[TableConstraint]) {
        let of_columns = columns.iter().flat_map(|column| &column.options);
        let mut options = of_columns.map(|option| &option.option);
        let has_key = options.any(|option| matches!(option, ColumnOption::PrimaryKey(_) | ColumnOption::Unique(_)))
            || constraints
                .iter()
                .any(|constraint| matches!(constraint, TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_)));
        let hint = "no table checks its keys; leave it out, and write SELECT DISTINCT where rows may repeat";
        self.refuse_if(has_key, "PRIMARY KEY or UNIQUE", hint);
    }

    /// Refuses kinds of joins whose words the parser reads as names of tables, such as `t POSITIONAL JOIN u`.
    fn refuse_joins(&mut self, from: &TableWithJoins) {
        let relations = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
        // The last relation has no join behind it.
        for relation in relations.take(from.joins.len()) {
            let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = relation else {
                continue;
            };
            let Some(alias) = alias
                .as_ref()
                .filter(|alias| !alias.explicit && alias.name.quote_style.is_none())
            else {
                continue;
            };
            let (kind, hint) = match alias.name.value.to_uppercase().as_str() {
                "POSITIONAL" => ("POSITIONAL JOIN", "give both sides row_number() OVER () and join on it"),
                "ANY" => ("ANY JOIN", "choose one of the rows by DISTINCT ON in a subquery"),
                "GLOBAL" => ("GLOBAL JOIN", "write JOIN"),
                _ => continue,
            };
            self.refuse_if(true, kind, hint);
        }
    }
}

impl VisitorMut for Search<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut SqlStatement) -> ControlFlow<()> {
        match statement {
            SqlStatement::Delete(delete) => {
                let hint = "choose the rows in WHERE";
                self.refuse_if(delete.limit.is_some(), "LIMIT of DELETE", hint);
            }
            SqlStatement::CreateTable(table) => {
                self.refuse_constraints(&table.columns, &table.constraints);
                for column in &table.columns {
                    for option in &column.options {
                        let is_left_out = matches!(
                            option.option,
                            ColumnOption::Generated { .. }
                                | ColumnOption::Identity(_)
                                | ColumnOption::DialectSpecific(_)
                                | ColumnOption::OnUpdate(_)
                                | ColumnOption::Collation(_)
                                | ColumnOption::Materialized(_)
                                | ColumnOption::Ephemeral(_)
                                | ColumnOption::Alias(_)
                        );
                        let hint = "leave it out, and compute the values in the query that inserts them";
                        self.refuse_if(
                            is_left_out,
                            &format!("{} of the column {}", option.option, column.name),
                            hint,
                        );
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.refuse_if(query.settings.is_some(), "SETTINGS", "a SET statement sets one");
        self.refuse_if(
            query.format_clause.is_some(),
            "FORMAT",
            "the program's --format chooses one",
        );
        self.refuse_if(query.for_clause.is_some(), "FOR XML, JSON and BROWSE", "leave it out");
        let has_limit_by = match &query.limit_clause {
            Some(LimitClause::LimitOffset { limit_by, .. }) => !limit_by.is_empty(),
            _ => false,
        };
        let hint = "write QUALIFY row_number() OVER (PARTITION BY … ORDER BY …) <= n";
        self.refuse_if(has_limit_by, "LIMIT … BY", hint);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let hint = "draw from a subquery: FROM (SELECT … FROM a JOIN b …) AS s USING SAMPLE …";
        self.refuse_if(samples::is_refused(select), "USING SAMPLE over several tables", hint);
        let hint = "write WITH RECURSIVE";
        self.refuse_if(!select.connect_by.is_empty(), "CONNECT BY", hint);
        for from in &select.from {
            self.refuse_joins(from);
        }
        self.refuse_if(
            select.prewhere.is_some(),
            "PREWHERE",
            "write WHERE; filters are read first anyway",
        );
        self.refuse_if(
            select.value_table_mode.is_some(),
            "SELECT AS",
            "make the struct by {'a': a}",
        );
        let (GroupByExpr::Expressions(_, modifiers) | GroupByExpr::All(modifiers)) = &select.group_by;
        for modifier in modifiers {
            let (clause, hint) = match modifier {
                GroupByWithModifier::Rollup => ("GROUP BY a WITH ROLLUP", "write GROUP BY ROLLUP (a)"),
                GroupByWithModifier::Cube => ("GROUP BY a WITH CUBE", "write GROUP BY CUBE (a)"),
                GroupByWithModifier::Totals => ("WITH TOTALS", "write GROUP BY ROLLUP (a)"),
                GroupByWithModifier::GroupingSets(_) => continue,
            };
            self.refuse_if(true, clause, hint);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            version,
            partitions,
            ..
        } = factor
        {
            let clause = format!("PARTITION of the table {name}");
            self.refuse_if(
                !partitions.is_empty(),
                &clause,
                "filter by the partition's column in WHERE",
            );
            let clause = format!("an earlier version of the table {name}");
            self.refuse_if(version.is_some(), &clause, "files have one version");
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && has_aggregate_clause(call)
        {
            let name = call.name.to_string().to_lowercase();
            let state = self.state;
            let is_scalar = state.udf(&name).is_ok() && state.udaf(&name).is_err() && state.udwf(&name).is_err();
            let clause = format!("DISTINCT, ORDER BY, FILTER or WITHIN GROUP of {name}");
            self.refuse_if(is_scalar, &clause, "it is no aggregate function");
        }
        if let Expr::Function(call) = expr
            && call.name.to_string().eq_ignore_ascii_case("unnest")
        {
            let is_recursive = matches!(&call.args, FunctionArguments::List(list) if list.args.len() > 1);
            let hint = "write SELECT s.* FROM (SELECT unnest(list) AS s FROM …)";
            self.refuse_if(is_recursive, "unnest with recursive or max_depth", hint);
        }
        ControlFlow::Continue(())
    }
}

/// Whether a call has a clause that scalar functions do not have.
fn has_aggregate_clause(call: &Function) -> bool {
    let has_list_clause = match &call.args {
        FunctionArguments::List(list) => list.duplicate_treatment.is_some() || !list.clauses.is_empty(),
        _ => false,
    };
    has_list_clause || call.filter.is_some() || !call.within_group.is_empty()
}
