//! [`RenameTable`]: a table in the catalog's spelling.

use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, ObjectType, Query, Statement as SqlStatement, TableAlias, TableFactor,
    TableObject, VisitMut, VisitorMut,
};

/// Whether a kind of object is a table or a view.
pub(super) fn is_relation(object: &ObjectType) -> bool {
    matches!(object, ObjectType::Table | ObjectType::View)
}

/// Whether an unquoted identifier is read as `name`.
pub(super) fn is_name(ident: &Ident, name: &str) -> bool {
    ident.quote_style.is_none() && ident.value.to_ascii_lowercase() == name
}

pub(super) fn respell(ident: &mut Ident, spelling: &str) {
    ident.value = spelling.to_owned();
    ident.quote_style = Some('"');
}

/// The last part of a name.
pub(super) fn last(name: &mut ObjectName) -> Option<&mut Ident> {
    match name.0.last_mut()? {
        ObjectNamePart::Identifier(ident) => Some(ident),
        ObjectNamePart::Function(_) => None,
    }
}

/// Respells a table. The alias is the name as DataFusion reads it, so that qualified columns keep their meaning.
pub(super) struct RenameTable<'a> {
    pub(super) name: &'a str,
    pub(super) spelling: &'a str,
    /// Names of the common table expressions in scope.
    pub(super) ctes: Vec<String>,
}

impl RenameTable<'_> {
    fn is_table(&self, name: &mut ObjectName) -> bool {
        last(name).is_some_and(|ident| is_name(ident, self.name))
    }

    fn respell(&self, name: &mut ObjectName) {
        if let Some(ident) = last(name).filter(|ident| is_name(ident, self.name)) {
            respell(ident, self.spelling);
        }
    }

    /// Respells the tables that a statement names outside of queries.
    pub(super) fn targets(&self, statement: &mut Statement) {
        match statement {
            Statement::Statement(statement) => match statement.as_mut() {
                SqlStatement::Insert(insert) => {
                    if let TableObject::TableName(name) = &mut insert.table {
                        self.respell(name);
                    }
                }
                SqlStatement::ExplainTable { table_name, .. } => self.respell(table_name),
                SqlStatement::ShowCreate { obj_name, .. } => self.respell(obj_name),
                SqlStatement::ShowColumns { show_options, .. } => {
                    let place = show_options.show_in.as_mut();
                    if let Some(name) = place.and_then(|place| place.parent_name.as_mut()) {
                        self.respell(name);
                    }
                }
                SqlStatement::Drop { object_type, names, .. } if is_relation(object_type) => {
                    names.iter_mut().for_each(|name| self.respell(name));
                }
                _ => {}
            },
            Statement::Explain(explain) => self.targets(&mut explain.statement),
            Statement::CopyTo(copy) => {
                if let CopyToSource::Relation(name) = &mut copy.source {
                    self.respell(name);
                }
            }
            Statement::CreateExternalTable(_) | Statement::Reset(_) => {}
        }
    }
}

impl VisitorMut for RenameTable<'_> {
    type Break = ();

    /// A common table expression hides a table from the queries after it, but not from its own query.
    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                if !with.recursive {
                    cte.query.visit(self)?;
                }
                let name = &cte.alias.name;
                self.ctes.push(match name.quote_style {
                    None => name.value.to_ascii_lowercase(),
                    Some(_) => name.value.clone(),
                });
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let own = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        self.ctes.truncate(self.ctes.len() - own);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, .. } = factor
            && self.is_table(name)
            && !(name.0.len() == 1 && self.ctes.iter().any(|cte| cte == self.name))
        {
            self.respell(name);
            alias.get_or_insert_with(|| TableAlias {
                explicit: true,
                name: Ident::with_quote('"', self.name),
                columns: Vec::new(),
                at: None,
            });
        }
        ControlFlow::Continue(())
    }
}
