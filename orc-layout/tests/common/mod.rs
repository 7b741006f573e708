//! The corpus of real files, files in memory, and checks that hold for all files.
#![allow(dead_code)] // each test uses some of it

pub(crate) mod plan_check;
pub(crate) mod statistics_check;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::{LayoutError, Result};

/// A file in memory.
pub(crate) struct Memory(pub(crate) Bytes);

impl ByteSource for Memory {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let length = self.0.len() as u64;
        if range.start > range.end || range.end > length {
            return Err(LayoutError::Io {
                file: "memory".into(),
                offset: range.start,
                length: range.end.saturating_sub(range.start),
                reason: format!("past the end of {length} bytes"),
            });
        }
        Ok(self.0.slice(range.start as usize..range.end as usize))
    }
}

/// The corpus lies beside the workspace; without the corpus these tests pass without a check.
pub(crate) fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let shared = std::env::var_os("GRAMPUS_SHARED").map_or(beside, PathBuf::from);
    let corpus = shared.join("data/orc");
    if corpus.join("manifest.tsv").exists() {
        return Some(corpus);
    }
    eprintln!("ignored: no data");
    None
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
