//! `OrcTable`: ORC files as a DataFusion table. Each query lists the table's files anew.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, plan_err};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::physical_plan::{FileGroup, FileOutputMode, FileSinkConfig};
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use crate::config::GrampusOptions;
use crate::file::file_cache::FileCache;
use crate::orc_format::OrcFormat;
use crate::output::empty_file::empty_file;
use crate::redaction::without_passwords;
use crate::scan::planner::{ScanRequest, plan_scan};
use crate::store::store_location::listing_url;
use crate::table::files::TableFile;
use crate::table::folder_files::FolderFiles;
use crate::table::hive_partitions::{self, PartitionTypes};
use crate::table::listing::{FoundFile, local_path};
use crate::table::listings::{Freshness, files_at};
use crate::table::opened_files::{columns_of, open_files};
use crate::table::partition_filter;
use crate::table::schema::ColumnMaps;

/// Listings of a folder whose files others replace meanwhile.
const MAX_LISTINGS: usize = 8;

/// ORC files as a DataFusion table.
#[derive(Debug)]
pub struct OrcTable {
    locations: Vec<String>,
    /// Columns of the files, then partition columns.
    schema: SchemaRef,
    partitions: Vec<Field>,
    partition_types: PartitionTypes,
    cache: Arc<FileCache>,
    /// OPTIONS of the files that INSERT INTO adds.
    write_options: HashMap<String, String>,
    /// The statement that made the table, without secrets.
    definition: Option<String>,
    /// Whether the table's columns are declared, so that it may have no files.
    is_declared: bool,
    /// The files that INSERT OVERWRITE may replace, as listed before the statement's plan was made.
    replaced: Option<Arc<FolderFiles>>,
}

impl OrcTable {
    /// Opens the files at `locations` (paths, folders, globs, URLs) as one table and checks that they have one schema.
    ///
    /// # Errors
    /// If there is no file, a file is no ORC file, or two schemas contradict each other. The error names the file and
    /// the column.
    pub async fn open(state: &dyn Session, locations: &[String]) -> Result<Self> {
        Self::open_partitioned(state, locations, &[]).await
    }

    /// As [`open`](Self::open), with the types of partition columns that a statement declares, or none.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if a folder's value does not fit its declared type.
    pub(crate) async fn open_partitioned(
        state: &dyn Session,
        locations: &[String],
        declared: &[Field],
    ) -> Result<Self> {
        if locations.is_empty() {
            return plan_err!("an ORC table needs at least one location");
        }
        let cache = state.config().get_extension::<FileCache>().unwrap_or_default();
        let mut listings = 1;
        let mut freshness = Freshness::OfStatement;
        let (found, files) = loop {
            let found = files_at(state, locations, false, freshness).await?;
            if found.is_empty() {
                return plan_err!(
                    "{}: all files there are empty (0 bytes), so the table's columns are unknown",
                    without_passwords(&locations.join(", "))
                );
            }
            match open_files(&cache, &found).await {
                Err(_) if listings < MAX_LISTINGS && found.iter().any(FoundFile::is_gone) => {
                    listings += 1;
                    freshness = Freshness::New;
                }
                files => break (found, files?),
            }
        };
        let partitions = hive_partitions::columns_of(&found, declared)?;
        let partition_types = match declared.is_empty() {
            true => PartitionTypes::Inferred,
            false => PartitionTypes::Declared,
        };
        if partition_types == PartitionTypes::Declared {
            for file in found.iter() {
                hive_partitions::values(file, &partitions, partition_types)?;
            }
        }
        Ok(Self {
            locations: locations.to_vec(),
            schema: columns_of(state, &files, &partitions)?,
            partitions,
            partition_types,
            cache,
            write_options: HashMap::new(),
            definition: None,
            is_declared: false,
            replaced: None,
        })
    }

    /// A table of declared columns over a folder that has no files yet. The types are those that files of these columns
    /// are read with: an ORC file keeps no unsigned integers, for one.
    ///
    /// # Errors
    /// If ORC has no type for a column.
    pub(crate) async fn declare(
        state: &dyn Session,
        folder: &str,
        columns: &Schema,
        partitions: Vec<Field>,
    ) -> Result<Self> {
        let file = empty_file(columns)?;
        let like = Self::open(state, &[file.path().display().to_string()]).await?;
        let fields = like.schema.fields().iter().cloned();
        let fields: Fields = fields.chain(partitions.iter().cloned().map(Arc::new)).collect();
        Ok(Self {
            locations: vec![folder.to_owned()],
            schema: Arc::new(Schema::new_with_metadata(fields, like.schema.metadata().clone())),
            partitions,
            partition_types: PartitionTypes::Declared,
            is_declared: true,
            ..like
        })
    }

    /// The table, which may lose all its files, with the OPTIONS of files that INSERT INTO adds.
    pub(crate) fn with_options(mut self, write_options: &HashMap<String, String>, is_declared: bool) -> Self {
        self.write_options.clone_from(write_options);
        self.is_declared = is_declared;
        self
    }

    /// The table with the statement that made it, for SHOW CREATE TABLE.
    pub(crate) fn with_definition(mut self, definition: String) -> Self {
        self.definition = Some(definition);
        self
    }

    /// The same table, whose INSERT OVERWRITE replaces its files as they are now, and no others. `None`: the table is
    /// not a single folder.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub(crate) fn with_files_to_replace(&self) -> Result<Option<Self>> {
        let [location] = self.locations.as_slice() else {
            return Ok(None);
        };
        let Some(folder) = local_path(location).filter(|folder| !folder.is_file()) else {
            return Ok(None);
        };
        Ok(Some(Self {
            locations: self.locations.clone(),
            schema: Arc::clone(&self.schema),
            partitions: self.partitions.clone(),
            partition_types: self.partition_types,
            cache: Arc::clone(&self.cache),
            write_options: self.write_options.clone(),
            definition: self.definition.clone(),
            is_declared: self.is_declared,
            replaced: Some(Arc::new(FolderFiles::of(&folder)?)),
        }))
    }

    /// The table's files as they are now.
    ///
    /// # Errors
    /// As [`open`](Self::open), and if a file does not fit the table any more.
    pub async fn files(&self, state: &dyn Session) -> Result<Vec<TableFile>> {
        Ok(self.matching_files(state, &[]).await?.0)
    }

    /// The files for whose partition values all `filters` are true, and the number of the others, which are not opened.
    ///
    /// If a statement replaces the folder between listing and opening, the files are listed anew.
    async fn matching_files(
        &self,
        state: &dyn Session,
        filters: &[Arc<dyn PhysicalExpr>],
    ) -> Result<(Vec<TableFile>, usize)> {
        let mut listings = 1;
        let mut freshness = Freshness::OfStatement;
        loop {
            let found = files_at(state, &self.locations, self.is_declared, freshness).await?;
            let opened = self.open_matching(&found, filters).await;
            if opened.is_err() && listings < MAX_LISTINGS && found.iter().any(FoundFile::is_gone) {
                listings += 1;
                freshness = Freshness::New;
                continue;
            }
            return opened;
        }
    }

    async fn open_matching(
        &self,
        found: &[FoundFile],
        filters: &[Arc<dyn PhysicalExpr>],
    ) -> Result<(Vec<TableFile>, usize)> {
        let mut values = Vec::with_capacity(found.len());
        for file in found {
            values.push(hive_partitions::values(file, &self.partitions, self.partition_types)?);
        }
        let keep = partition_filter::matching(filters, &self.partitions, &values)?;
        retain(&mut values, &keep);
        let excluded = found.len() - values.len();
        let files = match excluded {
            0 => open_files(&self.cache, found).await?,
            _ => {
                let kept = found.iter().zip(&keep).filter(|(_, keep)| **keep);
                let kept: Vec<FoundFile> = kept.map(|(file, _)| file.clone()).collect();
                open_files(&self.cache, &kept).await?
            }
        };
        let mut maps = ColumnMaps::default();
        let mut table_files = Vec::with_capacity(files.len());
        for (file, partition_values) in files.into_iter().zip(values) {
            table_files.push(TableFile {
                columns: maps.of(&file, &self.schema, self.file_columns())?,
                partition_values,
                file,
            });
        }
        Ok((table_files, excluded))
    }

    /// The columns that come from folder names, outermost first. They are the last columns of the schema.
    pub fn partition_columns(&self) -> &[Field] {
        &self.partitions
    }

    fn file_columns(&self) -> usize {
        self.schema.fields().len() - self.partitions.len()
    }
}

/// Removes the items for which `keep` is false.
fn retain<T>(items: &mut Vec<T>, keep: &[bool]) {
    let mut keep = keep.iter();
    items.retain(|_| keep.next().is_none_or(|keep| *keep));
}

#[async_trait]
impl TableProvider for OrcTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.definition.as_deref()
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
        let (file_filters, row_filters) = partition_filter::split(&physical, self.file_columns());
        let (files, excluded_files) = self.matching_files(state, &file_filters).await?;
        let options = state.config_options().extensions.get::<GrampusOptions>();
        let scan = plan_scan(ScanRequest {
            table: Arc::clone(&self.schema),
            files,
            excluded_files,
            part: None,
            projection: projection
                .cloned()
                .unwrap_or_else(|| (0..self.schema.fields().len()).collect()),
            filters: row_filters,
            limit,
            target_partitions: state.config().target_partitions(),
            default_selectivity: state.config_options().optimizer.default_filter_selectivity,
            options: options.cloned().unwrap_or_default(),
            cache: Arc::clone(&self.cache),
        })
        .await?;
        Ok(Arc::new(scan))
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [location] = self.locations.as_slice() else {
            return plan_err!(
                "INSERT INTO a table of {} locations: a new file needs one folder",
                self.locations.len()
            );
        };
        let is_folder = location.ends_with('/') || Path::new(location).is_dir();
        if !is_folder || location.contains(['*', '?', '[']) {
            return plan_err!(
                "{} is no folder: INSERT INTO adds a file to a folder; COPY writes a single file",
                without_passwords(location)
            );
        }
        let url = listing_url(&format!("{}/", location.trim_end_matches('/')))?;
        let partitions = self.partitions.iter();
        let config = FileSinkConfig {
            original_url: location.clone(),
            object_store_url: url.object_store(),
            file_group: FileGroup::default(),
            table_paths: vec![url],
            output_schema: self.schema(),
            table_partition_cols: partitions
                .map(|field| (field.name().clone(), field.data_type().clone()))
                .collect(),
            insert_op,
            keep_partition_by_columns: false,
            file_extension: "orc".to_owned(),
            file_output_mode: FileOutputMode::Directory,
        };
        let format = OrcFormat::with_options(&self.write_options)?;
        match &self.replaced {
            Some(replaced) if insert_op == InsertOp::Overwrite => {
                format.sink(input, config, None, Some(Arc::clone(replaced)))
            }
            _ => format.create_writer_physical_plan(input, state, config, None).await,
        }
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
