//! [`PlanText`]: the answer to EXPLAIN, each plan below its name: a tree on a terminal, the unchanged text elsewhere.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::{AsArray, RecordBatch};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::explain::ExplainExec;

use crate::explain_tree::PlanTree;

/// The name of the plan that EXPLAIN ANALYZE has executed.
const EXECUTED: &str = "Plan with Metrics";

/// How plans are written.
#[derive(Debug)]
pub(crate) struct PlanText {
    /// Whether they are a block of code.
    is_fenced: bool,
    /// Columns of the terminal; `None`: plans are written as they are.
    width: Option<usize>,
    /// The plan that EXPLAIN ANALYZE executes.
    executed: Option<Arc<dyn ExecutionPlan>>,
    start: Instant,
}

impl PlanText {
    /// Trees for a terminal of `width` columns; `None`: unchanged plans.
    pub(crate) fn new(plan: &dyn ExecutionPlan, width: Option<usize>) -> Self {
        // EXPLAIN ANALYZE VERBOSE has all figures, which no tree has.
        let analyze = plan.downcast_ref::<AnalyzeExec>().filter(|analyze| !analyze.verbose());
        Self {
            is_fenced: false,
            width,
            executed: analyze.map(|analyze| Arc::clone(analyze.input())),
            start: Instant::now(),
        }
    }

    /// Unchanged plans in a block of code.
    pub(crate) fn fenced(plan: &dyn ExecutionPlan) -> Self {
        Self {
            is_fenced: true,
            ..Self::new(plan, None)
        }
    }

    /// The plans of a batch.
    pub(crate) fn text(&self, batch: &RecordBatch) -> String {
        let (Some(names), Some(plans)) = (
            batch.column(0).as_string_opt::<i32>(),
            batch.column(1).as_string_opt::<i32>(),
        ) else {
            return String::new();
        };
        let mut text = String::new();
        for (name, plan) in names.iter().zip(plans) {
            let (name, plan) = (name.unwrap_or("plan"), plan.unwrap_or(""));
            text.push_str(&format!("{}\n", console::style(name.replace('_', " ")).bold()));
            match self.tree(name, plan) {
                Some(tree) => text.push_str(&tree),
                None => plan
                    .trim_end()
                    .lines()
                    .for_each(|line| text.push_str(&format!("  {line}\n"))),
            }
        }
        match self.is_fenced {
            true => format!("```\n{text}```\n"),
            false => text,
        }
    }

    /// The plan as a tree, if it is one and goes to a terminal.
    fn tree(&self, name: &str, plan: &str) -> Option<String> {
        let width = self.width?;
        let tree = PlanTree::of_text(plan)?;
        Some(match self.executed.as_ref().filter(|_| name == EXECUTED) {
            Some(executed) => PlanTree::of_executed(executed.as_ref()).render(width, Some(self.start.elapsed())),
            None => tree.render(width, None),
        })
    }
}

/// Whether the plan is that of EXPLAIN. Other statements may have columns of the same names.
pub(crate) fn is_explain(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<ExplainExec>() || plan.is::<AnalyzeExec>()
}
