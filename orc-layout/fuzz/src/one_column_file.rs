//! A whole file around the streams of one column, for a second reader: ORC v1, uncompressed, one stripe, no index.

use grampus_orc_layout::proto;
use grampus_orc_layout::proto::column_encoding::Kind as Encoding;
use grampus_orc_layout::proto::stream::Kind as StreamKind;
use grampus_orc_layout::proto::r#type::Kind as TypeKind;
use prost::Message;

/// The file's bytes. `streams` has the kind and length of each stream in `bytes`, one after the other.
pub fn one_column_file(
    kind: TypeKind,
    encoding: Encoding,
    rows: u64,
    streams: &[(StreamKind, u64)],
    bytes: &[u8],
) -> Vec<u8> {
    let mut file = b"ORC".to_vec();
    file.extend_from_slice(bytes);
    let stream = |&(kind, length): &(StreamKind, u64)| proto::Stream {
        kind: Some(kind.into()),
        column: Some(1),
        length: Some(length),
    };
    let column = |kind: Encoding| proto::ColumnEncoding {
        kind: Some(kind.into()),
        ..Default::default()
    };
    let stripe_footer = proto::StripeFooter {
        streams: streams.iter().map(stream).collect(),
        columns: vec![column(Encoding::Direct), column(encoding)],
        writer_timezone: Some("UTC".into()),
        ..Default::default()
    }
    .encode_to_vec();
    let root = proto::Type {
        kind: Some(TypeKind::Struct.into()),
        subtypes: vec![1],
        field_names: vec!["c".into()],
        ..Default::default()
    };
    let child = proto::Type {
        kind: Some(kind.into()),
        ..Default::default()
    };
    let footer = proto::Footer {
        header_length: Some(3),
        content_length: Some((3 + bytes.len() + stripe_footer.len()) as u64),
        stripes: vec![proto::StripeInformation {
            offset: Some(3),
            index_length: Some(0),
            data_length: Some(bytes.len() as u64),
            footer_length: Some(stripe_footer.len() as u64),
            number_of_rows: Some(rows),
            ..Default::default()
        }],
        types: vec![root, child],
        number_of_rows: Some(rows),
        row_index_stride: Some(0),
        ..Default::default()
    }
    .encode_to_vec();
    let postscript = proto::PostScript {
        footer_length: Some(footer.len() as u64),
        compression: Some(proto::CompressionKind::None.into()),
        version: vec![0, 12],
        metadata_length: Some(0),
        magic: Some("ORC".into()),
        ..Default::default()
    }
    .encode_to_vec();
    file.extend_from_slice(&stripe_footer);
    file.extend_from_slice(&footer);
    file.extend_from_slice(&postscript);
    file.push(postscript.len() as u8);
    file
}
