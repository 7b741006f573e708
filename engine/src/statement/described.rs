//! DESCRIBE with SQL's names of types. DataFusion answers with Arrow's names.

use datafusion::error::Result;
use datafusion::logical_expr::{DescribeTable, LogicalPlan, LogicalPlanBuilder, col, lit};

use crate::sql_functions::sql_type_name;

/// The plan, whose answer to DESCRIBE has names of SQL.
pub(super) fn with_sql_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::DescribeTable(DescribeTable { schema, output_schema }) = &plan else {
        return Ok(plan);
    };
    if schema.fields().is_empty() {
        return Ok(plan); // VALUES has a row
    }
    let rows = schema.fields().iter().map(|field| {
        let is_nullable = if field.is_nullable() { "YES" } else { "NO" };
        vec![
            lit(field.name().as_str()),
            lit(sql_type_name(field.data_type())),
            lit(is_nullable),
        ]
    });
    let names = output_schema.fields().iter().enumerate();
    let columns = names.map(|(place, field)| col(format!("column{}", place + 1)).alias(field.name()));
    LogicalPlanBuilder::values(rows.collect())?
        .project(columns.collect::<Vec<_>>())?
        .build()
}
