//! Written files, read by orc-rust as a whole: all types, codecs and shapes return the written values.

mod tables;

use arrow::array::RecordBatch;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;
use tables::{Nulls, assert_same, every_type, read_with_orc_rust, write};

const CODECS: [Option<Codec>; 5] = [
    None,
    Some(Codec::Zlib),
    Some(Codec::Snappy),
    Some(Codec::Lz4),
    Some(Codec::Zstd),
];

fn check(batch: &RecordBatch, options: WriterProperties) {
    let file = write(std::slice::from_ref(batch), options);
    assert_same(batch, &read_with_orc_rust(file, batch.schema()));
}

#[test]
fn orc_rust_reads_every_type_in_every_codec() {
    for codec in CODECS {
        for nulls in [Nulls::None, Nulls::Some, Nulls::All] {
            for rows in [0, 1, 999, 1000, 1001, 5000] {
                let batch = every_type(rows, nulls, rows as u64);
                check(
                    &batch,
                    WriterProperties {
                        codec,
                        chunk_size_bytes: 1000,
                        row_index_stride: 1000,
                        ..WriterProperties::default()
                    },
                );
            }
        }
    }
}

#[test]
fn orc_rust_reads_many_stripes_and_direct_columns() {
    for codec in CODECS {
        let batch = every_type(7777, Nulls::Some, 3);
        let plain = every_type(7777, Nulls::None, 4);
        for batch in [batch, plain] {
            check(
                &batch,
                WriterProperties {
                    codec,
                    chunk_size_bytes: 4096,
                    direct_columns: vec!["double".into(), "float".into(), "wild".into()],
                    stripe_rows: 2500,
                    row_index_stride: 700,
                    bloom_filter_columns: vec!["word".into(), "int".into(), "double".into()],
                    ..WriterProperties::default()
                },
            );
        }
    }
}
