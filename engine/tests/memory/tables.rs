//! Tables in memory, and sessions with little memory.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::catalog::MemTable;
use datafusion::prelude::SessionContext;

/// Rows per batch of a table.
const BATCH_ROWS: i64 = 128;

/// Registers a table of `rows` rows, in `partitions` partitions: `id` counts, `k` is a key in an order of no sort,
/// `text` is 40 characters.
pub(crate) fn register(context: &SessionContext, name: &str, rows: i64, partitions: usize) {
    let mut lists = vec![Vec::new(); partitions];
    for (number, first) in (0..rows).step_by(BATCH_ROWS as usize).enumerate() {
        let ids: Vec<i64> = (first..rows.min(first + BATCH_ROWS)).collect();
        let keys: Int64Array = ids.iter().map(|id| id * 7_919 % rows).collect();
        let texts: StringArray = ids
            .iter()
            .map(|id| Some(format!("{:040}", id * 104_729 % rows)))
            .collect();
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(Int64Array::from(ids))),
            ("k", Arc::new(keys)),
            ("text", Arc::new(texts)),
        ];
        lists[number % partitions].push(RecordBatch::try_from_iter(columns).unwrap());
    }
    let schema = lists[0][0].schema();
    let table = MemTable::try_new(schema, lists).unwrap();
    context.register_table(name, Arc::new(table)).unwrap();
}
