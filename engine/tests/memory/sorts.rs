//! Sorts at low limits: each ends the same way each time.

use std::collections::BTreeSet;

use grampus::{GrampusConfig, MemoryLimit};

use crate::tables;

/// Statements and their rows.
const SORTS: [(&str, usize); 4] = [
    ("SELECT * FROM t ORDER BY text DESC, id", 20_000),
    ("SELECT id FROM t ORDER BY k", 20_000),
    // More first rows than fit in memory.
    ("SELECT text, id FROM t ORDER BY text LIMIT 9000 OFFSET 9500", 9_000),
    (
        "SELECT id, row_number() OVER (PARTITION BY k % 100 ORDER BY text) FROM t",
        20_000,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sorts_spill_and_return_all_rows_each_time() {
    for limit in [2 << 20, 4 << 20] {
        let config = GrampusConfig {
            memory_limit: MemoryLimit::Bytes(limit),
            target_partitions: Some(2),
            ..GrampusConfig::default()
        };
        let context = grampus::session::context(config).unwrap();
        tables::register(&context, "t", 20_000, 2);
        for (sql, rows) in SORTS {
            let mut outcomes = BTreeSet::new();
            for _ in 0..4 {
                let counted = context.sql(sql).await.unwrap().collect().await;
                outcomes.insert(match counted {
                    Ok(batches) => batches.iter().map(|batch| batch.num_rows()).sum::<usize>().to_string(),
                    Err(error) => error.to_string(),
                });
            }
            assert_eq!(outcomes, BTreeSet::from([rows.to_string()]), "{limit} bytes: {sql}");
        }
        let pool = &context.runtime_env().memory_pool;
        assert_eq!(pool.reserved(), 0);
    }
}
