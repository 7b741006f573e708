//! OPTIONS of statements that name stores: [`StoreTables`], a table factory of `CREATE EXTERNAL TABLE`, and
//! [`StoreCopies`], an analyzer rule for `COPY … TO`.
//!
//! Both give the statement a store of its own, which no other statement uses.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::config::ConfigOptions;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{CreateExternalTable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::options::{Statement, split};
use crate::file_table;
use crate::store::lazy_stores::LazyStores;
use crate::store::secrets::Secrets;

/// A table factory whose OPTIONS may configure stores. Misspelt OPTIONS are errors.
#[derive(Debug)]
pub(crate) struct StoreTables {
    pub(crate) tables: Arc<dyn TableProviderFactory>,
    pub(crate) stores: Arc<LazyStores>,
}

#[async_trait]
impl TableProviderFactory for StoreTables {
    async fn create(&self, state: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let format = &command.file_type;
        refuse_partitions_alone(command)?;
        let given = revealed(&command.options, &command.locations, self.stores.secrets());
        let (options, others) = split(Statement::CreateTable, format, &command.locations, &given)?;
        let mut command = command.clone();
        command.options = others;
        if let Some(compression) = file_table::compression_of(format, &command.locations) {
            command
                .options
                .entry("format.compression".to_owned())
                .or_insert(compression.to_owned());
        }
        for location in &mut command.locations {
            *location = self.stores.locate(location, &options);
        }
        self.tables.create(state, &command).await
    }
}

/// Refuses types of partition columns without other columns: DataFusion's table would have none of the files' columns.
/// ORC tables have them.
fn refuse_partitions_alone(command: &CreateExternalTable) -> Result<()> {
    let (fields, partitions) = (command.schema.fields(), &command.table_partition_cols);
    let is_alone = !fields.is_empty() && fields.iter().all(|field| partitions.contains(field.name()));
    if is_alone && !command.file_type.eq_ignore_ascii_case("orc") {
        let names = partitions.join(", ");
        return plan_err!(
            "types of partition columns need the columns of the files too: list all columns, or write PARTITIONED BY \
             ({names}) without types"
        );
    }
    Ok(())
}

/// The options with the secrets that the statement was given ([`hide`](super::secrets::hide)).
fn revealed(options: &HashMap<String, String>, locations: &[String], secrets: &Secrets) -> HashMap<String, String> {
    let options = options.iter();
    let given = options.map(|(name, value)| (name.clone(), secrets.option(name, locations, value)));
    given.collect()
}

/// An analyzer rule that takes the stores' options out of `COPY … TO … OPTIONS (…)`.
#[derive(Debug)]
pub(crate) struct StoreCopies {
    pub(crate) stores: Arc<LazyStores>,
}

impl AnalyzerRule for StoreCopies {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let copied = plan.transform_down(|plan| match plan {
            LogicalPlan::Copy(copy) => Ok(Transformed::yes(LogicalPlan::Copy(self.located(copy)?))),
            other => Ok(Transformed::no(other)),
        });
        Ok(copied?.data)
    }

    fn name(&self) -> &str {
        "store_copies"
    }
}

impl StoreCopies {
    fn located(&self, copy: CopyTo) -> Result<CopyTo> {
        let format = copy.file_type.get_ext();
        let locations = std::slice::from_ref(&copy.output_url);
        let given = revealed(&copy.options, locations, self.stores.secrets());
        let (options, others) = split(Statement::Copy, &format, locations, &given)?;
        Ok(CopyTo {
            output_url: self.stores.locate(&copy.output_url, &options),
            options: others,
            ..copy
        })
    }
}
