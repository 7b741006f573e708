//! [`FileExpressions`]: the projection and the filters of a table as those of one file.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ScalarValue, internal_datafusion_err, plan_err};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::functions::core::input_file_name::InputFileNameFunc;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_adapter::rewrite::{expr_references_scalar_udf, rewrite_input_file_name_in_projection};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use datafusion::physical_plan::PhysicalExpr;

/// Whether a filter has the file's name, which only projections are given.
pub(super) fn names_file(filter: &Arc<dyn PhysicalExpr>) -> bool {
    expr_references_scalar_udf::<InputFileNameFunc>(filter)
}

/// What makes expressions over the table's columns to expressions over a file's.
pub(super) struct FileExpressions {
    columns: SchemaRef,
    /// Values by partition column.
    partition_values: HashMap<String, ScalarValue>,
    /// `None`: the file's columns are the table's.
    adapter: Option<Arc<dyn PhysicalExprAdapter>>,
}

impl FileExpressions {
    /// For a file that is read with `columns`. `factory` is the configuration's.
    ///
    /// # Errors
    /// If the file has not a value for each partition column.
    pub(super) fn new(
        table: &TableSchema,
        listed: &PartitionedFile,
        columns: &SchemaRef,
        factory: Option<&Arc<dyn PhysicalExprAdapterFactory>>,
    ) -> Result<Self> {
        let (partitions, values) = (table.table_partition_cols(), &listed.partition_values);
        if partitions.len() != values.len() {
            return plan_err!(
                "{}: it has {} partition values, but the table has {} partition columns",
                listed.object_meta.location,
                values.len(),
                partitions.len()
            );
        }
        let of_table = table.file_schema();
        let created = |factory: &dyn PhysicalExprAdapterFactory| {
            let adapter = factory.create(Arc::clone(of_table), Arc::clone(columns));
            adapter.map(Some)
        };
        Ok(Self {
            adapter: match factory {
                Some(factory) => created(factory.as_ref())?,
                None if of_table.fields() == columns.fields() => None,
                None => created(&DefaultPhysicalExprAdapterFactory)?,
            },
            columns: Arc::clone(columns),
            partition_values: partitions
                .iter()
                .map(|field| field.name().clone())
                .zip(values.iter().cloned())
                .collect(),
        })
    }

    fn over_file(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let expr = match self.partition_values.is_empty() {
            true => expr,
            false => replace_columns_with_literals(expr, &self.partition_values)?,
        };
        match &self.adapter {
            Some(adapter) => adapter.rewrite(expr),
            None => Ok(expr),
        }
    }

    /// The projection over the file's columns.
    ///
    /// # Errors
    /// If a column has no counterpart there.
    pub(super) fn projection(&self, projection: &ProjectionExprs, location: &str) -> Result<ProjectionExprs> {
        let projection = rewrite_input_file_name_in_projection(projection.clone(), location)?;
        projection.try_map_exprs(|expr| self.over_file(expr))
    }

    /// The filters over the file's columns. `None`: no row of the file passes them.
    ///
    /// # Errors
    /// As [`projection`](Self::projection).
    pub(super) fn filters(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Result<Option<Vec<Arc<dyn PhysicalExpr>>>> {
        let mut over_file = Vec::with_capacity(filters.len());
        for filter in filters {
            let mut filter = self.over_file(Arc::clone(filter))?;
            if !self.partition_values.is_empty() || self.adapter.is_some() {
                filter = PhysicalExprSimplifier::new(&self.columns).simplify(filter)?;
            }
            match value_of(&filter)? {
                None => over_file.push(filter),
                Some(ScalarValue::Boolean(Some(true))) => {}
                Some(_) => return Ok(None),
            }
        }
        Ok(Some(over_file))
    }

    /// The dynamic filters over the file's columns.
    ///
    /// # Errors
    /// As [`projection`](Self::projection).
    pub(super) fn dynamic(&self, filters: &[Arc<dyn PhysicalExpr>]) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let filters = filters.iter().map(|filter| self.over_file(Arc::clone(filter)));
        filters.collect()
    }
}

/// The value of an expression without columns. `None`: it has columns.
fn value_of(expr: &Arc<dyn PhysicalExpr>) -> Result<Option<ScalarValue>> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Ok(Some(literal.value().clone()));
    }
    if !collect_columns(expr).is_empty() {
        return Ok(None);
    }
    let one = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one)?;
    Ok(Some(match expr.evaluate(&row)? {
        ColumnarValue::Scalar(value) => value,
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0)?,
    }))
}

/// The expression over the columns `columns` of those that it is over now.
///
/// # Errors
/// If it has another column.
pub(crate) fn over_columns(expr: Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = expr.transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else {
            return Ok(Transformed::no(expr));
        };
        let at = columns.iter().position(|&at| at == column.index());
        let at = at.ok_or_else(|| internal_datafusion_err!("column {column} is not scanned"))?;
        Ok(Transformed::yes(
            Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>
        ))
    });
    moved.data()
}
