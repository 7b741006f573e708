//! [`ListedOnce`]: the query planner under which a plan lists each of its ORC tables once.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::table::listings::Listings;

/// A query planner whose scans share their listings.
pub(crate) struct ListedOnce {
    /// The session's planner; `None`: DataFusion's.
    planner: Option<Arc<dyn QueryPlanner + Send + Sync>>,
}

impl fmt::Debug for ListedOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListedOnce").field("planner", &self.planner).finish()
    }
}

impl ListedOnce {
    /// The builder with such a planner around its own.
    pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
        let planner = builder.query_planner().take();
        builder.with_query_planner(Arc::new(Self { planner }))
    }
}

#[async_trait]
impl QueryPlanner for ListedOnce {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        // The statement's tables may have been listed before.
        let listings = Listings::current().unwrap_or_default();
        let planned = async {
            match &self.planner {
                Some(planner) => planner.create_physical_plan(plan, session).await,
                None => {
                    DefaultPhysicalPlanner::default()
                        .create_physical_plan(plan, session)
                        .await
                }
            }
        };
        listings.during(planned).await
    }
}
