//! SHOW TABLES of the user's tables, SHOW ALL TABLES with those of the information schema.
//!
//! DataFusion's SHOW TABLES is all of them, and it takes no pattern.

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ShowStatementFilter, ShowStatementFilterPosition, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

const COLUMNS: &str = "SELECT table_catalog, table_schema, table_name, table_type FROM information_schema.tables";
const ORDER: &str = "ORDER BY table_schema = 'information_schema', table_catalog, table_schema, table_name";

/// Puts a query in the place of SHOW TABLES, if the session has an information schema.
pub(super) fn query(state: &SessionState, statement: &mut Statement) {
    let Statement::Statement(shown) = statement else {
        return;
    };
    let Some(condition) = condition(shown).filter(|_| state.config_options().catalog.information_schema) else {
        return;
    };
    let text = format!("{COLUMNS} WHERE {condition} {ORDER}");
    let parsed = Parser::new(&GenericDialect {}).try_with_sql(&text);
    if let Ok(query) = parsed.and_then(|mut parser| parser.parse_statement()) {
        **shown = query;
    }
}

/// The condition of the shown tables. `None`: the statement is another, or DataFusion says why it is refused.
fn condition(statement: &SqlStatement) -> Option<String> {
    match statement {
        SqlStatement::ShowVariable { variable } => {
            let is_word = |place: usize, word: &str| variable[place].value.eq_ignore_ascii_case(word);
            (variable.len() == 2 && is_word(0, "all") && is_word(1, "tables")).then(|| "true".to_owned())
        }
        SqlStatement::ShowTables {
            terse: false,
            history: false,
            extended: false,
            full: false,
            external: false,
            show_options,
        } => {
            if show_options.starts_with.is_some() || show_options.limit.is_some() {
                return None;
            }
            let mut condition = match &show_options.show_in {
                None => "table_schema <> 'information_schema'".to_owned(),
                Some(within) => in_schema(within.parent_name.as_ref()?)?,
            };
            let pattern = show_options.filter_position.as_ref().map(|position| match position {
                ShowStatementFilterPosition::Infix(filter) | ShowStatementFilterPosition::Suffix(filter) => filter,
            });
            match pattern {
                None => {}
                Some(ShowStatementFilter::Like(pattern) | ShowStatementFilter::NoKeyword(pattern)) => {
                    condition.push_str(&format!(" AND table_name LIKE {}", quoted(pattern)));
                }
                Some(ShowStatementFilter::ILike(pattern)) => {
                    condition.push_str(&format!(" AND table_name ILIKE {}", quoted(pattern)));
                }
                Some(ShowStatementFilter::Where(filter)) => condition.push_str(&format!(" AND ({filter})")),
            }
            Some(condition)
        }
        _ => None,
    }
}

/// The condition of the tables of `schema` or `catalog.schema`.
fn in_schema(name: &ObjectName) -> Option<String> {
    let mut parts = name.0.iter().rev().map(|part| part.as_ident());
    let mut condition = is_named("table_schema", parts.next()??);
    if let Some(catalog) = parts.next() {
        condition.push_str(&format!(" AND {}", is_named("table_catalog", catalog?)));
    }
    Some(condition)
}

/// The condition that a column has this name. Letter case counts in quotation marks.
fn is_named(column: &str, name: &Ident) -> String {
    match name.quote_style {
        Some(_) => format!("{column} = {}", quoted(&name.value)),
        None => format!("lower({column}) = {}", quoted(&name.value.to_lowercase())),
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
