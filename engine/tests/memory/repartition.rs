//! Repartitionings that spill do not wait for ever.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::resources_err;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation, UnboundedMemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use grampus::GrampusOptions;

use crate::tables;

/// A pool of an embedding program that refuses all memory to repartitionings, so that they spill every batch.
#[derive(Debug, Default)]
struct RefusingPool(UnboundedMemoryPool);

impl fmt::Display for RefusingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refusing")
    }
}

impl MemoryPool for RefusingPool {
    fn name(&self) -> &str {
        "refusing"
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.0.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        if reservation.consumer().name().starts_with("RepartitionExec") {
            return resources_err!("refused");
        }
        self.0.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }
}

/// With DataFusion's `RepartitionExec` the second attempt, or one of the next, never ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn repartitioning_that_spills_ends() {
    for attempt in 0..8 {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(RefusingPool::default()));
        let builder = SessionStateBuilder::new()
            .with_config(SessionConfig::new().with_target_partitions(2).with_batch_size(128))
            .with_runtime_env(runtime.build_arc().unwrap())
            .with_default_features();
        let state = grampus::register(builder, GrampusOptions::default()).build();
        let context = SessionContext::new_with_state(state);
        tables::register(&context, "t", 20_000, 2);
        let sql = "SELECT k, min(text) FROM t GROUP BY 1";
        let rows = async { context.sql(sql).await?.count().await };
        let rows = tokio::time::timeout(Duration::from_secs(60), rows).await;
        let rows = rows.unwrap_or_else(|_| panic!("attempt {attempt} does not end"));
        assert_eq!(rows.unwrap(), 20_000);
    }
}
