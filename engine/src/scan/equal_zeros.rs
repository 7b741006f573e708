//! Filters that take both zeros of floats as one value.
//!
//! Hash joins hold `0.0` and `-0.0` equal, and so do DataFusion's comparisons. IN lists do not: a list of keys with one
//! zero excludes rows with the other, which the join would match.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{InListExpr, NotExpr, lit};
use datafusion::physical_expr_common::physical_expr::{snapshot_generation, snapshot_physical_expr};
use datafusion::physical_plan::PhysicalExpr;

/// A dynamic filter over floats, without IN lists that tell zeros apart.
#[derive(Debug)]
pub(super) struct EqualZeros {
    filter: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// The last form of the filter, and its generation.
    now: Mutex<Option<(u64, Arc<dyn PhysicalExpr>)>>,
}

impl EqualZeros {
    /// The form of a dynamic filter over columns of `schema`; `None`: none of them has floats.
    pub(super) fn of(filter: &Arc<dyn PhysicalExpr>, schema: &SchemaRef) -> Option<Self> {
        let has_float = schema.fields().iter().any(|field| has_float(field.data_type()));
        has_float.then(|| Self {
            filter: Arc::clone(filter),
            schema: Arc::clone(schema),
            now: Mutex::default(),
        })
    }

    /// The filter as it is now.
    pub(super) fn now(&self) -> Result<Arc<dyn PhysicalExpr>> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        // Asked before the snapshot, which may be newer.
        let generation = snapshot_generation(&self.filter);
        match &*now {
            Some((known, form)) if *known == generation => Ok(Arc::clone(form)),
            _ => {
                let form = without_float_lists(snapshot_physical_expr(Arc::clone(&self.filter))?, &self.schema)?;
                *now = Some((generation, Arc::clone(&form)));
                Ok(form)
            }
        }
    }
}

/// A filter that passes at least the rows of `filter`, with zeros held equal. `schema`: of the filter's columns.
///
/// # Errors
/// If a part of the filter has no type.
pub(super) fn without_float_lists(filter: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    // Below a negation, a wider list excludes more rows.
    let has_negation = filter.exists(|expr| Ok(expr.is::<NotExpr>()))?;
    let all = lit(true);
    let dropped = Arc::clone(&filter).transform_down(|expr| {
        let tells_zeros_apart = match expr.downcast_ref::<InListExpr>() {
            Some(list) => has_float(&list.expr().data_type(schema)?),
            None => false,
        };
        Ok(match tells_zeros_apart {
            true => Transformed::yes(Arc::clone(&all)),
            false => Transformed::no(expr),
        })
    })?;
    Ok(match dropped.transformed && has_negation {
        true => all,
        false => dropped.data,
    })
}

/// True for floats, also in nested values: several keys are fields of a struct.
fn has_float(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => has_float(values),
        DataType::Struct(fields) => fields.iter().any(|field| has_float(field.data_type())),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            has_float(field.data_type())
        }
        data_type => data_type.is_floating(),
    }
}
