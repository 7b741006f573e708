//! [`delegate_plan`]: the methods of operators that stand for another operator. [`leaf_plan`]: those of operators
//! without children.

/// Methods of an `ExecutionPlan` that answer what the operator in the field `$inner` answers.
macro_rules! delegate_plan {
    ($inner:ident) => {
        fn name(&self) -> &str {
            datafusion::physical_plan::ExecutionPlan::name(self.$inner.as_ref())
        }

        fn downcast_delegate(&self) -> Option<&dyn datafusion::physical_plan::ExecutionPlan> {
            Some(self.$inner.as_ref())
        }

        fn properties(&self) -> &Arc<datafusion::physical_plan::PlanProperties> {
            self.$inner.properties()
        }

        fn apply_expressions(
            &self,
            f: &mut dyn FnMut(
                &Arc<dyn datafusion::physical_plan::PhysicalExpr>,
            ) -> Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> Result<datafusion::common::tree_node::TreeNodeRecursion> {
            self.$inner.apply_expressions(f)
        }

        fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
            use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
            self.replace_children(
                children,
                ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
            )
        }

        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<datafusion::physical_plan::statistics::ChildStats> {
            self.$inner.child_stats_requests(partition)
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[Arc<datafusion::common::Statistics>],
            args: &datafusion::physical_plan::statistics::StatisticsArgs,
        ) -> Result<Arc<datafusion::common::Statistics>> {
            self.$inner.statistics_from_inputs(inputs, args)
        }
    };
}

/// Methods of an `ExecutionPlan` that has no children.
macro_rules! leaf_plan {
    () => {
        fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
            Vec::new()
        }

        fn replace_children(
            self: Arc<Self>,
            children: Vec<Arc<dyn ExecutionPlan>>,
            _: datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> Result<Arc<dyn ExecutionPlan>> {
            match children.is_empty() {
                true => Ok(self),
                false => datafusion::common::internal_err!("{} has no children", self.name()),
            }
        }

        fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
            use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
            self.replace_children(
                children,
                ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute),
            )
        }
    };
}

pub(crate) use {delegate_plan, leaf_plan};
