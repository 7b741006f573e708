//! [`NewTable`]: a table that the catalog gets when the rows of its first insertion are complete.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::{internal_datafusion_err, not_impl_err};
use datafusion::datasource::TableType;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};

/// The table, which only insertions see.
#[derive(Debug, Clone)]
pub(super) struct NewTable {
    /// The name in the catalog.
    pub(super) name: String,
    pub(super) catalog: Arc<dyn SchemaProvider>,
    pub(super) table: Arc<dyn TableProvider>,
}

impl NewTable {
    /// Puts the table into the catalog, in the place of an older one.
    fn register(&self) -> Result<()> {
        self.catalog.deregister_table(&self.name)?;
        self.catalog
            .register_table(self.name.clone(), Arc::clone(&self.table))?;
        Ok(())
    }
}

#[async_trait]
impl TableProvider for NewTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        not_impl_err!("{} is read when it is complete", self.name)
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = self.table.insert_into(state, input, insert_op).await?;
        let Some(written) = inner.downcast_ref::<DataSinkExec>() else {
            return not_impl_err!("{}: rows of this format cannot be written into a table", self.name);
        };
        let (input, order) = (Arc::clone(written.input()), written.sort_order().clone());
        let schema = Arc::clone(written.sink().schema());
        let new = self.clone();
        Ok(Arc::new(DataSinkExec::new(
            input,
            Arc::new(NewTableSink { new, inner, schema }),
            order,
        )))
    }
}

/// The sink of `inner`, and the table's registration afterwards.
#[derive(Debug)]
struct NewTableSink {
    new: NewTable,
    inner: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
}

impl NewTableSink {
    fn sink(&self) -> Result<&dyn DataSink> {
        let exec = self.inner.downcast_ref::<DataSinkExec>().map(DataSinkExec::sink);
        exec.ok_or_else(|| internal_datafusion_err!("a sink was replaced"))
    }
}

#[async_trait]
impl DataSink for NewTableSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.sink().ok()?.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let rows = self.sink()?.write_all(data, context).await?;
        self.new.register()?;
        Ok(rows)
    }
}

impl DisplayAs for NewTableSink {
    fn fmt_as(&self, display: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table={}, ", self.new.name)?;
        match self.sink() {
            Ok(sink) => sink.fmt_as(display, f),
            Err(_) => Ok(()),
        }
    }
}
