//! Where the writer puts things: direct streams at aligned places, no PRESENT stream without nulls, runs that end with
//! their row group, and nothing valid before the end.

mod common;
mod support;

use bytes::Bytes;
use common::Memory;
use grampus_orc_layout::open;
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::tail::{Codec, FileTail};
use grampus_orc_layout::write::{CHUNK_ALIGNMENT_BYTES, OrcWriter, WriterOptions};
use support::{Nulls, every_type, write};

const DIRECT: [&str; 3] = ["float", "double", "wild"];

fn tail_of(file: &Bytes) -> FileTail {
    open::read_tail(&"written".into(), file.len() as u64, &Memory(file.clone())).unwrap()
}

#[test]
fn direct_streams_are_aligned_in_every_stripe() {
    for (codec, alignment) in [
        (None, 4096),
        (None, 64),
        (Some(Codec::Zstd), 4096),
        (Some(Codec::Snappy), 4096),
    ] {
        let batch = every_type(5000, Nulls::None, 1);
        let options = WriterOptions {
            codec,
            chunk_size_bytes: 1000,
            direct_columns: DIRECT.map(String::from).into(),
            stripe_rows: 1234,
            alignment_bytes: alignment,
            ..WriterOptions::default()
        };
        let file = write(std::slice::from_ref(&batch), options);
        let tail = tail_of(&file);
        assert_eq!(tail.stripes.len(), 5);
        for info in &tail.stripes {
            let stripe = open::read_stripe(&tail, &Memory(file.clone()), info.index).unwrap();
            for name in DIRECT {
                let column = tail.schema.fields()[batch.schema().index_of(name).unwrap()];
                assert!(stripe.stream(column, Kind::Present).is_none());
                let data = stripe.stream(column, Kind::Data).unwrap();
                let (first, step) = match codec {
                    None => (data.offset, alignment),
                    Some(_) => (data.offset + 3, CHUNK_ALIGNMENT_BYTES),
                };
                assert!(
                    first.is_multiple_of(step),
                    "{codec:?} stripe {} {name}: {first}",
                    info.index
                );
            }
        }
    }
}

#[test]
fn without_alignment_there_is_no_padding() {
    let batch = every_type(3000, Nulls::None, 2);
    let options = WriterOptions {
        alignment_bytes: 1,
        stripe_rows: 1000,
        ..WriterOptions::default()
    };
    let file = write(std::slice::from_ref(&batch), options);
    let mut end = 3;
    for info in &tail_of(&file).stripes {
        assert_eq!(info.offset, end);
        end = info.footer_range().end;
    }
}

#[test]
fn every_row_group_can_be_entered_without_skipping_values() {
    let batch = every_type(3000, Nulls::Some, 3);
    let options = WriterOptions {
        row_index_stride: 700,
        ..WriterOptions::default()
    };
    let file = write(std::slice::from_ref(&batch), options);
    let (tail, source) = (tail_of(&file), Memory(file.clone()));
    let stripe = open::read_stripe(&tail, &source, 0).unwrap();
    // PRESENT: byte, bytes to skip, bits; then for each integer stream: byte, values to skip.
    for (name, arity, skips) in [
        ("int", 5, &[1, 4][..]),
        ("time", 7, &[1, 4, 6]),
        ("double", 4, &[1]),
        ("text", 6, &[1, 5]),
    ] {
        let column = tail.schema.fields()[batch.schema().index_of(name).unwrap()];
        let index = open::read_index(&tail, &stripe, &source, column).unwrap();
        assert_eq!(index.positions.len(), 5);
        for positions in &index.positions {
            assert_eq!(positions.len(), arity, "{name}");
            assert!(skips.iter().all(|&at| positions[at] == 0), "{name}: {positions:?}");
        }
    }
}

#[test]
fn a_file_that_was_not_finished_is_none() {
    let batch = every_type(3000, Nulls::None, 4);
    let mut bytes = Vec::new();
    let options = WriterOptions {
        stripe_rows: 1000,
        ..WriterOptions::default()
    };
    let mut writer = OrcWriter::new(&mut bytes, batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    assert_eq!(writer.rows(), 3000);
    drop(writer);
    let file = Bytes::from(bytes);
    assert!(file.len() > 100_000);
    assert!(open::read_tail(&"written".into(), file.len() as u64, &Memory(file.clone())).is_err());
}
