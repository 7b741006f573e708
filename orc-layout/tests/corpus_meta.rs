//! Metadata of real files: each file is as the corpus's manifest states, and no mutation makes the parsers panic, hang
//! or allocate wildly.

mod common;

use std::ops::Range;

use bytes::Bytes;
use common::{Memory, Random, corpus, manifest};
use grampus_orc_layout::access::{Access, byte_ranges};
use grampus_orc_layout::index::ColumnIndex;
use grampus_orc_layout::positions::ColumnPositions;
use grampus_orc_layout::report::{FileReport, ReportOptions};
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::FileTail;
use grampus_orc_layout::{Result, metadata_reader};

/// Findings of a walk over all metadata of a file.
struct Walk {
    tail: FileTail,
    report: FileReport,
    /// Row groups with positions, and row groups whose positions do not have the expected numbers.
    entries: usize,
    unusable: usize,
    filters: usize,
}

fn walk(file: &str, bytes: Bytes) -> Result<Walk> {
    let length = bytes.len() as u64;
    let source = Memory(bytes);
    let tail = metadata_reader::read_tail(&file.into(), length, &source)?;
    let (mut entries, mut unusable, mut filters) = (0, 0, 0);
    for i in 0..tail.stripes.len() {
        let stripe = metadata_reader::read_stripe(&tail, &source, i)?;
        for column in 0..tail.schema.types.len() as u32 {
            let index = metadata_reader::read_index(&tail, &stripe, &source, column)?;
            let positions = ColumnPositions::of(&tail, &stripe, column, &index.positions);
            plan(&tail, &stripe, column, &index, &source)?;
            entries += index.positions.len();
            filters += index.bloom_filters.len();
            if positions.expect("checked by parse").is_none() {
                unusable += index.positions.len();
            }
        }
    }
    let report = FileReport::build(&tail, &source, &ReportOptions::default())?;
    assert!(format!("{report:#}").len() > format!("{report}").len() || tail.stripes.is_empty());
    Ok(Walk {
        tail,
        report,
        entries,
        unusable,
        filters,
    })
}

/// Plans the read of the first row, of the row before the last, and of all rows of a column.
fn plan(tail: &FileTail, stripe: &StripeLayout, column: u32, index: &ColumnIndex, source: &Memory) -> Result<()> {
    if tail.encrypted_columns.contains(&column) {
        return Ok(());
    }
    let access = Access::of(tail, stripe, column, Some(index), source, true)?;
    let rows = stripe.info.rows;
    let all = RowSelection::range(0..rows);
    let whole = byte_ranges(tail, stripe, column, Some(index), &access, &all)?;
    for rows in [0..1.min(rows), rows.saturating_sub(2)..rows.saturating_sub(1)] {
        let some = byte_ranges(tail, stripe, column, Some(index), &access, &RowSelection::range(rows))?;
        for part in &some {
            let inside = |whole: &Range<u64>| whole.start <= part.start && part.end <= whole.end;
            assert!(whole.iter().any(inside), "{part:?} of {whole:?}");
        }
    }
    Ok(())
}

fn codec_name(tail: &FileTail) -> String {
    tail.compression.map_or("none".into(), |compression| {
        format!("{:?}", compression.codec).to_lowercase()
    })
}

#[test]
fn readable_files_have_the_manifests_metadata() {
    let Some(corpus) = corpus() else { return };
    let (mut files, mut entries) = (0, 0);
    for row in manifest(&corpus) {
        let file = &row["file"];
        let readable = ["valid", "future-version", "encrypted"]
            .iter()
            .any(|class| row["class"].starts_with(class));
        if !readable || row["class"].contains("non-struct root") {
            continue;
        }
        let bytes = Bytes::from(std::fs::read(corpus.join(file)).unwrap());
        let walk = walk(file, bytes).unwrap();
        assert_eq!(walk.unusable, 0, "{file}");
        assert_eq!(
            walk.tail.encrypted_columns.is_empty(),
            row["class"] != "encrypted",
            "{file}"
        );
        assert!(walk.report.problems.is_empty(), "{:?}", walk.report.problems);
        let json = serde_json::to_value(&walk.report).unwrap();
        assert_eq!(json["columns"].as_array().unwrap().len(), walk.tail.schema.types.len());
        files += 1;
        entries += walk.entries;
        if row["rows"].is_empty() {
            continue; // the manifest's own reader knew no LZO
        }
        // Hive 0.11 stated no precision.
        let schema = row["schema"].replace("decimal(0,0)", "decimal(38,6)");
        assert_eq!(walk.report.schema, schema, "{file}");
        let tail = &walk.tail;
        let stride = tail.row_index_stride.unwrap_or(0);
        let found = [tail.rows, tail.stripes.len() as u64, u64::from(stride)].map(|number| number.to_string());
        let stated = ["rows", "stripes", "row_index_stride"].map(|name| row[name].clone());
        assert_eq!(found, stated, "{file}");
        assert_eq!(codec_name(tail), row["compression"], "{file}");
        assert_eq!(tail.format_version, row["file_version"], "{file}");
    }
    assert!(files > 60 && entries > 5000, "{files} files, {entries} entries");
}

#[test]
fn other_files_are_refused_with_name_and_place() {
    let Some(corpus) = corpus() else { return };
    // The other corrupt files have their fault in the data: the decoders' tests cover them.
    let refused = [
        ("examples/zero.orc", "not an ORC file: it has 0 bytes"),
        (
            "examples/TestOrcFile.testTimestamp.orc",
            "a root type other than struct is not supported",
        ),
        (
            "examples/TestOrcFile.testWithoutCompressionBlockSize.orc",
            "a root type other than struct",
        ),
        (
            "corrupt/missing_length_stream_in_string_dict.orc",
            "at byte 1266 (metadata)",
        ),
        (
            "corrupt/stripe_footer_bad_column_encodings.orc",
            "at byte 336 (stripe 0 footer)",
        ),
        ("resources/orc_corrupt_zlib.orc", "at byte 193 (footer)"),
    ];
    let files = manifest(&corpus);
    for (name, words) in refused {
        let row = files.iter().find(|row| row["file"].ends_with(name));
        let file = &row.unwrap_or_else(|| panic!("the corpus has no {name}"))["file"];
        let bytes = Bytes::from(std::fs::read(corpus.join(file)).unwrap());
        let error = walk(file, bytes).err().unwrap().to_string();
        assert!(error.starts_with(file.as_str()) && error.contains(words), "{error}");
    }
}

#[test]
fn bad_bloom_filters_of_old_writers_are_left_out() {
    let Some(corpus) = corpus() else { return };
    let filters = |file: &str| {
        let bytes = std::fs::read(corpus.join(file)).unwrap();
        walk(file, bytes.into()).unwrap().filters
    };
    assert_eq!(filters("apache+orc/examples/bad_bloom_filter_1.6.0.orc"), 0);
    assert_eq!(filters("apache+orc/examples/bad_bloom_filter_1.6.11.orc"), 0);
    assert_eq!(filters("apache+orc/examples/over1k_bloom.orc"), 0);
    assert_eq!(filters("apache+orc/java/mapreduce/src/test/resources/acid5k.orc"), 3);
}

/// Most flips hit the metadata, where these parsers look.
fn mutate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match random.below(8) {
        0 => bytes.truncate(random.below(bytes.len())),
        1 => drop(bytes.drain(..random.below(bytes.len()))),
        _ => {
            for _ in 0..=random.below(4) {
                let reach = [16, 64, 300, bytes.len()][random.below(4)].min(bytes.len());
                let at = bytes.len() - 1 - random.below(reach);
                bytes[at] = match random.below(3) {
                    0 => bytes[at] ^ 1 << random.below(8),
                    1 => [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                    _ => random.next() as u8,
                };
            }
        }
    }
    bytes
}

#[test]
fn mutations_cause_no_panic_or_hang() {
    let Some(corpus) = corpus() else { return };
    let mut random = Random(7);
    let mut survived = 0;
    for row in manifest(&corpus) {
        let original = std::fs::read(corpus.join(&row["file"])).unwrap();
        if original.is_empty() || original.len() > 5000 {
            continue;
        }
        for _ in 0..300 {
            let mutated = mutate(&original, &mut random);
            survived += usize::from(walk("mutated", mutated.into()).is_ok());
        }
    }
    assert!(
        survived > 1000,
        "{survived} files still parse: too few to tell anything"
    );
}
