//! [`StripeFooter`] and the messages of a stripe's index (ORC v1, "Stripes", "Indexes").

use super::statistics::ColumnStatistics;

/// One row group in a row index.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RowIndexEntry {
    /// Positions of the column's streams, one after the other.
    #[prost(uint64, repeated, tag = "1")]
    pub positions: Vec<u64>,
    /// Statistics of the row group.
    #[prost(message, optional, tag = "2")]
    pub statistics: Option<ColumnStatistics>,
}

/// The row index of a column in a stripe.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RowIndex {
    /// Row groups, in order.
    #[prost(message, repeated, tag = "1")]
    pub entry: Vec<RowIndexEntry>,
}

/// The bloom filter of a row group.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BloomFilter {
    /// Bits that each value sets.
    #[prost(uint32, optional, tag = "1")]
    pub num_hash_functions: Option<u32>,
    /// The bit set in the old form.
    #[prost(fixed64, repeated, packed = "false", tag = "2")]
    pub bitset: Vec<u64>,
    /// The bit set as little-endian words.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub utf8bitset: Option<Vec<u8>>,
}

/// The bloom filters of a column in a stripe.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BloomFilterIndex {
    /// Filters by row group.
    #[prost(message, repeated, tag = "1")]
    pub bloom_filter: Vec<BloomFilter>,
}

/// A stream of a stripe. Its offset follows from the streams before it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Stream {
    /// A [`stream::Kind`].
    #[prost(enumeration = "stream::Kind", optional, tag = "1")]
    pub kind: Option<i32>,
    /// Column that the stream belongs to.
    #[prost(uint32, optional, tag = "2")]
    pub column: Option<u32>,
    /// Bytes in the file.
    #[prost(uint64, optional, tag = "3")]
    pub length: Option<u64>,
}

/// Enumeration of [`Stream`].
pub mod stream {
    /// Contents of a stream.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    #[non_exhaustive]
    #[allow(missing_docs)] // the specification's own names
    pub enum Kind {
        Present = 0,
        Data = 1,
        Length = 2,
        DictionaryData = 3,
        DictionaryCount = 4,
        Secondary = 5,
        RowIndex = 6,
        BloomFilter = 7,
        BloomFilterUtf8 = 8,
        EncryptedIndex = 9,
        EncryptedData = 10,
        StripeStatistics = 100,
        FileStatistics = 101,
    }

    impl Kind {
        /// The enumerator's name in the specification: "PRESENT", "DATA", …
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Present => "PRESENT",
                Self::Data => "DATA",
                Self::Length => "LENGTH",
                Self::DictionaryData => "DICTIONARY_DATA",
                Self::DictionaryCount => "DICTIONARY_COUNT",
                Self::Secondary => "SECONDARY",
                Self::RowIndex => "ROW_INDEX",
                Self::BloomFilter => "BLOOM_FILTER",
                Self::BloomFilterUtf8 => "BLOOM_FILTER_UTF8",
                Self::EncryptedIndex => "ENCRYPTED_INDEX",
                Self::EncryptedData => "ENCRYPTED_DATA",
                Self::StripeStatistics => "STRIPE_STATISTICS",
                Self::FileStatistics => "FILE_STATISTICS",
            }
        }
    }
}

/// Encoding of a column in a stripe.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ColumnEncoding {
    /// A [`column_encoding::Kind`].
    #[prost(enumeration = "column_encoding::Kind", optional, tag = "1")]
    pub kind: Option<i32>,
    /// Entries of the dictionary.
    #[prost(uint32, optional, tag = "2")]
    pub dictionary_size: Option<u32>,
    /// Form of the bloom filters: 1 if timestamps are hashed in UTC (ORC-135).
    #[prost(uint32, optional, tag = "3")]
    pub bloom_encoding: Option<u32>,
}

/// Enumeration of [`ColumnEncoding`].
pub mod column_encoding {
    /// Encoding of a column.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    #[non_exhaustive]
    #[allow(missing_docs)] // the specification's own names
    pub enum Kind {
        Direct = 0,
        Dictionary = 1,
        DirectV2 = 2,
        DictionaryV2 = 3,
    }

    impl Kind {
        /// The enumerator's name in the specification: "DIRECT", "DIRECT_V2", …
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Direct => "DIRECT",
                Self::Dictionary => "DICTIONARY",
                Self::DirectV2 => "DIRECT_V2",
                Self::DictionaryV2 => "DICTIONARY_V2",
            }
        }
    }
}

/// Streams and encodings of an encrypted variant of columns.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StripeEncryptionVariant {
    /// Streams of the variant.
    #[prost(message, repeated, tag = "1")]
    pub streams: Vec<Stream>,
    /// Encodings of the variant's columns.
    #[prost(message, repeated, tag = "2")]
    pub encoding: Vec<ColumnEncoding>,
}

/// The footer of a stripe.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StripeFooter {
    /// Streams in file order.
    #[prost(message, repeated, tag = "1")]
    pub streams: Vec<Stream>,
    /// Encodings by column.
    #[prost(message, repeated, tag = "2")]
    pub columns: Vec<ColumnEncoding>,
    /// Name of the zone in which TIMESTAMP values are stored.
    #[prost(string, optional, tag = "3")]
    pub writer_timezone: Option<String>,
    /// Encrypted variants.
    #[prost(message, repeated, tag = "4")]
    pub encryption: Vec<StripeEncryptionVariant>,
}
