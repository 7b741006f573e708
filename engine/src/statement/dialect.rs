//! The SQL dialect of the setting `datafusion.sql_parser.dialect`.
//!
//! DataFusion's `generic` gets forms that none of its own forms contradicts: lambdas (`x -> x + 1`, `lambda x: x + 1`),
//! `ORDER BY ALL`, `NOTNULL` and trailing commas.

use datafusion::common::plan_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::dialect::{Dialect, dialect_from_str};
use sqlparser::derive_dialect;
use sqlparser::dialect::GenericDialect;

derive_dialect!(
    GrampusDialect,
    GenericDialect,
    preserve_type_id = true,
    overrides = {
        supports_lambda_functions = true,
        supports_order_by_all = true,
        supports_notnull_operator = true,
        supports_trailing_commas = true,
    }
);

/// The dialect of a session.
///
/// # Errors
/// If no dialect has the setting's name.
pub(super) fn of_session(state: &SessionState) -> Result<Box<dyn Dialect>> {
    let name = state.config_options().sql_parser.dialect;
    let found = dialect_from_str(name).ok_or_else(|| plan_datafusion_err!("there is no SQL dialect named {name}"))?;
    match found.is::<GenericDialect>() {
        true => Ok(Box::new(GrampusDialect::new())),
        false => Ok(found),
    }
}
