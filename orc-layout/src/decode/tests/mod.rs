//! Decoders on hand-made streams: the specification's examples, naive encoders, chunks cut anywhere, hostile bytes.

mod columns;
mod streams;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::datatypes::{DataType, Field, Schema};
use bytes::Bytes;

use super::ColumnReader;
use super::cursor::{StreamCursor, StreamSource};
use crate::access::Access;
use crate::chunk::append_chunk;
use crate::codec::{Codec, Compression};
use crate::error::Result;
use crate::index::ColumnIndex;
use crate::proto::column_encoding::Kind as EncodingKind;
use crate::proto::stream::Kind;
use crate::read_options::ReadOptions;
use crate::schema::{OrcSchema, OrcType, TypeKind};
use crate::source::ByteSource;
use crate::streams::Stream;
use crate::stripe::{Encoding, StripeLayout};
use crate::tail::{FileTail, StripeInfo};
use crate::writer_zone::{EarlyOffsets, WriterZone};

/// Bytes in memory that record every read.
pub(super) struct Memory {
    bytes: Bytes,
    pub(super) moved: AtomicU64,
    pub(super) asked: Mutex<Vec<Range<u64>>>,
}

impl ByteSource for Memory {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.moved.fetch_add(range.end - range.start, Ordering::Relaxed);
        self.asked.lock().unwrap().push(range.clone());
        Ok(self.bytes.slice(range.start as usize..range.end as usize))
    }
}

/// By column and stream kind, the place of each uncompressed byte: (chunk offset, byte in the chunk).
pub(super) type Places = BTreeMap<(u32, i32), Vec<(u64, u64)>>;

/// One stripe under construction: a tree of columns and their streams.
pub(super) struct Builder {
    types: Vec<OrcType>,
    fields: Vec<Field>,
    encodings: Vec<Encoding>,
    streams: Vec<(u32, Kind, Vec<u8>)>,
    pub(super) codec: Option<Codec>,
    /// Uncompressed bytes per chunk, used in rotation.
    pub(super) chunks: Vec<usize>,
    pub(super) stride: Option<u32>,
    pub(super) rows: u64,
    pub(super) zone: WriterZone,
    pub(super) options: ReadOptions,
    pub(super) is_hybrid_calendar: bool,
}

impl Builder {
    pub(super) fn new(rows: u64) -> Self {
        let root = OrcType {
            id: 0,
            name: String::new(),
            kind: TypeKind::Struct,
            children: vec![],
            attributes: vec![],
        };
        Self {
            types: vec![root],
            fields: vec![],
            encodings: vec![Encoding {
                kind: EncodingKind::Direct,
                dictionary_size: 0,
            }],
            streams: vec![],
            codec: None,
            chunks: vec![1 << 16],
            stride: None,
            rows,
            zone: WriterZone::Utc,
            options: ReadOptions::default(),
            is_hybrid_calendar: false,
        }
    }

    /// A file of one primitive column, id 1.
    pub(super) fn column(kind: TypeKind, encoding: EncodingKind, rows: u64) -> Self {
        let arrow = kind.primitive_arrow_type().unwrap();
        let mut builder = Self::new(rows);
        let id = builder.add(0, "c", kind, encoding);
        builder.field(id, arrow);
        builder
    }

    pub(super) fn add(&mut self, parent: u32, name: &str, kind: TypeKind, encoding: EncodingKind) -> u32 {
        let id = self.types.len() as u32;
        self.types[parent as usize].children.push(id);
        self.types.push(OrcType {
            id,
            name: name.into(),
            kind,
            children: vec![],
            attributes: vec![],
        });
        self.encodings.push(Encoding {
            kind: encoding,
            dictionary_size: 0,
        });
        id
    }

    pub(super) fn field(&mut self, id: u32, arrow: DataType) {
        self.fields
            .push(Field::new(self.types[id as usize].name.clone(), arrow, true));
    }

    pub(super) fn dictionary_size(&mut self, id: u32, size: u32) {
        self.encodings[id as usize].dictionary_size = size;
    }

    pub(super) fn stream(&mut self, column: u32, kind: Kind, bytes: impl Into<Vec<u8>>) -> &mut Self {
        self.streams.push((column, kind, bytes.into()));
        self
    }

    /// The file, and the places of its bytes.
    pub(super) fn build(&self) -> (StreamSource, Arc<Memory>, Places) {
        let mut file = b"ORC".to_vec();
        let (mut streams, mut places) = (vec![], BTreeMap::new());
        for (column, kind, bytes) in &self.streams {
            let offset = file.len();
            let mut place = vec![];
            if let Some(codec) = self.codec {
                let (mut left, mut sizes) = (&bytes[..], self.chunks.iter().cycle());
                while !left.is_empty() {
                    let (chunk, rest) = left.split_at((*sizes.next().unwrap()).clamp(1, left.len()));
                    place.extend((0..chunk.len() as u64).map(|byte| ((file.len() - offset) as u64, byte)));
                    append_chunk(Some(codec), chunk, &mut file).unwrap();
                    left = rest;
                }
                place.push(((file.len() - offset) as u64, 0));
            } else {
                file.extend_from_slice(bytes);
                place.extend((0..=bytes.len() as u64).map(|byte| (byte, 0)));
            }
            places.insert((*column, *kind as i32), place);
            streams.push(Stream {
                column: *column,
                kind: *kind,
                offset: offset as u64,
                length: (file.len() - offset) as u64,
            });
        }
        let info = StripeInfo {
            index: 0,
            offset: 3,
            index_length: 0,
            data_length: file.len() as u64 - 3,
            footer_length: 0,
            rows: self.rows,
            first_row: 0,
        };
        let tail = FileTail {
            file: "test.orc".into(),
            file_length: file.len() as u64,
            compression: self.codec.map(|codec| Compression {
                codec,
                block_size_bytes: 1 << 18,
            }),
            schema: Arc::new(OrcSchema::of_types(
                self.types.clone(),
                Arc::new(Schema::new(self.fields.clone())),
                vec![],
            )),
            rows: self.rows,
            row_index_stride: self.stride,
            stripes: vec![info.clone()],
            file_statistics: vec![],
            stripe_statistics: vec![],
            user_metadata: vec![],
            format_version: "0.12".into(),
            writer: "test".into(),
            writer_code: 0,
            software_version: None,
            encrypted_columns: vec![],
            writer_version: 6,
            tail_length: 0,
            is_hybrid_calendar: self.is_hybrid_calendar,
        };
        let early_offsets = EarlyOffsets::of(&tail);
        let stripe = StripeLayout {
            info,
            streams: streams.into(),
            encodings: self.encodings.clone(),
            writer_timezone: self.zone.clone(),
            early_offsets,
            unknown_encodings: vec![],
        };
        let memory = Arc::new(Memory {
            bytes: file.into(),
            moved: AtomicU64::new(0),
            asked: Mutex::default(),
        });
        let source = StreamSource {
            tail: Arc::new(tail),
            stripe: Arc::new(stripe),
            source: memory.clone(),
            budget: Arc::default(),
            options: self.options,
            dictionaries: None,
        };
        (source, memory, places)
    }

    /// A reader of column 1, with entry points if `positions` are given.
    pub(super) fn reader(&self, positions: Option<Vec<Vec<u64>>>) -> Result<(ColumnReader, Arc<Memory>)> {
        let (source, memory, _) = self.build();
        let StreamSource {
            tail,
            stripe,
            source,
            options,
            ..
        } = source;
        let seekable = positions.is_some();
        let index = positions.map(|positions| {
            Arc::new(ColumnIndex {
                statistics: vec![],
                positions,
                bloom_filters: vec![],
            })
        });
        let reader = ColumnReader::with_options(tail, stripe, 1, index, Access::Decode { seekable }, source, options)?;
        Ok((reader, memory))
    }
}

/// A cursor over one stream, in chunks of the given sizes if a codec is given.
pub(super) fn cursor(bytes: &[u8], codec: Option<Codec>, chunks: &[usize]) -> StreamCursor {
    let mut builder = Builder::column(TypeKind::Long, EncodingKind::DirectV2, 0);
    builder.codec = codec;
    builder.chunks = chunks.to_vec();
    builder.stream(1, Kind::Data, bytes);
    builder.build().0.open(1, Kind::Data)
}

/// A cursor over one uncompressed stream.
pub(super) fn plain(bytes: &[u8]) -> StreamCursor {
    cursor(bytes, None, &[1])
}
