//! [`LayoutOptions`]: options of the commands that write ORC files.

use clap::ValueEnum;
use grampus_orc_layout::codec::Codec;

use crate::units;

/// How files are laid out.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LayoutOptions {
    /// How streams are compressed
    #[arg(long, value_enum, default_value_t = Compression::None)]
    pub(crate) compression: Compression,

    /// Uncompressed bytes in each compression chunk, such as 64k [default: chosen for sparse reads]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) chunk_size: Option<usize>,

    /// The same for numbers, dates, timestamps and booleans, at most as much [default: chosen for sparse reads]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) number_chunk_size: Option<usize>,

    /// FLOAT and DOUBLE columns to leave uncompressed in a compressed file, so that single values can be fetched
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',')]
    pub(crate) direct: Vec<String>,

    /// Rows in each row group, which has statistics and an entry point: fewer let sparse reads skip more
    /// [default: 10000]
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) row_group: Option<u32>,

    /// Replace the folder or file, whole and only when all is written; a folder may hold only what grampus wrote
    #[arg(long)]
    pub(crate) overwrite: bool,

    /// Print errors only
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How streams are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    None,
    Zlib,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    pub(crate) fn codec(self) -> Option<Codec> {
        match self {
            Self::None => None,
            Self::Zlib => Some(Codec::Zlib),
            Self::Snappy => Some(Codec::Snappy),
            Self::Lz4 => Some(Codec::Lz4),
            Self::Zstd => Some(Codec::Zstd),
        }
    }
}
