//! The corpus of real files, files in memory, and checks that hold for all files.
#![allow(dead_code)] // each test uses some of it

pub(crate) mod edited_file;
pub(crate) mod plan_check;
pub(crate) mod statistics_check;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use bytes::Bytes;
use grampus_orc_layout::access::Access;
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::tail::FileTail;
use grampus_orc_layout::{LayoutError, Result, metadata_reader};

/// A file in memory.
pub(crate) struct Memory(pub(crate) Bytes);

impl ByteSource for Memory {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let length = self.0.len() as u64;
        if range.start > range.end || range.end > length {
            let reason = format!("past the end of {length} bytes");
            return Err(LayoutError::io_without_source(&"memory".into(), range, reason));
        }
        Ok(self.0.slice(range.start as usize..range.end as usize))
    }
}

/// The corpus of other writers' files, if this machine has it.
pub(crate) fn corpus() -> Option<PathBuf> {
    let manifest = grampus_test_support::data("orc/manifest.tsv")?;
    Some(manifest.parent()?.to_owned())
}

/// The top-level columns as read by our own decoder.
pub(crate) fn columns_by_decoder(tail: &Arc<FileTail>, source: &Arc<Memory>) -> Result<Vec<ArrayRef>> {
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

/// Rows of the manifest by column name.
pub(crate) fn manifest(corpus: &Path) -> Vec<HashMap<String, String>> {
    let text = std::fs::read_to_string(corpus.join("manifest.tsv")).unwrap();
    let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    lines.map(|cells| names.iter().cloned().zip(cells).collect()).collect()
}

/// A small generator (SplitMix64): a failing file is found again by its number.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}
