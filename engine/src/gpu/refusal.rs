//! [`Refusal`]: the reason why the GPU does not compute a part of a plan.
//!
//! EXPLAIN shows the text of a refusal after "not on the GPU: ".

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::PhysicalExpr;
use grampus_cuda::CudaError;

/// The reason why an aggregation cannot become a program and its input.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Kernels do not compute this expression or function, given as SQL.
    #[error("{0} is not computed on the GPU")]
    NotComputed(String),
    /// The aggregation has grouping sets without keys.
    #[error("GROUPING SETS without a key are not computed on the GPU")]
    NoKeys,
    /// This expression compares strings by order. Dictionary codes have no order.
    #[error("{0} orders strings, which the GPU only tests for equality")]
    OrdersStrings(String),
    /// This condition is not of type BOOLEAN.
    #[error("{0} is used as a condition")]
    NotBoolean(String),
    /// An expression is nested too deeply.
    #[error("an expression is nested more than {max_depth} deep")]
    TooDeep { max_depth: usize },
    /// An expression refers to a column that the table does not have.
    #[error("column {0} is not the table's")]
    UnknownColumn(usize),
    /// A literal, or a column's values, do not fit in eight bytes.
    #[error("{value} is a decimal of more than eight bytes")]
    WideDecimal { value: String },
    /// The values have a type that programs do not have.
    #[error("{value} is of type {data_type}, which the GPU does not compute with")]
    UnsupportedType { value: String, data_type: DataType },
    /// The aggregation merges states of other aggregations instead of rows.
    #[error("it merges other aggregations")]
    MergesStates,
    /// A LIMIT cuts off rows before the aggregation.
    #[error("there is a LIMIT below the aggregate")]
    Limit,
    /// The rows come from this operator instead of an ORC scan.
    #[error("it aggregates the rows of {0}, not of an ORC table")]
    OtherRows(String),
    /// The plan has no ORC scan.
    #[error("there is no ORC scan below")]
    NoOrcScan,
    /// The table has files in object stores.
    #[error("the files are neither local nor on an NVMe namespace")]
    RemoteFiles,
    /// The settings ask for nvCOMP, which cannot be loaded.
    #[error("{0}")]
    NoNvcomp(#[source] CudaError),
    /// DataFusion failed on an expression.
    #[error("{}", .0.strip_backtrace())]
    Expression(#[source] DataFusionError),
    /// A file is damaged or cannot be read.
    #[error("{}", crate::error::message(.0))]
    File(#[source] DataFusionError),
}

impl Refusal {
    /// The refusal of an expression for which no variant says more. Long expressions are cut off.
    pub(crate) fn not_computed(expr: &Arc<dyn PhysicalExpr>) -> Self {
        const MAX_CHARS: usize = 80;
        let text = fmt_sql(expr.as_ref()).to_string();
        let shown: String = text.chars().take(MAX_CHARS).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        Self::NotComputed(format!("{shown}{more}"))
    }
}
