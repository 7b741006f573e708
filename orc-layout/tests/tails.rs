//! Hand-made tails: each possible fault of a tail, and the reader's error.

use std::sync::Arc;

use bytes::Bytes;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::proto;
use grampus_orc_layout::tail::{FileTail, TailParse};
use grampus_orc_layout::{LayoutError, Result};
use prost::Message;

/// A file of 1,000 bytes of stripes and a tail.
struct TestTail {
    postscript: proto::PostScript,
    footer: proto::Footer,
    metadata: Vec<u8>,
    /// Appended to the encoded footer.
    more_footer: Vec<u8>,
}

const CONTENT: u64 = 1000;

fn test_tail() -> TestTail {
    let root = proto::Type {
        kind: Some(proto::r#type::Kind::Struct as i32),
        subtypes: vec![1],
        field_names: vec!["x".into()],
        ..Default::default()
    };
    let long = proto::Type {
        kind: Some(proto::r#type::Kind::Long as i32),
        ..Default::default()
    };
    let stripe = proto::StripeInformation {
        offset: Some(3),
        index_length: Some(100),
        data_length: Some(800),
        footer_length: Some(97),
        number_of_rows: Some(5),
        ..Default::default()
    };
    TestTail {
        postscript: proto::PostScript {
            version: vec![0, 12],
            writer_version: Some(9),
            magic: Some("ORC".into()),
            ..Default::default()
        },
        footer: proto::Footer {
            types: vec![root, long],
            stripes: vec![stripe],
            number_of_rows: Some(5),
            row_index_stride: Some(10_000),
            ..Default::default()
        },
        metadata: vec![],
        more_footer: vec![],
    }
}

impl TestTail {
    fn bytes(&self) -> Bytes {
        let mut bytes = b"ORC".to_vec();
        bytes.resize(CONTENT as usize, 0);
        bytes.extend_from_slice(&self.metadata);
        let mut footer = self.footer.encode_to_vec();
        footer.extend_from_slice(&self.more_footer);
        bytes.extend_from_slice(&footer);
        let mut postscript = self.postscript.clone();
        postscript.footer_length = postscript.footer_length.or(Some(footer.len() as u64));
        postscript.metadata_length = postscript.metadata_length.or(Some(self.metadata.len() as u64));
        let postscript = postscript.encode_to_vec();
        bytes.extend_from_slice(&postscript);
        bytes.push(postscript.len() as u8);
        bytes.into()
    }

    fn parse(&self) -> Result<FileTail> {
        whole(&self.bytes())
    }

    /// The message of the error from parsing.
    fn refused(&self) -> String {
        self.parse().unwrap_err().to_string()
    }
}

fn whole(bytes: &Bytes) -> Result<FileTail> {
    match FileTail::parse(&"f.orc".into(), bytes.len() as u64, bytes)? {
        TailParse::Complete(tail) => Ok(*tail),
        TailParse::NeedBytes(bytes) => panic!("{bytes} bytes wanted of a whole file"),
    }
}

#[test]
fn valid_tail_is_parsed() {
    let tail = test_tail().parse().unwrap();
    assert_eq!(
        (tail.rows, tail.stripes.len(), tail.row_index_stride),
        (5, 1, Some(10_000))
    );
    assert_eq!(
        (tail.format_version.as_str(), tail.writer.as_str()),
        ("0.12", "ORC Java")
    );
    assert_eq!(tail.stripes[0].footer_range(), 903..1000);
}

#[test]
fn short_read_returns_the_needed_bytes() {
    let bytes = test_tail().bytes();
    let file: Arc<str> = "f.orc".into();
    let length = bytes.len() as u64;
    let needed = |from_end: usize| match FileTail::parse(&file, length, &bytes.slice(bytes.len() - from_end..)) {
        Ok(TailParse::NeedBytes(needed)) => needed,
        other => panic!("{from_end} bytes cannot be enough: {other:?}"),
    };
    assert!((15..30).contains(&needed(1)), "the postscript");
    let needed = needed(30);
    assert_eq!(needed, length - CONTENT);
    let part = bytes.slice(bytes.len() - needed as usize..);
    let TailParse::Complete(tail) = FileTail::parse(&file, length, &part).unwrap() else {
        panic!("that was what it asked for");
    };
    assert_eq!(tail.tail_length, needed);
}

#[test]
fn other_formats_are_distinguished_from_truncated_files() {
    let text = Bytes::from("a,b,c\n".repeat(500));
    assert!(matches!(whole(&text), Err(LayoutError::NotOrc { .. })));
    let parquet = Bytes::from([b"PAR1", &[0; 100][..], b"PAR1"].concat());
    assert!(matches!(whole(&parquet), Err(LayoutError::NotOrc { .. })));
    assert!(matches!(whole(&Bytes::new()), Err(LayoutError::NotOrc { .. })));
    let cut = test_tail().bytes().slice(..700);
    let error = whole(&cut).unwrap_err();
    assert!(error.to_string().contains("its end is missing"), "{error}");
}

#[test]
fn lengths_that_do_not_fit_are_refused_without_overflow() {
    for (footer, metadata) in [
        (Some(u64::MAX), Some(u64::MAX)),
        (Some(5000), None),
        (None, Some(1 << 63)),
    ] {
        let mut made = test_tail();
        made.postscript.footer_length = footer;
        made.postscript.metadata_length = metadata;
        assert!(made.refused().contains("(postscript)"), "{}", made.refused());
    }
    for (offset, data) in [(3, 2000), (u64::MAX - 10, 800), (3, u64::MAX - 5), (904, 800)] {
        let mut made = test_tail();
        made.footer.stripes[0].offset = Some(offset);
        made.footer.stripes[0].data_length = Some(data);
        assert!(made.refused().contains("leaves the file"), "{}", made.refused());
    }
    for rows in [4, u64::MAX] {
        let mut made = test_tail();
        made.footer.stripes[0].number_of_rows = Some(rows);
        assert!(made.refused().contains("rows"), "{}", made.refused());
    }
}

#[test]
fn unsupported_files_name_the_feature() {
    let mut brotli = test_tail();
    brotli.postscript.compression = Some(6);
    assert!(brotli.refused().contains("compression codec 6 is not supported"));
    let mut dwrf = test_tail();
    dwrf.postscript.magic = None;
    dwrf.postscript.version = vec![1];
    assert!(dwrf.refused().contains("DWRF"));
}

#[test]
fn encrypted_columns_are_named_and_their_statistics_left_out() {
    let mut made = test_tail();
    made.footer.statistics = vec![statistics(5), statistics(5)];
    assert_eq!(made.parse().unwrap().file_statistics[1].values, Some(5));
    made.footer.encryption = Some(proto::Encryption {
        variants: vec![proto::EncryptionVariant {
            root: Some(1),
            ..Default::default()
        }],
        ..Default::default()
    });
    let tail = made.parse().unwrap();
    assert_eq!(tail.encrypted_columns, [1]);
    assert_eq!(tail.file_statistics[0].values, Some(5));
    assert_eq!(tail.file_statistics[1].values, None);
}

fn statistics(values: u64) -> proto::ColumnStatistics {
    proto::ColumnStatistics {
        number_of_values: Some(values),
        has_null: Some(false),
        ..Default::default()
    }
}

#[test]
fn stripe_statistics_need_one_entry_per_stripe() {
    let stripe = |values| proto::StripeStatistics {
        col_stats: vec![statistics(values); 2],
    };
    let parse = |stripe_stats| {
        let mut made = test_tail();
        made.metadata = proto::Metadata { stripe_stats }.encode_to_vec();
        made.parse().unwrap().stripe_statistics
    };
    assert_eq!(parse(vec![stripe(5)])[0][1].values, Some(5));
    assert!(parse(vec![stripe(5), stripe(5)]).is_empty());
    // Writers without a row index counted nothing: five rows, no values, no nulls.
    assert_eq!(parse(vec![stripe(0)])[0][1].values, None);
}

#[test]
fn statistics_without_valid_utf8_are_dropped_alone() {
    let mut made = test_tail();
    made.footer.statistics = vec![statistics(5)];
    // String statistics with a minimum of two bad bytes.
    made.more_footer = vec![0x3a, 6, 0x22, 4, 0x0a, 2, 0xff, 0xfe];
    let tail = made.parse().unwrap();
    assert_eq!(tail.file_statistics[0].values, Some(5));
    assert_eq!(tail.file_statistics[1].values, None);
}

#[test]
fn footer_of_empty_entries_is_refused() {
    // An entry of two bytes makes a stripe, which takes a hundred in memory: the footer has more stripes than any file.
    let mut made = test_tail();
    made.more_footer = [0x1a, 0].repeat((1 << 20) + 1);
    assert!(made.refused().contains("more than"), "{}", made.refused());
}

#[test]
fn exploding_footer_is_refused() {
    // Chunks of a few hundred bytes that decompress to eight megabytes each.
    let mut chunk = vec![];
    grampus_orc_layout::chunk::append_chunk(Some(Codec::Zstd), &vec![0; 8_000_000], &mut chunk).unwrap();
    let chunks = chunk.repeat(10);
    let mut made = test_tail();
    made.postscript.compression = Some(proto::CompressionKind::Zstd as i32);
    made.postscript.compression_block_size = Some(8_000_000);
    made.postscript.footer_length = Some(chunks.len() as u64);
    made.more_footer = chunks;
    assert!(
        made.refused().contains("decompresses to more than"),
        "{}",
        made.refused()
    );
}
