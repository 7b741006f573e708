//! `OrcTable`: ORC files as a DataFusion table. Each query lists the table's files anew.

use std::sync::Arc;

use arrow::datatypes::{Field, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{CreateExternalTable, Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};

use crate::config::GrampusOptions;
use crate::error::layout;
use crate::file::file_cache::{FileCache, OrcFile};
use crate::scan::planner::{ScanRequest, plan_scan};
use crate::table::files::TableFile;
use crate::table::listing::{FoundFile, find_files};
use crate::table::{hive_partitions, schema};

/// Files opened at the same time.
const CONCURRENT_OPENS: usize = 16;

/// ORC files as a DataFusion table.
#[derive(Debug)]
pub struct OrcTable {
    locations: Vec<String>,
    /// Columns of the files, then partition columns.
    schema: SchemaRef,
    partitions: Vec<Field>,
    cache: Arc<FileCache>,
}

impl OrcTable {
    /// Opens the files at `locations` (paths, folders, globs, URLs) as one table and checks that they have one schema.
    ///
    /// # Errors
    /// If there is no file, a file is no ORC file, or two schemas contradict each other. The error names the file and
    /// the column.
    pub async fn open(state: &dyn Session, locations: &[String]) -> Result<Self> {
        if locations.is_empty() {
            return plan_err!("an ORC table needs at least one location");
        }
        let cache = state.config().get_extension::<FileCache>().unwrap_or_default();
        let found = find_files(state, locations).await?;
        let files = open_files(&cache, &found).await?;
        let partitions = hive_partitions::infer_columns(&found)?;
        Ok(Self {
            locations: locations.to_vec(),
            schema: schema::table_schema(&files, &partitions)?,
            partitions,
            cache,
        })
    }

    /// The table's files as they are now.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if a file does not fit the table any more.
    pub async fn files(&self, state: &dyn Session) -> Result<Vec<TableFile>> {
        let found = find_files(state, &self.locations).await?;
        let files = open_files(&self.cache, &found).await?;
        let mut table_files = Vec::with_capacity(files.len());
        for (found, file) in found.iter().zip(files) {
            table_files.push(TableFile {
                columns: schema::map_columns(&file, &self.schema, self.file_columns())?,
                partition_values: hive_partitions::values(found, &self.partitions)?,
                file,
            });
        }
        Ok(table_files)
    }

    /// The columns that come from folder names, outermost first. They are the last columns of the schema.
    pub fn partition_columns(&self) -> &[Field] {
        &self.partitions
    }

    fn file_columns(&self) -> usize {
        self.schema.fields().len() - self.partitions.len()
    }
}

/// Opens several files at a time and returns them in the given order.
async fn open_files(cache: &FileCache, found: &[FoundFile]) -> Result<Vec<Arc<OrcFile>>> {
    let opens: Vec<_> = found
        .iter()
        .map(|file| cache.file(&file.name, &file.place, &file.identity))
        .collect();
    futures::stream::iter(opens)
        .buffered(CONCURRENT_OPENS)
        .try_collect()
        .await
        .map_err(layout)
}

#[async_trait]
impl TableProvider for OrcTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters
            .iter()
            .map(|filter| match is_scannable(filter) {
                true => TableProviderFilterPushDown::Exact,
                false => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let df_schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let mut physical = Vec::with_capacity(filters.len());
        for filter in filters {
            physical.push(state.create_physical_expr(filter.clone(), &df_schema)?);
        }
        let options = state.config_options().extensions.get::<GrampusOptions>();
        let scan = plan_scan(ScanRequest {
            table: Arc::clone(&self.schema),
            file_columns: self.file_columns(),
            files: self.files(state).await?,
            projection: projection
                .cloned()
                .unwrap_or_else(|| (0..self.schema.fields().len()).collect()),
            filters: physical,
            limit,
            target_partitions: state.config().target_partitions(),
            options: options.cloned().unwrap_or_default(),
            cache: Arc::clone(&self.cache),
        })
        .await?;
        Ok(Arc::new(scan))
    }
}

/// The table factory of `CREATE EXTERNAL TABLE … STORED AS ORC`.
#[derive(Debug)]
pub(crate) struct OrcTableFactory;

#[async_trait]
impl TableProviderFactory for OrcTableFactory {
    async fn create(&self, state: &dyn Session, command: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        if !command.schema.fields().is_empty() {
            return plan_err!("an ORC table has the columns of its files: leave out the column list");
        }
        let table = OrcTable::open(state, &command.locations).await?;
        let found = table.partition_columns();
        let named = &command.table_partition_cols;
        if !named.is_empty() && !named.iter().eq(found.iter().map(|field| field.name())) {
            let found: Vec<&str> = found.iter().map(|field| field.name().as_str()).collect();
            return plan_err!(
                "PARTITIONED BY ({}): the folders at {} are partitioned by ({})",
                named.join(", "),
                command.locations.join(", "),
                found.join(", ")
            );
        }
        Ok(Arc::new(table))
    }
}

/// Whether the scan can evaluate `filter`: the filter is not volatile and refers to nothing but the table's columns.
fn is_scannable(filter: &Expr) -> bool {
    if filter.is_volatile() {
        return false;
    }
    let mut is_scannable = true;
    let visited = filter.apply(|expr| {
        let foreign = matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::Unnest(_)
                | Expr::GroupingSet(_)
        );
        is_scannable &= !foreign;
        Ok(if foreign {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    visited.is_ok() && is_scannable
}
