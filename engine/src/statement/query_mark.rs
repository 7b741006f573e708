//! Marks of queries: what the SQL parser does not read of a statement, as a pipe operator of its query that DataFusion
//! does not plan. Names are matched in the query as ever.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Function, FunctionArguments, Ident, ObjectName, PipeOperator, Query, Statement as SqlStatement,
};

/// Marks a query, also one that is explained, with a name and a text. Other statements stay as they are.
pub(super) fn mark(statement: &mut Statement, name: &str, text: Option<&str>) {
    let Some(query) = query_of(statement) else { return };
    query.pipe_operators.push(PipeOperator::Call {
        function: Function {
            name: ObjectName::from(vec![Ident::new(name)]),
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::None,
            filter: None,
            null_treatment: None,
            over: None,
            within_group: Vec::new(),
        },
        alias: text.map(Ident::new),
    });
}

/// Takes a mark off a query. `None`: the query has none of this name.
pub(super) fn take(statement: &mut Statement, name: &str) -> Option<Option<String>> {
    let operators = &mut query_of(statement)?.pipe_operators;
    let is_mark = |operator: &mut PipeOperator| match operator {
        PipeOperator::Call { function, .. } => function.name.to_string() == name,
        _ => false,
    };
    match operators.pop_if(is_mark)? {
        PipeOperator::Call { alias, .. } => Some(alias.map(|text| text.value)),
        _ => None,
    }
}

fn query_of(statement: &mut Statement) -> Option<&mut Query> {
    match statement {
        Statement::Statement(statement) => match statement.as_mut() {
            SqlStatement::Query(query) => Some(query),
            _ => None,
        },
        Statement::Explain(explain) => query_of(&mut explain.statement),
        _ => None,
    }
}
