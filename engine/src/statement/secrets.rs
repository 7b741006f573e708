//! [`hide`]: a statement without its secrets. Plans, definitions of tables and views, and logs are made of the rest.
//!
//! Secrets are passwords of URLs in the place of tables and files, and values of OPTIONS that are not known to be
//! harmless.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Statement as SqlStatement, TableFactor, Value, ValueWithSpan, VisitMut,
    VisitorMut,
};

use super::options::is_harmless;
use crate::redaction::without_passwords;
use crate::store::secrets::Secrets;

/// Takes the secrets out of a statement. The session keeps them.
pub(super) fn hide(state: &SessionState, statement: &mut Statement) {
    if let Some(secrets) = state.config().get_extension::<Secrets>() {
        Hiding { secrets: &secrets }.statement(statement);
    }
}

struct Hiding<'a> {
    secrets: &'a Secrets,
}

impl Hiding<'_> {
    fn statement(&mut self, statement: &mut Statement) {
        match statement {
            Statement::Statement(statement) => {
                // The visitor never stops early.
                let _ = statement.visit(self);
                match statement.as_mut() {
                    SqlStatement::ExplainTable { table_name, .. } => self.name(table_name),
                    SqlStatement::ShowCreate { obj_name, .. } => self.name(obj_name),
                    SqlStatement::ShowColumns { show_options, .. } => {
                        let place = show_options.show_in.as_mut();
                        if let Some(name) = place.and_then(|place| place.parent_name.as_mut()) {
                            self.name(name);
                        }
                    }
                    _ => {}
                }
            }
            Statement::Explain(explain) => self.statement(&mut explain.statement),
            Statement::CopyTo(copy) => {
                copy.target = self.secrets.hide_password(&copy.target);
                let (format, locations) = (copy.stored_as.as_deref(), std::slice::from_ref(&copy.target));
                self.options(&mut copy.options, format, locations);
                match &mut copy.source {
                    CopyToSource::Query(query) => {
                        let _ = query.visit(self);
                    }
                    CopyToSource::Relation(name) => self.name(name),
                }
            }
            Statement::CreateExternalTable(create) => {
                for location in &mut create.locations {
                    *location = self.secrets.hide_password(location);
                }
                self.options(&mut create.options, Some(&create.file_type), &create.locations);
            }
            Statement::Reset(_) => {}
        }
    }

    fn name(&self, name: &mut ObjectName) {
        for part in &mut name.0 {
            if let ObjectNamePart::Identifier(ident) = part {
                self.ident(ident);
            }
        }
    }

    fn ident(&self, ident: &mut Ident) {
        ident.value = self.secrets.hide_password(&ident.value);
    }

    fn options(&self, options: &mut [(String, Value)], format: Option<&str>, locations: &[String]) {
        for (name, value) in options {
            let text = match value {
                Value::SingleQuotedString(text)
                | Value::DoubleQuotedString(text)
                | Value::EscapedStringLiteral(text)
                | Value::UnicodeStringLiteral(text)
                | Value::NationalStringLiteral(text) => text.clone(),
                Value::DollarQuotedString(text) => text.value.clone(),
                Value::Number(..) => value.to_string(),
                _ => continue,
            };
            if !is_harmless(name, format) || without_passwords(&text) != text {
                *value = Value::SingleQuotedString(self.secrets.hide_option(name, locations, &text));
            }
        }
    }
}

/// The texts of a function's arguments.
struct Texts<'a>(&'a Secrets);

impl VisitorMut for Texts<'_> {
    type Break = ();

    fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let Value::SingleQuotedString(text) = &mut value.value {
            *text = self.0.hide_password(text);
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Hiding<'_> {
    type Break = ();

    /// Functions in FROM take URLs as texts.
    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { args: Some(call), .. } = factor {
            let _ = call.args.visit(&mut Texts(self.secrets)); // which never stops early
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        self.name(name);
        ControlFlow::Continue(())
    }
}
