//! `DecodedScanExec`: a scan that has arrived with a plan.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{internal_err, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::{EmptyRecordBatchStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use datafusion_proto::physical_plan::{PhysicalPlanDecodeContext, PhysicalProtoConverterExtension};
use futures::TryStreamExt;
use tokio::sync::OnceCell;

use super::message::ScanMessage;
use crate::config::GrampusOptions;
use crate::file::file_cache::FileCache;
use crate::plan_methods::leaf_plan;
use crate::scan::orc_scan_exec::OrcScanExec;
use crate::scan::planner::{ScanRequest, plan_scan};
use crate::table::files::TableFile;
use crate::table::opened_files::open_files;
use crate::table::schema::ColumnMaps;

/// A scan whose files are opened when it is executed first.
#[derive(Debug)]
pub(crate) struct DecodedScanExec {
    scan: Arc<ArrivedScan>,
    planned: Arc<OnceCell<OrcScanExec>>,
    properties: Arc<PlanProperties>,
}

/// A message, with its parts decoded.
#[derive(Debug)]
struct ArrivedScan {
    message: ScanMessage,
    table: SchemaRef,
    projection: Vec<usize>,
    conjuncts: Vec<Arc<dyn PhysicalExpr>>,
}

impl DecodedScanExec {
    /// # Errors
    /// If the message is damaged.
    pub(super) fn try_new(
        message: ScanMessage,
        context: &PhysicalPlanDecodeContext<'_>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Self> {
        let table = message.table.as_ref();
        let table = table.ok_or_else(|| plan_datafusion_err!("the message of a scan has no columns"))?;
        let table = Arc::new(Schema::try_from(table)?);
        let columns = table.fields().len();
        let projection: Vec<usize> = message.projection.iter().map(|&column| column as usize).collect();
        let is_sound = projection.iter().all(|&column| column < columns)
            && message.file_columns <= columns as u64
            && (1..=u64::from(u16::MAX)).contains(&message.partitions);
        if !is_sound {
            return plan_err!("the message of a scan is damaged");
        }
        let conjuncts = message.conjuncts.iter();
        let conjuncts = conjuncts.map(|conjunct| converter.proto_to_physical_expr(conjunct, &table, context));
        let conjuncts = conjuncts.collect::<Result<_>>()?;
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::new(table.project(&projection)?)),
            Partitioning::UnknownPartitioning(message.partitions as usize),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            scan: Arc::new(ArrivedScan {
                message,
                table,
                projection,
                conjuncts,
            }),
            planned: Arc::default(),
            properties: Arc::new(properties),
        })
    }

    pub(super) fn message(&self) -> &ScanMessage {
        &self.scan.message
    }
}

impl ArrivedScan {
    /// Opens the files and plans the scan.
    async fn plan(&self, context: &TaskContext) -> Result<OrcScanExec> {
        let (message, config) = (&self.message, context.session_config());
        let cache = config.get_extension::<FileCache>().unwrap_or_default();
        let found = message.files.iter().map(|file| file.found(context));
        let opened = open_files(&cache, &found.collect::<Result<Vec<_>>>()?).await?;
        let mut maps = ColumnMaps::default();
        let mut files = Vec::with_capacity(opened.len());
        for (file, arrived) in opened.into_iter().zip(&message.files) {
            let partition_values = arrived.partition_values()?;
            if partition_values.len() as u64 + message.file_columns != self.table.fields().len() as u64 {
                return plan_err!("the message of a scan is damaged");
            }
            files.push(TableFile {
                columns: maps.of(&file, &self.table, message.file_columns as usize)?,
                partition_values,
                file,
            });
        }
        let options = config.options().extensions.get::<GrampusOptions>();
        plan_scan(ScanRequest {
            table: Arc::clone(&self.table),
            files,
            excluded_files: 0,
            part: None,
            projection: self.projection.clone(),
            filters: self.conjuncts.clone(),
            limit: message.limit.map(|limit| limit as usize),
            target_partitions: message.partitions as usize,
            default_selectivity: config.options().optimizer.default_filter_selectivity,
            options: GrampusOptions {
                invalid_utf8: message.invalid_utf8.parse()?,
                ..options.cloned().unwrap_or_default()
            },
            cache,
        })
        .await
    }
}

impl DisplayAs for DecodedScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scan = &self.scan;
        let columns = scan.projection.iter().map(|&column| scan.table.field(column).name());
        let columns: Vec<&str> = columns.map(String::as_str).collect();
        let filter = scan.conjuncts.iter().map(|conjunct| fmt_sql(conjunct.as_ref()));
        let filter: Vec<String> = filter.map(|sql| sql.to_string()).collect();
        write!(f, "DecodedScanExec: files={}", scan.message.files.len())?;
        write!(f, ", columns=[{}]", columns.join(", "))?;
        if !filter.is_empty() {
            write!(f, ", filter=[{}]", filter.join(", "))?;
        }
        if let Some(limit) = scan.message.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for DecodedScanExec {
    fn name(&self) -> &'static str {
        "DecodedScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    leaf_plan!();

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for conjunct in &self.scan.conjuncts {
            if f(conjunct)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.scan.message.partitions as usize;
        if partition >= partitions {
            return internal_err!("DecodedScanExec has {partitions} partitions, not {partition}");
        }
        let (scan, planned, schema) = (Arc::clone(&self.scan), Arc::clone(&self.planned), self.schema());
        let stream = futures::stream::once(async move {
            let planned = planned.get_or_try_init(|| scan.plan(&context)).await?;
            // Row groups are divided anew: there may be fewer partitions.
            match partition < planned.work().len() {
                true => planned.execute(partition, context),
                false => Ok(Box::pin(EmptyRecordBatchStream::new(planned.schema())) as SendableRecordBatchStream),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream.try_flatten())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.planned.get().and_then(ExecutionPlan::metrics)
    }
}
