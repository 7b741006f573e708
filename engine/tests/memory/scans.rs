//! Scans of values that are too large to be read a whole batch at a time.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use grampus::{GrampusConfig, MemoryLimit};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

const ROWS: usize = 200;
/// Bytes of each text.
const TEXT_BYTES: usize = 256 << 10;

/// 50 MiB of text in a file of few bytes.
fn write_texts(path: &Path) {
    let texts: StringArray = (0..ROWS)
        .map(|row| Some(format!("{row:04}{}", "x".repeat(TEXT_BYTES - 4))))
        .collect();
    let ids: Int64Array = (0..ROWS as i64).collect();
    let columns: [(&str, ArrayRef); 2] = [("id", Arc::new(ids)), ("text", Arc::new(texts))];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let options = WriterProperties {
        codec: Some(Codec::Zstd),
        ..WriterProperties::default()
    };
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(options)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

async fn session(limit: usize, path: &Path) -> SessionContext {
    let config = GrampusConfig {
        memory_limit: MemoryLimit::Bytes(limit),
        target_partitions: Some(1),
        ..GrampusConfig::default()
    };
    let context = grampus::session::context(config).unwrap();
    let path = path.to_str().unwrap();
    grampus::session::register_orc(&context, "t", path).await.unwrap();
    context
}

/// Without the bound on bytes, each statement reads all 200 texts into one array.
#[tokio::test]
async fn batches_of_large_texts_are_bounded_in_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_texts(&path);
    let limit = 16 << 20;
    let context = session(limit, &path).await;
    for sql in [
        "SELECT id, text FROM t",
        "SELECT id, text FROM t WHERE id % 2 < 5",
        "SELECT id, text FROM t WHERE length(text) > 3",
        "SELECT id FROM t WHERE text <> 'x' AND length(text) > 3",
    ] {
        let frame = context.sql(sql).await.unwrap();
        let mut rows = frame.execute_stream().await.unwrap();
        let mut next = 0;
        while let Some(batch) = rows.next().await {
            let batch = batch.unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert!(batch.get_array_memory_size() < limit / 4, "{sql}");
            for id in batch.column(0).as_primitive::<Int64Type>().values() {
                assert_eq!(*id, next, "{sql}");
                next += 1;
            }
        }
        assert_eq!(next, ROWS as i64, "{sql}");
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
    }
    let counted = context
        .sql("SELECT count(*), sum(length(text)) FROM t LIMIT 1")
        .await
        .unwrap();
    let counted = counted.collect().await.unwrap();
    let sum = counted[0].column(1).as_primitive::<Int64Type>().value(0);
    assert_eq!(sum, (ROWS * TEXT_BYTES) as i64);
}
