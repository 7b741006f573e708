//! [`TypeNames`]: types that DataFusion's SQL does not know, as types that it has.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast;

/// `HUGEINT` is a decimal of 38 digits, `JSON` text, and `BLOB` bytes.
#[derive(Debug)]
pub(super) struct TypeNames;

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>> {
        let found = match sql_type {
            ast::DataType::HugeInt | ast::DataType::UHugeInt => DataType::Decimal128(38, 0),
            ast::DataType::JSON => DataType::Utf8,
            ast::DataType::Blob(_) => DataType::Binary,
            _ => return Ok(None),
        };
        Ok(Some(Arc::new(Field::new("", found, true))))
    }
}
