//! Joins whose build side does not fit in memory.

use datafusion::common::test_util::batches_to_sort_string;
use datafusion::prelude::SessionContext;
use grampus::{GrampusConfig, MemoryLimit};

use crate::tables;

const JOINS: [&str; 10] = [
    "SELECT a.id, b.id, a.text FROM a JOIN b ON a.k = b.k WHERE a.id + b.id > 100",
    "SELECT a.id, b.text FROM a LEFT JOIN b ON a.k = b.id AND a.id < b.k",
    "SELECT a.id, b.text, a.text FROM a RIGHT JOIN b ON a.text = b.text",
    "SELECT a.id, b.id FROM a FULL JOIN b ON a.k = b.k AND a.text = b.text",
    "SELECT id, text FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.id AND b.id <> a.k)",
    "SELECT id, text FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.id AND b.id < a.k)",
    "SELECT id FROM a WHERE k IN (SELECT k FROM b WHERE id % 3 = 0) OR id % 7 = 0",
    "SELECT a.k % 5, count(*), min(b.text) FROM a JOIN b ON a.k = b.k GROUP BY 1",
    "SELECT a.id FROM a JOIN b ON a.k = b.k JOIN b c ON c.text = a.text WHERE c.id % 2 = 0",
    "SELECT count(*) FROM a JOIN b ON a.id % 100 = b.id % 100 WHERE a.id < 600",
];

fn session(limit: MemoryLimit, partitions: usize) -> SessionContext {
    let config = GrampusConfig {
        memory_limit: limit,
        target_partitions: Some(partitions),
        ..GrampusConfig::default()
    };
    let context = grampus::session::context(config).unwrap();
    tables::register(&context, "a", 16_000, partitions);
    tables::register(&context, "b", 12_000, partitions);
    context
}

async fn answer(context: &SessionContext, sql: &str) -> String {
    let rows = context.sql(sql).await.unwrap().collect().await;
    batches_to_sort_string(&rows.unwrap_or_else(|error| panic!("{sql}: {error}")))
}

/// `HashJoinInput` exhausts the pool without the fallback.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_that_do_not_fit_are_merged() {
    for partitions in [1, 3] {
        let unlimited = session(MemoryLimit::Unlimited, partitions);
        let limited = session(MemoryLimit::Bytes(2 << 20), partitions);
        for sql in JOINS {
            assert!(answer(&unlimited, sql).await == answer(&limited, sql).await, "{sql}");
        }
        let explained = answer(&limited, &format!("EXPLAIN ANALYZE {}", JOINS[2])).await;
        let merged = format!("merged_partitions={partitions}");
        assert!(
            explained.contains("HashJoinExec") && explained.contains(&merged),
            "{explained}"
        );
        let explained = answer(&unlimited, &format!("EXPLAIN ANALYZE {}", JOINS[2])).await;
        assert!(
            explained.contains("HashJoinExec") && !explained.contains("merged_partitions"),
            "{explained}"
        );
    }
}

#[tokio::test]
async fn limit_of_a_merged_join_is_kept() {
    let limited = session(MemoryLimit::Bytes(2 << 20), 1);
    let sql = "SELECT a.id, b.text FROM a JOIN b ON a.k = b.k LIMIT 7";
    let rows = limited.sql(sql).await.unwrap().count().await.unwrap();
    assert_eq!(rows, 7);
}
