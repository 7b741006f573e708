//! Statistics and bloom filters of real files against the values of a full read by orc-rust. No bound excludes a value,
//! and no filter denies one, at file, stripe and row-group level.

mod common;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatchReader};
use bytes::Bytes;
use common::statistics_check::check_statistics;
use common::{Memory, columns_by_decoder, corpus, manifest};
use grampus_orc_layout::metadata_reader;
use orc_rust::ArrowReaderBuilder;

/// Full reads in a debug build are slow: these many rows of a file are enough.
const MAX_ROWS: u64 = 75_000;

/// The top-level columns of a file, whole, or `None` if orc-rust cannot read it.
fn oracle(bytes: &Bytes) -> Option<Vec<ArrayRef>> {
    let reader = ArrowReaderBuilder::try_new(bytes.clone()).ok()?.build();
    let schema = reader.schema();
    let batches = reader.collect::<std::result::Result<Vec<_>, _>>().ok()?;
    let batch = arrow::compute::concat_batches(&schema, &batches).ok()?;
    Some(batch.columns().to_vec())
}

#[test]
fn statistics_and_filters_agree_with_the_values() {
    let Some(corpus) = corpus() else { return };
    let (mut files, mut checked, mut filters) = (0, 0, 0);
    for row in manifest(&corpus) {
        let file: Arc<str> = row["file"].as_str().into();
        let readable = row["class"].starts_with("valid") && !row["class"].contains("root");
        if !readable || row["rows"].parse::<u64>().is_ok_and(|rows| rows > MAX_ROWS) {
            continue;
        }
        let bytes = Bytes::from(std::fs::read(corpus.join(&*file)).unwrap());
        let columns = oracle(&bytes);
        let length = bytes.len() as u64;
        let source = Arc::new(Memory(bytes));
        let tail = Arc::new(metadata_reader::read_tail(&file, length, &*source).unwrap());
        let columns = match columns {
            Some(columns) => columns,
            None if row["class"].contains("timestamp range") => continue,
            None => columns_by_decoder(&tail, &source).unwrap(),
        };
        files += 1;
        let (some, more) = check_statistics(&tail, &*source, &columns);
        checked += some;
        filters += more;
    }
    println!("{files} files, {checked} statistics, {filters} filters");
    assert!(files > 50 && checked > 1000 && filters > 0);
}
