//! [`GroupPruning`]: row groups and pages of one file that statistics and bloom filters exclude.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::compute::{SortOptions, sort_to_indices};
use arrow::datatypes::SchemaRef;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    BloomFilterStatistics, PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics, RowGroupAccess,
    RowGroupAccessPlanFilter,
};
use datafusion::error::Result;
use datafusion::parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, RowSelection};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::arrow::{ParquetRecordBatchStreamBuilder, parquet_column};
use datafusion::parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

/// A row group to be read, and its rows that pages do not exclude.
#[derive(Debug)]
pub(super) struct PlannedGroup {
    pub(super) group: usize,
    pub(super) selection: Option<RowSelection>,
}

/// What statistics may exclude. The settings are those of DataFusion's source.
#[derive(Debug, Clone)]
pub(super) struct PruningSettings {
    pub(super) by_statistics: bool,
    pub(super) by_bloom_filters: bool,
    pub(super) by_pages: bool,
    pub(super) max_in_list_size: usize,
}

/// The part of a file's filter that statistics decide.
#[derive(Debug)]
pub(super) struct GroupPruning {
    predicate: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    settings: PruningSettings,
    generation: u64,
    now: Option<Arc<PruningPredicate>>,
}

impl GroupPruning {
    pub(super) fn new(predicate: Arc<dyn PhysicalExpr>, schema: SchemaRef, settings: PruningSettings) -> Self {
        Self {
            generation: snapshot_generation(&predicate),
            now: pruning_predicate(&predicate, &schema, &settings),
            predicate,
            schema,
            settings,
        }
    }

    /// Whether statistics exclude a row group by the filter as it is now.
    pub(super) fn excludes(&mut self, metadata: &ArrowReaderMetadata, group: usize) -> bool {
        if !self.settings.by_statistics {
            return false;
        }
        let generation = snapshot_generation(&self.predicate);
        if generation != self.generation {
            self.generation = generation;
            self.now = pruning_predicate(&self.predicate, &self.schema, &self.settings);
        }
        let Some(predicate) = &self.now else {
            return false;
        };
        let groups = metadata.metadata().row_groups();
        let mut plan = ParquetAccessPlan::new_none(groups.len());
        plan.scan(group);
        let mut left = RowGroupAccessPlanFilter::new(plan);
        // Not counted twice.
        let metrics = ParquetFileMetrics::new(0, "", &ExecutionPlanMetricsSet::new());
        left.prune_by_statistics(&self.schema, metadata.parquet_schema(), groups, predicate, &metrics);
        !has_groups(&left)
    }

    /// The row groups of `file` that are left. Loads bloom filters, and page indexes into `metadata`.
    pub(super) async fn plan(
        &self,
        file: &PartitionedFile,
        metadata: &mut ArrowReaderMetadata,
        options: ArrowReaderOptions,
        mut reader: Box<dyn AsyncFileReader>,
        metrics: &ParquetFileMetrics,
    ) -> Result<VecDeque<PlannedGroup>> {
        let mut left = groups_of_range(file, metadata);
        if let Some(predicate) = &self.now {
            let groups = metadata.metadata().row_groups();
            if self.settings.by_statistics {
                left.prune_by_statistics(&self.schema, metadata.parquet_schema(), groups, predicate, metrics);
            }
            let pages = PagePruningAccessPlanFilter::new(&self.predicate, Arc::clone(&self.schema));
            let by_pages = self.settings.by_pages && pages.filter_number() > 0 && has_groups(&left);
            if by_pages {
                load_page_index(metadata, &mut reader, options).await?;
            }
            if self.settings.by_bloom_filters && has_groups(&left) {
                let filters = self.bloom_filters(predicate, &left, metadata, reader, metrics).await;
                left.prune_by_bloom_filters(predicate, metrics, &filters);
            }
            let plan = left.build();
            let plan = match by_pages {
                true => {
                    let all = metadata.metadata();
                    pages.prune_plan_with_page_index(plan, &self.schema, metadata.parquet_schema(), all, metrics)
                }
                false => plan,
            };
            return Ok(planned(plan));
        }
        Ok(planned(left.build()))
    }

    /// Bloom filters of the row groups that are left; none for those that cannot be read.
    async fn bloom_filters(
        &self,
        predicate: &PruningPredicate,
        left: &RowGroupAccessPlanFilter,
        metadata: &ArrowReaderMetadata,
        reader: Box<dyn AsyncFileReader>,
        metrics: &ParquetFileMetrics,
    ) -> Vec<BloomFilterStatistics> {
        let mut filters = vec![BloomFilterStatistics::new(); metadata.metadata().num_row_groups()];
        let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, metadata.clone());
        for name in predicate.literal_columns() {
            let Some((leaf, _)) = parquet_column(metadata.parquet_schema(), &self.schema, &name) else {
                continue;
            };
            let stored = metadata.parquet_schema().column(leaf);
            for group in left.row_group_indexes() {
                match builder.get_row_group_column_bloom_filter(group, leaf).await {
                    Ok(Some(filter)) => {
                        filters[group].insert(&name, filter, stored.physical_type(), stored.type_length());
                    }
                    Ok(None) => {}
                    Err(_) => metrics.predicate_evaluation_errors.add(1),
                }
            }
        }
        filters
    }
}

/// Whether a row group is left. `is_empty` asks for something else: whether the file has row groups.
fn has_groups(left: &RowGroupAccessPlanFilter) -> bool {
    left.row_group_indexes().next().is_some()
}

/// All row groups that begin in the file's range.
pub(super) fn all_groups(file: &PartitionedFile, metadata: &ArrowReaderMetadata) -> VecDeque<PlannedGroup> {
    planned(groups_of_range(file, metadata).build())
}

fn groups_of_range(file: &PartitionedFile, metadata: &ArrowReaderMetadata) -> RowGroupAccessPlanFilter {
    let groups = metadata.metadata().row_groups();
    let mut left = RowGroupAccessPlanFilter::new(ParquetAccessPlan::new_all(groups.len()));
    if let Some(range) = &file.range {
        left.prune_by_range(groups, range);
    }
    left
}

fn planned(plan: ParquetAccessPlan) -> VecDeque<PlannedGroup> {
    let groups = plan.into_inner().into_iter().enumerate();
    let planned = groups.filter_map(|(group, access)| {
        let selection = match access {
            RowGroupAccess::Skip => return None,
            RowGroupAccess::Scan => None,
            RowGroupAccess::Selection(selection) => Some(selection),
        };
        Some(PlannedGroup { group, selection })
    });
    planned.collect()
}

/// Row groups with the first rows of an order first, as far as bounds tell. A sort above the scan makes the order.
pub(super) fn in_order(
    mut groups: VecDeque<PlannedGroup>,
    order: &LexOrdering,
    schema: &SchemaRef,
    metadata: &ArrowReaderMetadata,
) -> VecDeque<PlannedGroup> {
    let first = order.first();
    let Some(column) = first.expr.downcast_ref::<Column>() else {
        return groups;
    };
    let Ok(bounds) = StatisticsConverter::try_new(column.name(), schema, metadata.parquet_schema()) else {
        return groups;
    };
    let stored = groups
        .iter()
        .map(|planned| metadata.metadata().row_group(planned.group));
    let values = match first.options.descending {
        true => bounds.row_group_maxes(stored),
        false => bounds.row_group_mins(stored),
    };
    let options = SortOptions {
        descending: first.options.descending,
        nulls_first: false,
    };
    let Some(places) = values
        .ok()
        .and_then(|values| sort_to_indices(&values, Some(options), None).ok())
    else {
        return groups;
    };
    let mut taken: Vec<Option<PlannedGroup>> = groups.drain(..).map(Some).collect();
    let sorted = places.values().iter();
    sorted
        .filter_map(|&place| taken.get_mut(place as usize).and_then(Option::take))
        .collect()
}

fn pruning_predicate(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    settings: &PruningSettings,
) -> Option<Arc<PruningPredicate>> {
    PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .with_max_in_list_size(settings.max_in_list_size)
        .build(Arc::clone(predicate))
}

/// Loads the page indexes, if the file has some and the reader has not given them already.
async fn load_page_index(
    metadata: &mut ArrowReaderMetadata,
    reader: &mut Box<dyn AsyncFileReader>,
    options: ArrowReaderOptions,
) -> Result<()> {
    let stored = metadata.metadata();
    let mut chunks = stored.row_groups().iter().flat_map(|group| group.columns());
    let has_index = chunks.any(|chunk| chunk.column_index_offset().is_some());
    if !has_index || stored.column_index().is_some() && stored.offset_index().is_some() {
        return Ok(());
    }
    let mut loader = ParquetMetaDataReader::new_with_metadata(stored.as_ref().clone())
        .with_page_index_policy(PageIndexPolicy::Optional);
    loader.load_page_index(reader).await?;
    *metadata = ArrowReaderMetadata::try_new(Arc::new(loader.finish()?), options)?;
    Ok(())
}
