//! Statistics and bloom filters of real files against the values of a full read by orc-rust. No bound excludes a value,
//! and no filter denies one, at file, stripe and row-group level.

mod common;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatchReader};
use bytes::Bytes;
use common::statistics_check::check_statistics;
use common::{Memory, corpus, manifest};
use grampus_orc_layout::access::Access;
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::tail::FileTail;
use grampus_orc_layout::{Result, metadata_reader};
use orc_rust::ArrowReaderBuilder;

/// Full reads in a debug build are slow: these many rows of a file are enough.
const MAX_ROWS: u64 = 75_000;

/// The top-level columns as read by our own decoder, for files that orc-rust cannot read.
fn ours(tail: &Arc<FileTail>, source: &Arc<Memory>) -> Result<Vec<ArrayRef>> {
    let mut columns = vec![];
    for &column in tail.schema.fields() {
        let mut parts = vec![];
        for info in &tail.stripes {
            let stripe = Arc::new(metadata_reader::read_stripe(tail, &**source, info.index)?);
            let access = Access::Decode { seekable: false };
            let mut reader = ColumnReader::new(tail.clone(), stripe, column, None, access, source.clone())?;
            parts.push(reader.read(&RowSelection::range(0..info.rows))?);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(|part| &**part).collect();
        columns.push(arrow::compute::concat(&parts).unwrap());
    }
    Ok(columns)
}

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
            None => ours(&tail, &source).unwrap(),
        };
        files += 1;
        let (some, more) = check_statistics(&tail, &*source, &columns);
        checked += some;
        filters += more;
    }
    println!("{files} files, {checked} statistics, {filters} filters");
    assert!(files > 50 && checked > 1000 && filters > 0);
}
