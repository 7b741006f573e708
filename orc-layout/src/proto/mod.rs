//! The protobuf messages of ORC's metadata (ORC v1, `orc_proto.proto`), with the specification's field numbers.
//!
//! - `statistics`: values of a column, at all levels
//! - `stripe_footer`: row index, bloom filters, streams and encodings of a stripe
//! - `footer`: types, stripes, encryption and postscript of a file
//!
//! The messages follow protobuf's version 2: each field may be absent, and an accessor named like the field returns the
//! default of an absent one. An enumeration's field holds the stored number, whose accessor returns the first
//! enumerator for an unknown number.

mod footer;
mod statistics;
mod stripe_footer;

pub use footer::{
    CalendarKind, ColumnarStripeStatistics, CompressionKind, DataMask, Encryption, EncryptionAlgorithm, EncryptionKey,
    EncryptionVariant, FileStatistics, Footer, KeyProviderKind, Metadata, PostScript, StringPair, StripeInformation,
    StripeStatistics, Type, UserMetadataItem, r#type,
};
pub use statistics::{
    BinaryStatistics, BucketStatistics, CollectionStatistics, ColumnStatistics, DateStatistics, DecimalStatistics,
    DoubleStatistics, IntegerStatistics, StringStatistics, TimestampStatistics,
};
pub use stripe_footer::{
    BloomFilter, BloomFilterIndex, ColumnEncoding, RowIndex, RowIndexEntry, Stream, StripeEncryptionVariant,
    StripeFooter, column_encoding, stream,
};

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// A field that a later version added, and an unknown enumerator: both pass, as protobuf's version 2 asks for.
    #[test]
    fn unknown_fields_and_enumerators_are_kept_or_skipped() {
        // kind (1) = 99, column (2) = 7, and field 15 = 1.
        let stored = [0x08, 99, 0x10, 7, 0x78, 1];
        let stream = Stream::decode(&stored[..]).unwrap();
        assert_eq!((stream.kind, stream.column(), stream.length()), (Some(99), 7, 0));
        assert_eq!(stream.kind(), stream::Kind::Present);
        assert_eq!(stream::Kind::try_from(99).ok(), None);
        assert_eq!(Stream::default().kind, None);
    }

    /// The bytes follow from the protobuf encoding: zigzag for sint64, packed positions, fixed64 one by one.
    #[test]
    fn encoded_fields_have_the_wire_types_of_the_specification() {
        let integers = IntegerStatistics {
            minimum: Some(-1),
            maximum: Some(1),
            sum: None,
        };
        assert_eq!(integers.encode_to_vec(), [0x08, 1, 0x10, 2]);
        let entry = RowIndexEntry {
            positions: vec![1, 300],
            statistics: None,
        };
        assert_eq!(entry.encode_to_vec(), [0x0a, 3, 1, 0xac, 2]);
        let filter = BloomFilter {
            num_hash_functions: Some(2),
            bitset: vec![1, 2],
            utf8bitset: None,
        };
        let word = |number: u8| [&[0x11, number][..], &[0; 7]].concat();
        assert_eq!(filter.encode_to_vec(), [vec![0x08, 2], word(1), word(2)].concat());
        let postscript = PostScript {
            version: vec![0, 12],
            magic: Some("ORC".into()),
            ..Default::default()
        };
        // Field 8000 has the key 8000 << 3 | 2 = 64,002.
        assert_eq!(
            postscript.encode_to_vec(),
            [0x22, 2, 0, 12, 0x82, 0xf4, 3, 3, b'O', b'R', b'C']
        );
    }

    /// orc-rust's messages are generated from the specification's file: the same values have the same bytes.
    #[test]
    fn messages_equal_those_that_another_reader_generated() {
        let footer = every_footer_field();
        let bytes = footer.encode_to_vec();
        let theirs = orc_rust::proto::Footer::decode(&bytes[..]).unwrap();
        assert_eq!(theirs.encode_to_vec(), bytes);
        assert_eq!(theirs.types[0].attributes[0].key(), "key");
        assert_eq!(
            theirs.statistics[0]
                .collection_statistics
                .as_ref()
                .unwrap()
                .total_children(),
            9
        );
        assert_eq!(Footer::decode(&theirs.encode_to_vec()[..]).unwrap(), footer);
    }

    fn every_footer_field() -> Footer {
        let statistics = ColumnStatistics {
            number_of_values: Some(1),
            int_statistics: Some(IntegerStatistics {
                minimum: Some(i64::MIN),
                maximum: Some(i64::MAX),
                sum: Some(-5),
            }),
            double_statistics: Some(DoubleStatistics {
                minimum: Some(-0.5),
                maximum: Some(1e300),
                sum: Some(2.0),
            }),
            string_statistics: Some(StringStatistics {
                minimum: Some("a".into()),
                maximum: Some("b".into()),
                sum: Some(2),
                lower_bound: Some("l".into()),
                upper_bound: Some("u".into()),
            }),
            bucket_statistics: Some(BucketStatistics { count: vec![4, 500] }),
            decimal_statistics: Some(DecimalStatistics {
                minimum: Some("1.5".into()),
                maximum: Some("2.5".into()),
                sum: Some("4".into()),
            }),
            date_statistics: Some(DateStatistics {
                minimum: Some(-3),
                maximum: Some(4),
            }),
            binary_statistics: Some(BinaryStatistics { sum: Some(-8) }),
            timestamp_statistics: Some(TimestampStatistics {
                minimum: Some(-1),
                maximum: Some(2),
                minimum_utc: Some(-3),
                maximum_utc: Some(4),
                minimum_nanos: Some(5),
                maximum_nanos: Some(-6),
            }),
            has_null: Some(true),
            bytes_on_disk: Some(77),
            collection_statistics: Some(CollectionStatistics {
                min_children: Some(1),
                max_children: Some(8),
                total_children: Some(9),
            }),
        };
        let variant = EncryptionVariant {
            root: Some(1),
            key: Some(0),
            encrypted_key: Some(vec![1, 2]),
            stripe_statistics: vec![Stream {
                kind: Some(stream::Kind::StripeStatistics.into()),
                column: Some(1),
                length: Some(3),
            }],
            file_statistics: Some(vec![9]),
        };
        Footer {
            header_length: Some(3),
            content_length: Some(100),
            stripes: vec![StripeInformation {
                offset: Some(3),
                index_length: Some(4),
                data_length: Some(5),
                footer_length: Some(6),
                number_of_rows: Some(7),
                encrypt_stripe_id: Some(8),
                encrypted_local_keys: vec![vec![1], vec![]],
            }],
            types: vec![Type {
                kind: Some(r#type::Kind::TimestampInstant.into()),
                subtypes: vec![1, 200],
                field_names: vec!["x".into(), "y".into()],
                maximum_length: Some(10),
                precision: Some(38),
                scale: Some(2),
                attributes: vec![StringPair {
                    key: Some("key".into()),
                    value: Some("value".into()),
                }],
            }],
            metadata: vec![UserMetadataItem {
                name: Some("name".into()),
                value: Some(vec![0, 255]),
            }],
            number_of_rows: Some(7),
            statistics: vec![statistics],
            row_index_stride: Some(10_000),
            writer: Some(4),
            encryption: Some(Encryption {
                mask: vec![DataMask {
                    name: Some("nullify".into()),
                    mask_parameters: vec!["p".into()],
                    columns: vec![1, 2],
                }],
                key: vec![EncryptionKey {
                    key_name: Some("k".into()),
                    key_version: Some(1),
                    algorithm: Some(EncryptionAlgorithm::AesCtr256.into()),
                }],
                variants: vec![variant],
                key_provider: Some(KeyProviderKind::Azure.into()),
            }),
            calendar: Some(CalendarKind::ProlepticGregorian.into()),
            software_version: Some("1.2.3".into()),
        }
    }
}
