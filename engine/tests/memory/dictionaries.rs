//! Stripes whose dictionaries are large beside the memory limit, and beside the rows that a query takes.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use grampus::{GrampusConfig, MemoryLimit};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

const WORDS: i64 = 20_000;
/// Rows of each word.
const ROWS_PER_WORD: i64 = 4;
/// Bytes of each word: 20 MB in all.
const WORD_BYTES: usize = 1_000;

fn word(number: i64) -> String {
    format!("{number:07}{}", "x".repeat(WORD_BYTES - 7))
}

/// One stripe with a dictionary of 20 MB, in a file of few bytes. `id` counts, and `s` is word `id % WORDS`.
fn write(path: &Path) {
    let ids = 0..WORDS * ROWS_PER_WORD;
    let words: StringArray = ids.clone().map(|id| Some(word(id % WORDS))).collect();
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids.collect::<Int64Array>())), ("s", Arc::new(words))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let options = WriterProperties {
        codec: Some(Codec::Zstd),
        dictionary_threshold: 1.0,
        ..WriterProperties::default()
    };
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(options)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert!(std::fs::metadata(path).unwrap().len() < 4 << 20);
}

async fn session(limit: usize, partitions: usize, path: &Path) -> SessionContext {
    let config = GrampusConfig {
        memory_limit: MemoryLimit::Bytes(limit),
        target_partitions: Some(partitions),
        ..GrampusConfig::default()
    };
    let context = grampus::session::context(config).unwrap();
    let path = path.to_str().unwrap();
    grampus::session::register_orc(&context, "t", path).await.unwrap();
    context
}

async fn number(context: &SessionContext, sql: &str) -> Result<i64, String> {
    let frame = context.sql(sql).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let batch = batches.iter().find(|batch| batch.num_rows() > 0).ok_or("no row")?;
    Ok(batch.column(0).as_primitive::<Int64Type>().value(0))
}

/// Each query, with its answer.
fn queries() -> Vec<(String, i64)> {
    vec![
        (
            "SELECT count(*) FROM t WHERE s LIKE '%7xxx%'".to_owned(),
            WORDS / 10 * ROWS_PER_WORD,
        ),
        (
            "SELECT CAST(substr(max(s), 1, 7) AS BIGINT) FROM t WHERE id < 1000".to_owned(),
            999,
        ),
        ("SELECT sum(length(s)) FROM t WHERE id % 1000 = 3".to_owned(), {
            WORDS * ROWS_PER_WORD / 1000 * WORD_BYTES as i64
        }),
        (
            format!("SELECT count(*) FROM t WHERE s = '{}'", word(77)),
            ROWS_PER_WORD,
        ),
        (
            format!("SELECT min(id) FROM t WHERE s > '{}' AND id > 9", word(WORDS - 2)),
            WORDS - 1,
        ),
        (
            "SELECT count(*) FROM (SELECT s, count(*) AS n FROM t WHERE id < 3000 GROUP BY s) WHERE n = 1".to_owned(),
            3000,
        ),
    ]
}

/// The dictionary alone is larger than the smallest of the limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dictionaries_larger_than_the_limit_leave_queries_their_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write(&path);
    for (limit, partitions) in [
        (12 << 20, 1),
        (24 << 20, 2),
        (60 << 20, 2),
        (100 << 20, 2),
        (1 << 30, 4),
    ] {
        let context = session(limit, partitions, &path).await;
        for (sql, expected) in queries() {
            let answer = number(&context, &sql).await;
            assert_eq!(answer, Ok(expected), "{limit} bytes, {partitions} partitions: {sql}");
        }
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0, "{limit} bytes");
    }
}
