//! `FileParts`: an ORC file taken apart into messages and streams, and put together again with other claims.

use grampus_orc_layout::chunk::append_chunk;
use grampus_orc_layout::codec::{Codec, decompress_over};
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::proto::{Footer, Metadata, PostScript, RowIndex, Stream, StripeFooter, StripeInformation};
use prost::Message;

/// A stripe with its bytes.
#[derive(Debug, Clone)]
pub(crate) struct StripeParts {
    pub(crate) info: StripeInformation,
    /// The footer; its streams are those of `streams`.
    pub(crate) footer: StripeFooter,
    pub(crate) streams: Vec<StreamParts>,
}

/// A stream with its bytes, or with the row index that they encode.
#[derive(Debug, Clone)]
pub(crate) struct StreamParts {
    pub(crate) stream: Stream,
    pub(crate) bytes: Vec<u8>,
    pub(crate) index: Option<RowIndex>,
}

/// A file of our writer.
#[derive(Debug, Clone)]
pub(crate) struct FileParts {
    pub(crate) postscript: PostScript,
    pub(crate) footer: Footer,
    pub(crate) metadata: Metadata,
    pub(crate) stripes: Vec<StripeParts>,
}

fn codec_of(postscript: &PostScript) -> Option<Codec> {
    match postscript.compression.unwrap_or(0) {
        1 => Some(Codec::Zlib),
        2 => Some(Codec::Snappy),
        4 => Some(Codec::Lz4),
        5 => Some(Codec::Zstd),
        _ => None,
    }
}

fn block_size(postscript: &PostScript) -> usize {
    postscript.compression_block_size.unwrap_or(1 << 18) as usize
}

impl FileParts {
    /// Takes a valid file apart.
    pub(crate) fn of(file: &[u8]) -> Self {
        let (&length, before) = file.split_last().expect("a file");
        let (before, postscript) = before.split_at(before.len() - usize::from(length));
        let postscript = PostScript::decode(postscript).expect("a postscript");
        let (before, footer) = before.split_at(before.len() - postscript.footer_length() as usize);
        let (_, metadata) = before.split_at(before.len() - postscript.metadata_length() as usize);
        let plain = |bytes: &[u8]| expanded(&postscript, bytes);
        let footer = Footer::decode(&plain(footer)[..]).expect("a footer");
        let metadata = Metadata::decode(&plain(metadata)[..]).expect("metadata");
        let stripe = |info: &StripeInformation| {
            let mut at = info.offset() as usize;
            let end = at + (info.index_length() + info.data_length()) as usize;
            let stored = StripeFooter::decode(&plain(&file[end..end + info.footer_length() as usize])[..]);
            let stored = stored.expect("a stripe footer");
            let streams = stored.streams.iter().map(|stream| {
                let bytes = file[at..at + stream.length() as usize].to_vec();
                at += bytes.len();
                let index = (stream.kind == Some(Kind::RowIndex as i32) && !bytes.is_empty())
                    .then(|| RowIndex::decode(&plain(&bytes)[..]).expect("a row index"));
                StreamParts {
                    stream: stream.clone(),
                    bytes,
                    index,
                }
            });
            StripeParts {
                info: info.clone(),
                streams: streams.collect(),
                footer: stored,
            }
        };
        Self {
            stripes: footer.stripes.iter().map(stripe).collect(),
            postscript,
            footer,
            metadata,
        }
    }

    /// The file, with true offsets and lengths until `claim` changes them. `claim` sees all messages but the
    /// postscript's lengths, which `end` sees.
    pub(crate) fn assemble(mut self, claim: impl FnOnce(&mut Self), end: impl FnOnce(&mut PostScript)) -> Vec<u8> {
        let mut file = b"ORC".to_vec();
        let mut bodies = Vec::new();
        for stripe in &mut self.stripes {
            let (mut index_bytes, mut body) = (0, Vec::new());
            for part in &mut stripe.streams {
                if let Some(index) = &part.index {
                    part.bytes = stored(&self.postscript, &index.encode_to_vec());
                }
                part.stream.length = Some(part.bytes.len() as u64);
                let is_index = matches!(part.stream.kind, Some(6..=8));
                index_bytes += if is_index { part.bytes.len() as u64 } else { 0 };
                body.extend_from_slice(&part.bytes);
            }
            stripe.info.index_length = Some(index_bytes);
            stripe.info.data_length = Some(body.len() as u64 - index_bytes);
            bodies.push(body);
        }
        let postscript = self.postscript.clone();
        // Twice: the lengths of the stripe footers depend on the claims, and the offsets on the lengths.
        let footers = |parts: &Self| -> Vec<Vec<u8>> {
            let footer = |stripe: &StripeParts| {
                let streams = stripe.streams.iter().map(|part| part.stream.clone()).collect();
                let footer = StripeFooter {
                    streams,
                    ..stripe.footer.clone()
                };
                stored(&postscript, &footer.encode_to_vec())
            };
            parts.stripes.iter().map(footer).collect()
        };
        let place = |parts: &mut Self, footers: &[Vec<u8>]| {
            let mut offset = 3;
            for ((stripe, body), footer) in parts.stripes.iter_mut().zip(&bodies).zip(footers) {
                stripe.info.offset = Some(offset);
                stripe.info.footer_length = Some(footer.len() as u64);
                offset += (body.len() + footer.len()) as u64;
            }
        };
        let before = footers(&self);
        place(&mut self, &before);
        let placed: Vec<StripeInformation> = self.stripes.iter().map(|stripe| stripe.info.clone()).collect();
        claim(&mut self);
        let after = footers(&self);
        // What the claim left alone follows the footers that it changed.
        let mut wanted = self.clone();
        place(&mut wanted, &after);
        for ((stripe, placed), wanted) in self.stripes.iter_mut().zip(&placed).zip(&wanted.stripes) {
            if stripe.info.offset == placed.offset {
                stripe.info.offset = wanted.info.offset;
            }
            if stripe.info.footer_length == placed.footer_length {
                stripe.info.footer_length = wanted.info.footer_length;
            }
        }
        for (body, footer) in bodies.iter().zip(&after) {
            file.extend_from_slice(body);
            file.extend_from_slice(footer);
        }
        self.footer.stripes = self.stripes.iter().map(|stripe| stripe.info.clone()).collect();
        let metadata = stored(&postscript, &self.metadata.encode_to_vec());
        let footer = stored(&postscript, &self.footer.encode_to_vec());
        let mut postscript = self.postscript;
        postscript.metadata_length = Some(metadata.len() as u64);
        postscript.footer_length = Some(footer.len() as u64);
        end(&mut postscript);
        let postscript = postscript.encode_to_vec();
        file.extend([&metadata[..], &footer, &postscript, &[postscript.len() as u8]].concat());
        file
    }
}

/// The section's bytes without compression chunks.
fn expanded(postscript: &PostScript, mut section: &[u8]) -> Vec<u8> {
    let Some(codec) = codec_of(postscript) else {
        return section.to_vec();
    };
    let mut out = Vec::new();
    while let Some((&[a, b, c], rest)) = section.split_first_chunk() {
        let header = u32::from_le_bytes([a, b, c, 0]);
        let (chunk, rest) = rest.split_at(header as usize >> 1);
        match header & 1 {
            1 => out.extend_from_slice(chunk),
            _ => {
                let mut plain = Vec::new();
                decompress_over(codec, block_size(postscript), chunk, &mut plain).expect("a valid chunk");
                out.extend_from_slice(&plain);
            }
        }
        section = rest;
    }
    out
}

/// The message's bytes in the form in which the file stores sections.
fn stored(postscript: &PostScript, message: &[u8]) -> Vec<u8> {
    let Some(codec) = codec_of(postscript) else {
        return message.to_vec();
    };
    let mut out = Vec::new();
    for chunk in message.chunks(block_size(postscript)) {
        append_chunk(Some(codec), chunk, &mut out).expect("a chunk");
    }
    out
}
