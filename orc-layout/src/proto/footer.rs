//! [`Footer`], [`Metadata`] and [`PostScript`], the messages of a file's tail (ORC v1, "File Tail").

use super::statistics::ColumnStatistics;
use super::stripe_footer::Stream;

/// A key and its value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StringPair {
    /// The key.
    #[prost(string, optional, tag = "1")]
    pub key: Option<String>,
    /// The value.
    #[prost(string, optional, tag = "2")]
    pub value: Option<String>,
}

/// A node of the type tree.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Type {
    /// A kind of the module `type`.
    #[prost(enumeration = "r#type::Kind", optional, tag = "1")]
    pub kind: Option<i32>,
    /// Column ids of the children.
    #[prost(uint32, repeated, tag = "2")]
    pub subtypes: Vec<u32>,
    /// Names of a struct's children.
    #[prost(string, repeated, tag = "3")]
    pub field_names: Vec<String>,
    /// Characters of CHAR and VARCHAR.
    #[prost(uint32, optional, tag = "4")]
    pub maximum_length: Option<u32>,
    /// Digits of DECIMAL.
    #[prost(uint32, optional, tag = "5")]
    pub precision: Option<u32>,
    /// Digits of DECIMAL behind the point.
    #[prost(uint32, optional, tag = "6")]
    pub scale: Option<u32>,
    /// Attributes that applications attach to the type.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<StringPair>,
}

/// Enumeration of [`Type`].
pub mod r#type {
    /// Kind of a type.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    #[non_exhaustive]
    #[allow(missing_docs)] // the specification's own names
    pub enum Kind {
        Boolean = 0,
        Byte = 1,
        Short = 2,
        Int = 3,
        Long = 4,
        Float = 5,
        Double = 6,
        String = 7,
        Binary = 8,
        Timestamp = 9,
        List = 10,
        Map = 11,
        Struct = 12,
        Union = 13,
        Decimal = 14,
        Date = 15,
        Varchar = 16,
        Char = 17,
        TimestampInstant = 18,
    }
}

/// Place of a stripe.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StripeInformation {
    /// Absolute offset of the stripe's first byte.
    #[prost(uint64, optional, tag = "1")]
    pub offset: Option<u64>,
    /// Bytes of the index.
    #[prost(uint64, optional, tag = "2")]
    pub index_length: Option<u64>,
    /// Bytes of the data.
    #[prost(uint64, optional, tag = "3")]
    pub data_length: Option<u64>,
    /// Bytes of the footer.
    #[prost(uint64, optional, tag = "4")]
    pub footer_length: Option<u64>,
    /// Rows.
    #[prost(uint64, optional, tag = "5")]
    pub number_of_rows: Option<u64>,
    /// Number of the stripe in initialization vectors, where it is not one more than the stripe's before.
    #[prost(uint64, optional, tag = "6")]
    pub encrypt_stripe_id: Option<u64>,
    /// Encrypted keys of the variants, from this stripe on.
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub encrypted_local_keys: Vec<Vec<u8>>,
}

/// An entry of the user's metadata.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UserMetadataItem {
    /// Its name.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Its value, any bytes.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub value: Option<Vec<u8>>,
}

/// Statistics of a stripe, by column.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StripeStatistics {
    /// Statistics by column.
    #[prost(message, repeated, tag = "1")]
    pub col_stats: Vec<ColumnStatistics>,
}

/// The metadata section.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Metadata {
    /// Statistics by stripe.
    #[prost(message, repeated, tag = "1")]
    pub stripe_stats: Vec<StripeStatistics>,
}

/// Statistics of an encrypted column, by stripe.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ColumnarStripeStatistics {
    /// Statistics by stripe.
    #[prost(message, repeated, tag = "1")]
    pub col_stats: Vec<ColumnStatistics>,
}

/// Statistics of an encrypted variant in the file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct FileStatistics {
    /// Statistics by column of the variant.
    #[prost(message, repeated, tag = "1")]
    pub column: Vec<ColumnStatistics>,
}

/// How the unencrypted values of encrypted columns are masked.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DataMask {
    /// Name of the mask.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Parameters of the mask.
    #[prost(string, repeated, tag = "2")]
    pub mask_parameters: Vec<String>,
    /// Columns that the mask applies to.
    #[prost(uint32, repeated, tag = "3")]
    pub columns: Vec<u32>,
}

/// Algorithm of an [`EncryptionKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[non_exhaustive]
#[allow(missing_docs)] // the specification's own names
pub enum EncryptionAlgorithm {
    UnknownEncryption = 0,
    AesCtr128 = 1,
    AesCtr256 = 2,
}

/// A master key.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EncryptionKey {
    /// Name of the key.
    #[prost(string, optional, tag = "1")]
    pub key_name: Option<String>,
    /// Version of the key.
    #[prost(uint32, optional, tag = "2")]
    pub key_version: Option<u32>,
    /// An [`EncryptionAlgorithm`].
    #[prost(enumeration = "EncryptionAlgorithm", optional, tag = "3")]
    pub algorithm: Option<i32>,
}

/// A subtree of columns, encrypted with one key.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EncryptionVariant {
    /// Column id of the subtree's root.
    #[prost(uint32, optional, tag = "1")]
    pub root: Option<u32>,
    /// Index of the master key in [`Encryption::key`].
    #[prost(uint32, optional, tag = "2")]
    pub key: Option<u32>,
    /// The encrypted key of the file's footer.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub encrypted_key: Option<Vec<u8>>,
    /// Streams of the stripe statistics.
    #[prost(message, repeated, tag = "4")]
    pub stripe_statistics: Vec<Stream>,
    /// The encrypted [`FileStatistics`].
    #[prost(bytes = "vec", optional, tag = "5")]
    pub file_statistics: Option<Vec<u8>>,
}

/// Provider of an [`Encryption`]'s keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[non_exhaustive]
#[allow(missing_docs)] // the specification's own names
pub enum KeyProviderKind {
    Unknown = 0,
    Hadoop = 1,
    Aws = 2,
    Gcp = 3,
    Azure = 4,
}

/// The encryption of a file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Encryption {
    /// Masks.
    #[prost(message, repeated, tag = "1")]
    pub mask: Vec<DataMask>,
    /// Master keys.
    #[prost(message, repeated, tag = "2")]
    pub key: Vec<EncryptionKey>,
    /// Encrypted variants of columns.
    #[prost(message, repeated, tag = "3")]
    pub variants: Vec<EncryptionVariant>,
    /// A [`KeyProviderKind`].
    #[prost(enumeration = "KeyProviderKind", optional, tag = "4")]
    pub key_provider: Option<i32>,
}

/// Calendar of dates and timestamps before 1582-10-15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[non_exhaustive]
#[allow(missing_docs)] // the specification's own names
pub enum CalendarKind {
    UnknownCalendar = 0,
    JulianGregorian = 1,
    ProlepticGregorian = 2,
}

/// The footer of a file.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Footer {
    /// Bytes of the header, always 3.
    #[prost(uint64, optional, tag = "1")]
    pub header_length: Option<u64>,
    /// Bytes of header and stripes.
    #[prost(uint64, optional, tag = "2")]
    pub content_length: Option<u64>,
    /// Stripes in file order.
    #[prost(message, repeated, tag = "3")]
    pub stripes: Vec<StripeInformation>,
    /// The type tree.
    #[prost(message, repeated, tag = "4")]
    pub types: Vec<Type>,
    /// The user's metadata.
    #[prost(message, repeated, tag = "5")]
    pub metadata: Vec<UserMetadataItem>,
    /// Rows of the file.
    #[prost(uint64, optional, tag = "6")]
    pub number_of_rows: Option<u64>,
    /// Statistics by column.
    #[prost(message, repeated, tag = "7")]
    pub statistics: Vec<ColumnStatistics>,
    /// Rows of a row group; 0 without a row index.
    #[prost(uint32, optional, tag = "8")]
    pub row_index_stride: Option<u32>,
    /// Code of the writer: 0 Java, 1 C++, 2 Presto, 3 Go, 4 Trino.
    #[prost(uint32, optional, tag = "9")]
    pub writer: Option<u32>,
    /// The encryption, if columns are encrypted.
    #[prost(message, optional, tag = "10")]
    pub encryption: Option<Encryption>,
    /// A [`CalendarKind`].
    #[prost(enumeration = "CalendarKind", optional, tag = "11")]
    pub calendar: Option<i32>,
    /// Version of the writer's software.
    #[prost(string, optional, tag = "12")]
    pub software_version: Option<String>,
}

/// Compression of a file's streams and sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
#[non_exhaustive]
#[allow(missing_docs)] // the specification's own names
pub enum CompressionKind {
    None = 0,
    Zlib = 1,
    Snappy = 2,
    Lzo = 3,
    Lz4 = 4,
    Zstd = 5,
}

/// The last section of a file, never compressed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PostScript {
    /// Bytes of the footer.
    #[prost(uint64, optional, tag = "1")]
    pub footer_length: Option<u64>,
    /// A [`CompressionKind`].
    #[prost(enumeration = "CompressionKind", optional, tag = "2")]
    pub compression: Option<i32>,
    /// Largest uncompressed bytes of a chunk.
    #[prost(uint64, optional, tag = "3")]
    pub compression_block_size: Option<u64>,
    /// Version of the format: 0 and 11, or 0 and 12.
    #[prost(uint32, repeated, tag = "4")]
    pub version: Vec<u32>,
    /// Bytes of the metadata section.
    #[prost(uint64, optional, tag = "5")]
    pub metadata_length: Option<u64>,
    /// Version of the writer, which counts its corrections.
    #[prost(uint32, optional, tag = "6")]
    pub writer_version: Option<u32>,
    /// Bytes of the encrypted stripe statistics.
    #[prost(uint64, optional, tag = "7")]
    pub stripe_statistics_length: Option<u64>,
    /// "ORC".
    #[prost(string, optional, tag = "8000")]
    pub magic: Option<String>,
}
