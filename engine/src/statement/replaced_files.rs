//! [`ReplacedFiles`]: an analyzer rule that lists the files which INSERT OVERWRITE replaces, before the statement's
//! scans list any.
//!
//! The statement replaces the files only if the folder has the same ones in the end. Then no file came that a scan of
//! the statement did not read.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, LogicalPlan, WriteOp};
use datafusion::optimizer::AnalyzerRule;

use crate::orc_table::OrcTable;

/// The rule.
#[derive(Debug)]
pub(crate) struct ReplacedFiles;

impl AnalyzerRule for ReplacedFiles {
    fn name(&self) -> &str {
        "replaced_files"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let listed = plan.transform_down(|plan| match plan {
            LogicalPlan::Dml(statement) if statement.op == WriteOp::Insert(InsertOp::Overwrite) => {
                let statement = with_files_to_replace(statement)?;
                Ok(statement.update_data(LogicalPlan::Dml))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(listed?.data)
    }
}

fn with_files_to_replace(mut statement: DmlStatement) -> Result<Transformed<DmlStatement>> {
    let Ok(table) = source_as_provider(&statement.target) else {
        return Ok(Transformed::no(statement));
    };
    let listed = table.downcast_ref::<OrcTable>().map(OrcTable::with_files_to_replace);
    let Some(listed) = listed.transpose()?.flatten() else {
        return Ok(Transformed::no(statement));
    };
    statement.target = provider_as_source(Arc::new(listed));
    Ok(Transformed::yes(statement))
}
