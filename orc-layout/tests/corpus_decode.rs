//! Values of real files. Every column of every readable file equals orc-rust's full read and the corpus's statements
//! (rows, nulls, SHA-256). Columns are read at once, by row groups, and by scattered rows. Every corrupt file is an
//! error.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampNanosecondType,
};
use bytes::Bytes;
use grampus_orc_layout::access::{Access, byte_ranges};
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::{LayoutError, Result, metadata_reader};
use grampus_test_support::map_names::with_arrows_map_names;
use sha2::{Digest, Sha256};

/// A file in memory that records the bytes of every read.
struct Memory {
    bytes: Bytes,
    asked: Mutex<Vec<Range<u64>>>,
}

impl ByteSource for Memory {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let length = self.bytes.len() as u64;
        if range.start > range.end || range.end > length {
            let reason = format!("past the end of {length} bytes");
            return Err(LayoutError::io_without_source(&"memory".into(), range, reason));
        }
        self.asked.lock().unwrap().push(range.clone());
        Ok(self.bytes.slice(range.start as usize..range.end as usize))
    }
}

/// The corpus of other writers' files, if this machine has it.
fn corpus() -> Option<PathBuf> {
    let manifest = grampus_test_support::data("orc/manifest.tsv")?;
    Some(manifest.parent()?.to_owned())
}

/// Rows of the manifest by column name.
fn manifest(corpus: &Path) -> Vec<HashMap<String, String>> {
    let text = std::fs::read_to_string(corpus.join("manifest.tsv")).unwrap();
    let mut lines = text.lines().map(|line| line.split('\t').map(str::to_owned));
    let names: Vec<String> = lines.next().unwrap().collect();
    lines.map(|cells| names.iter().cloned().zip(cells).collect()).collect()
}

/// About one row of a hundred, alone or with a few neighbours; the same rows in every run.
fn scattered(rows: u64, seed: u64) -> RowSelection {
    let mut selection = RowSelection::new();
    let (mut at, mut state) = (0, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    loop {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let start = at + state % 300;
        at = start + 1 + (state >> 32) % 3;
        if at >= rows {
            return selection;
        }
        selection.push(start..at);
    }
}

/// Reads every column of every stripe in three ways that must agree. Returns the columns by stripe.
fn read_file(file: &str, bytes: Bytes) -> Result<Vec<Vec<ArrayRef>>> {
    let length = bytes.len() as u64;
    let source = Arc::new(Memory {
        bytes,
        asked: Mutex::default(),
    });
    let tail = Arc::new(metadata_reader::read_tail(&file.into(), length, &*source)?);
    let mut stripes = vec![];
    for i in 0..tail.stripes.len() {
        let stripe = Arc::new(metadata_reader::read_stripe(&tail, &*source, i)?);
        let mut columns = vec![];
        for &column in tail.schema.fields() {
            let index = Arc::new(metadata_reader::read_index(&tail, &stripe, &*source, column)?);
            let access = Access::of(&tail, &stripe, column, Some(&index), &*source, true)?;
            let reader = || {
                let (index, access) = (Some(index.clone()), access.clone());
                ColumnReader::new(tail.clone(), stripe.clone(), column, index, access, source.clone())
            };
            let rows = stripe.info.rows;
            let place = format!("{file}: stripe {i}, column {column}");
            let whole = reader()?.read(&RowSelection::range(0..rows))?;
            assert_eq!(whole.len() as u64, rows, "{place}");
            let field = tail.schema.fields().iter().position(|&id| id == column).unwrap();
            assert_eq!(whole.data_type(), tail.schema.arrow.field(field).data_type(), "{place}");

            let mut by_group = reader()?;
            for group in 0..stripe.row_groups(&tail) {
                let rows = stripe.row_group_rows(&tail, group);
                let part = whole.slice(rows.start as usize, (rows.end - rows.start) as usize);
                assert_eq!(
                    &by_group.read(&RowSelection::range(rows))?,
                    &part,
                    "{place}, group {group}"
                );
            }
            // The order is backwards, so that every group is entered by its positions.
            for group in (0..stripe.row_groups(&tail)).rev().take(20) {
                let rows = stripe.row_group_rows(&tail, group);
                let part = whole.slice(rows.start as usize, (rows.end - rows.start) as usize);
                assert_eq!(
                    &by_group.read(&RowSelection::range(rows))?,
                    &part,
                    "{place}, group {group} again"
                );
            }
            let mut some = reader()?;
            for seed in 1..3 {
                let rows = scattered(rows, seed);
                let expected = take(&whole, &UInt64Array::from_iter_values(rows.iter()), None).unwrap();
                source.asked.lock().unwrap().clear();
                assert_eq!(&some.read(&rows)?, &expected, "{place}, scattered rows {seed}");
                let planned = byte_ranges(&tail, &stripe, column, Some(&index), &access, &rows)?;
                for range in source.asked.lock().unwrap().iter() {
                    let inside = planned
                        .iter()
                        .any(|plan| plan.start <= range.start && range.end <= plan.end);
                    assert!(inside, "{place}: {range:?} is not in the plan {planned:?}");
                }
            }
            columns.push(whole);
        }
        stripes.push(columns);
    }
    Ok(stripes)
}

/// orc-rust's full read, one batch per stripe; its message if it cannot read the file.
fn oracle(bytes: Bytes) -> std::result::Result<Vec<Vec<ArrayRef>>, String> {
    let read = std::panic::catch_unwind(|| {
        let builder = orc_rust::ArrowReaderBuilder::try_new(bytes).map_err(|error| error.to_string())?;
        let reader = builder.with_batch_size(1 << 30).build();
        let batches = reader.map(|batch| {
            batch
                .map(|batch| batch.columns().to_vec())
                .map_err(|error| error.to_string())
        });
        batches.collect()
    });
    read.unwrap_or_else(|_| Err("panic".into()))
}

/// The columns hold timestamps of California after 2100. orc-rust's zone tables have no summer time then; the stated
/// hashes have.
fn ends_summers(file: &str, field: usize) -> bool {
    file.ends_with("TestOrcFile.testDate2038.orc") && field == 0
}

/// A decimal of Hive 0.11 with seven digits after the point, at the six that readers agree on. The peer of the stated
/// hashes, ORC's C++ reader, cuts the seventh digit off; Java and this reader round it.
fn cuts_decimals(file: &str, column: &str) -> bool {
    file.ends_with("orc-file-11-format.orc") && column == "13:decimal1"
}

/// The corpus's recipe for primitive columns: a line per value.
fn column_hash(column: &dyn Array) -> Option<String> {
    let mut hash = Sha256::new();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut line = String::new();
    for row in 0..column.len() {
        line.clear();
        macro_rules! number {
            ($kind:ty) => {
                column.as_primitive::<$kind>().value(row).to_string()
            };
        }
        let text = match column.data_type() {
            _ if column.is_null(row) => "\\N".into(),
            DataType::Boolean => u8::from(column.as_boolean().value(row)).to_string(),
            DataType::Int8 => number!(Int8Type),
            DataType::Int16 => number!(Int16Type),
            DataType::Int32 => number!(Int32Type),
            DataType::Int64 => number!(Int64Type),
            DataType::Date32 => number!(Date32Type),
            DataType::Timestamp(..) => number!(TimestampNanosecondType),
            DataType::Float32 => hex(&column.as_primitive::<Float32Type>().value(row).to_le_bytes()),
            DataType::Float64 => hex(&column.as_primitive::<Float64Type>().value(row).to_le_bytes()),
            DataType::Utf8 => hex(column.as_string::<i32>().value(row).as_bytes()),
            DataType::Binary => hex(column.as_binary::<i32>().value(row)),
            DataType::Decimal128(_, scale) => decimal(column.as_primitive::<Decimal128Type>().value(row), *scale)?,
            _ => return None,
        };
        writeln!(line, "{text}").unwrap();
        hash.update(&line);
    }
    Some(hex(&hash.finalize()))
}

/// Python's form of a decimal; `None` for exponent notation.
fn decimal(unscaled: i128, scale: i8) -> Option<String> {
    let scale = scale as usize;
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let exponent = scale as i64 - unscaled.unsigned_abs().to_string().len() as i64 > 5;
    let sign = if unscaled < 0 { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    (!exponent).then(|| format!("{sign}{whole}{point}{fraction}"))
}

#[test]
fn readable_files_equal_the_oracles() {
    let Some(corpus) = corpus() else { return };
    let hashes = std::fs::read_to_string(corpus.join("column_hashes.json")).unwrap();
    let hashes: serde_json::Value = serde_json::from_str(&hashes).unwrap();
    let (mut compared, mut hashed, mut wrong) = (0, 0, vec![]);
    for row in manifest(&corpus) {
        let (file, class) = (&row["file"], &row["class"]);
        let path = corpus.join(file);
        let bytes = Bytes::from(std::fs::read(&path).unwrap());
        let ours = read_file(file, bytes.clone());
        let theirs = oracle(bytes);
        let ours = match ours {
            Ok(stripes) => stripes,
            Err(error) => {
                let theirs = theirs.map(|_| "reads it");
                println!("{file} ({class}): {error}; orc-rust: {theirs:?}");
                let allowed = ["corrupt", "encrypted", "empty-file"].contains(&class.as_str())
                    || class.contains("non-struct root")
                    || class.contains("timestamp range");
                if !allowed {
                    wrong.push(format!("{file}: {error}"));
                }
                continue;
            }
        };
        if class == "corrupt" {
            wrong.push(format!("{file} was read though it is corrupt"));
        }
        match theirs {
            Ok(theirs) => {
                let theirs: Vec<_> = theirs
                    .into_iter()
                    .filter(|columns| columns.iter().any(|c| !c.is_empty()))
                    .collect();
                let ours: Vec<_> = ours
                    .iter()
                    .filter(|columns| columns.iter().any(|c| !c.is_empty()))
                    .collect();
                if ours.len() != theirs.len() {
                    wrong.push(format!("{file}: {} stripes, orc-rust {}", ours.len(), theirs.len()));
                }
                for (stripe, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
                    for (column, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                        compared += 1;
                        let theirs = cast(theirs, &with_arrows_map_names(theirs.data_type())).unwrap();
                        if (ours.data_type() != theirs.data_type() || *ours != theirs) && !ends_summers(file, column) {
                            wrong.push(format!("{file}: stripe {stripe}, field {column} differs from orc-rust"));
                        }
                    }
                }
            }
            Err(error) => println!("{file} ({class}): orc-rust cannot read it: {error}"),
        }
        let Some(stated) = hashes[file].as_object() else {
            continue;
        };
        for (name, stated) in stated {
            let Some(field) = name.split(':').next().and_then(|k| k.parse::<usize>().ok()) else {
                continue;
            };
            let parts: Vec<&dyn Array> = ours
                .iter()
                .filter_map(|columns| columns.get(field))
                .map(|c| &**c)
                .collect();
            if parts.is_empty() {
                continue;
            }
            let whole = concat(&parts).unwrap();
            assert_eq!(stated["n"], whole.len(), "{file} {name}");
            if stated["nulls"] != whole.logical_null_count() {
                wrong.push(format!(
                    "{file}: {name} has {} nulls, stated {}",
                    whole.null_count(),
                    stated["nulls"]
                ));
            }
            // Text and SHA-256 of the largest files would take most of this test's time.
            if whole.len() < 1_000_000
                && let Some(hash) = column_hash(&whole)
            {
                hashed += 1;
                if stated["sha256"] != hash && !cuts_decimals(file, name) {
                    wrong.push(format!(
                        "{file}: {name} ({}) differs from the stated hash",
                        whole.data_type()
                    ));
                }
            }
        }
    }
    println!("{compared} columns of stripes equal orc-rust's, {hashed} columns equal the stated hashes");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared > 300 && hashed > 200, "{compared} {hashed}");
}

/// Reads as much as possible of an arbitrary file.
fn read_as_far_as_possible(bytes: Bytes) -> Result<()> {
    let length = bytes.len() as u64;
    let source = Arc::new(Memory {
        bytes,
        asked: Mutex::default(),
    });
    let tail = Arc::new(metadata_reader::read_tail(&"mutant".into(), length, &*source)?);
    for i in 0..tail.stripes.len() {
        let Ok(stripe) = metadata_reader::read_stripe(&tail, &*source, i).map(Arc::new) else {
            continue;
        };
        for &column in tail.schema.fields() {
            let index = metadata_reader::read_index(&tail, &stripe, &*source, column).unwrap_or_default();
            let Ok(access) = Access::of(&tail, &stripe, column, Some(&index), &*source, true) else {
                continue;
            };
            let (tail, stripe, index) = (tail.clone(), stripe.clone(), Some(Arc::new(index)));
            let rows = stripe.info.rows;
            let Ok(mut reader) = ColumnReader::new(tail, stripe, column, index, access, source.clone()) else {
                continue;
            };
            for rows in [
                RowSelection::range(0..rows.min(1 << 16)),
                scattered(rows.min(1 << 16), 3),
            ] {
                if let Ok(array) = reader.read(&rows) {
                    assert_eq!(array.len() as u64, rows.rows());
                }
            }
        }
    }
    Ok(())
}

#[test]
fn mutants_of_real_files_cause_no_panic() {
    let Some(corpus) = corpus() else { return };
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % below
    };
    for row in manifest(&corpus) {
        let bytes = std::fs::read(corpus.join(&row["file"])).unwrap();
        if bytes.is_empty() || bytes.len() > 50_000 {
            continue;
        }
        // In uncompressed files, mutations reach the decoders.
        let mutants = if row["compression"] == "none" { 60 } else { 15 };
        for _ in 0..mutants {
            let mut mutant = bytes.clone();
            for _ in 0..=random(4) {
                let at = random(mutant.len());
                mutant[at] = if random(2) == 0 {
                    random(256) as u8
                } else {
                    mutant[at] ^ 1 << random(8)
                };
            }
            let _ = read_as_far_as_possible(mutant.into());
        }
    }
}
