//! [`Postscript`], the last bytes of the file: whether the file is ORC, its compression, and the tail's length.

use std::sync::Arc;

use bytes::Bytes;

use crate::codec::{Codec, Compression};
use crate::error::{LayoutError, Result, Section};
use crate::proto;
use crate::wire;

const MAGIC: &[u8] = b"ORC";
/// Block size of a compressed file without one; the Java reader assumes the same.
const DEFAULT_BLOCK_BYTES: u64 = 256 * 1024;

/// The postscript and the lengths that follow from it.
///
/// ```text
/// … stripes | [encrypted statistics] | metadata | footer | postscript | 1 byte: postscript length
///                                    |<------------- tail_length ------------------------------>|
/// ```
pub(crate) struct Postscript {
    pub(crate) compression: Option<Compression>,
    pub(crate) footer_length: u64,
    pub(crate) metadata_length: u64,
    /// Postscript with its length byte.
    pub(crate) postscript_length: u64,
    pub(crate) tail_length: u64,
    /// Encrypted stripe statistics, which lie before the tail.
    pub(crate) encrypted_length: u64,
    pub(crate) format_version: String,
    pub(crate) writer_version: u32,
    pub(crate) magic: bool,
}

impl Postscript {
    /// Parses the postscript at the end of a file's last bytes.
    pub(crate) fn parse(file: &Arc<str>, file_length: u64, last: &Bytes) -> Result<Self> {
        let Some((&length, before)) = last.split_last() else {
            return Err(LayoutError::not_orc(file, format!("it has {file_length} bytes")));
        };
        // The last bytes of a small file include its head: a truncated ORC file can then be told from another format.
        let head = (last.len() as u64 == file_length).then(|| last.starts_with(MAGIC));
        let no_postscript = || match head {
            Some(true) => LayoutError::not_orc(
                file,
                "it starts like one, but its end is missing: cut off while written or copied?",
            ),
            _ => LayoutError::not_orc(file, "it does not end with an ORC postscript"),
        };
        let start = before.len().checked_sub(usize::from(length)).filter(|_| length > 0);
        let postscript = start.map(|start| &before[start..]).ok_or_else(no_postscript)?;
        let postscript: proto::PostScript = wire::decode(postscript).map_err(|_| no_postscript())?;
        let magic = match (&postscript.magic, head) {
            (Some(magic), _) if magic.as_bytes() == MAGIC => true,
            (Some(magic), _) if magic == "DWRF" => return Err(dwrf(file)),
            // The oldest writers put their magic at the start of the file only. DWRF does the same; its fourth field is
            // one number.
            (None, _) if postscript.version.len() == 1 => return Err(dwrf(file)),
            (None, Some(true)) => true,
            (None, None) => false,
            _ => return Err(no_postscript()),
        };
        let place = Section {
            file,
            offset: file_length.saturating_sub(1 + u64::from(length)),
            name: "postscript",
        };
        let Some(footer_length) = postscript.footer_length else {
            return Err(place.corrupt(0, "the length of the footer is missing"));
        };
        let metadata_length = postscript.metadata_length();
        let encrypted_length = postscript.stripe_statistics_length();
        let postscript_length = 1 + u64::from(length);
        let tail_length = footer_length
            .checked_add(metadata_length)
            .and_then(|sum| sum.checked_add(postscript_length));
        let all = tail_length.and_then(|tail| tail.checked_add(encrypted_length));
        let Some(tail_length) = tail_length.filter(|_| all.is_some_and(|all| all <= file_length)) else {
            let reason = format!(
                "a footer of {footer_length} and metadata of {metadata_length} bytes do not fit a file of {file_length}"
            );
            return Err(place.corrupt(0, reason));
        };
        let version: Vec<String> = postscript.version.iter().map(u32::to_string).collect();
        Ok(Self {
            compression: compression(file, &postscript)?,
            footer_length,
            metadata_length,
            postscript_length,
            tail_length,
            encrypted_length,
            format_version: version.join("."),
            writer_version: postscript.writer_version(),
            magic,
        })
    }
}

fn dwrf(file: &Arc<str>) -> LayoutError {
    LayoutError::unsupported(
        file,
        "DWRF, a relative of ORC,",
        "rewrite the file as ORC, with Presto or Velox say",
    )
}

fn compression(file: &Arc<str>, postscript: &proto::PostScript) -> Result<Option<Compression>> {
    use proto::CompressionKind;
    let number = postscript.compression.unwrap_or(0);
    let codec = match CompressionKind::try_from(number) {
        Ok(CompressionKind::None) => return Ok(None),
        Ok(CompressionKind::Zlib) => Codec::Zlib,
        Ok(CompressionKind::Snappy) => Codec::Snappy,
        Ok(CompressionKind::Lzo) => Codec::Lzo,
        Ok(CompressionKind::Lz4) => Codec::Lz4,
        Ok(CompressionKind::Zstd) => Codec::Zstd,
        Err(_) => {
            let feature = format!("compression codec {number}");
            return Err(LayoutError::unsupported(
                file,
                feature,
                "rewrite the file with zlib, snappy, lz4 or zstd",
            ));
        }
    };
    let block_size_bytes = match postscript.compression_block_size() {
        0 => DEFAULT_BLOCK_BYTES,
        stated => stated,
    };
    Ok(Some(Compression {
        codec,
        block_size_bytes,
    }))
}
