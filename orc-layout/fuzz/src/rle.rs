//! Fuzzing of the run-length decoders: any bytes as the streams of one column (integers of both versions, bytes, bits).
//! There is no file around the streams that a mutation would have to keep intact. Reading some rows must return the
//! same values as a full read. orc-rust gets the streams in a file of their own: where both readers accept them, they
//! return the same values.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use arrow::array::{
    Array, ArrayRef, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt64Array, new_empty_array,
};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema};
use bytes::Bytes;
use grampus_orc_layout::access::Access;
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::metadata_reader::{read_stripe, read_tail};
use grampus_orc_layout::proto::column_encoding::Kind as Encoding;
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::proto::r#type::Kind as TypeKind;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::streams::{Stream, StripeStreams};
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::FileTail;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use grampus_orc_layout::{LayoutError, Result};

use crate::one_column_file::one_column_file;
use crate::peer;

/// Bytes before the streams: column, flags, rows (two), bytes of PRESENT, bytes of the second stream, rows to skip,
/// rows to read. The streams' bytes are 64ths of the rest; skips and reads alternate.
pub const HEAD_BYTES: usize = 8;
/// Flag: integers are in version 1.
pub const VERSION_1: u8 = 1;
/// Flag: the column has a PRESENT stream.
pub const PRESENT: u8 = 2;
/// Rows per input at most.
pub const MAX_ROWS: u64 = 4096;
/// LONG, INT, SHORT, BYTE, BOOLEAN, and STRING for its lengths.
pub const COLUMNS: usize = TYPES.len();
const TYPES: [TypeKind; 6] = [
    TypeKind::Long,
    TypeKind::Int,
    TypeKind::Short,
    TypeKind::Byte,
    TypeKind::Boolean,
    TypeKind::String,
];

struct Memory(Bytes);

impl ByteSource for Memory {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.start > range.end || range.end > self.0.len() as u64 {
            let reason = "beyond the end of the streams";
            return Err(LayoutError::io_without_source(&"fuzz.orc".into(), range, reason));
        }
        Ok(self.0.slice(range.start as usize..range.end as usize))
    }
}

/// A valid file with one row of every column. The caller replaces the streams.
fn template() -> &'static (FileTail, StripeLayout) {
    static TEMPLATE: OnceLock<(FileTail, StripeLayout)> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let columns: [(&str, ArrayRef); COLUMNS] = [
            ("long", Arc::new(Int64Array::from(vec![1]))),
            ("int", Arc::new(Int32Array::from(vec![1]))),
            ("short", Arc::new(Int16Array::from(vec![1]))),
            ("byte", Arc::new(Int8Array::from(vec![1]))),
            ("boolean", Arc::new(BooleanArray::from(vec![true]))),
            ("text", Arc::new(StringArray::from(vec!["x"]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one row");
        let mut writer =
            ArrowWriter::try_new(Vec::new(), batch.schema(), Some(WriterProperties::default())).expect("types of ORC");
        writer.write(&batch).expect("a batch of the writer's schema");
        let file = writer.into_inner().expect("memory does not run full");
        let source = Memory(file.into());
        let tail = read_tail(&"fuzz.orc".into(), source.0.len() as u64, &source).expect("a valid file");
        let stripe = read_stripe(&tail, &source, 0).expect("a valid stripe");
        (tail, stripe)
    })
}

/// Reads `data` (a head, then the streams' bytes) as one column, and returns whether all its rows can be read.
///
/// # Panics
/// If orc-layout panics, some rows differ from the same rows of a full read, or orc-rust returns other values.
pub fn rle(data: &[u8]) -> bool {
    let Some((head, streams)) = data.split_at_checked(HEAD_BYTES) else {
        return false;
    };
    let (tail, stripe) = template();
    let field = usize::from(head[0]) % COLUMNS;
    let column = tail.schema.fields()[field];
    let rows = (u64::from(head[2]) | u64::from(head[3]) << 8) % MAX_ROWS;
    let share = |of: usize, part: u8| of * usize::from(part % 65) / 64;
    let present = if head[1] & PRESENT > 0 {
        share(streams.len(), head[4])
    } else {
        0
    };
    let second = if field == COLUMNS - 1 {
        share(streams.len() - present, head[5])
    } else {
        0
    };
    let (mut tail, mut stripe) = (tail.clone(), stripe.clone());
    let mut from = 0;
    stripe.streams = StripeStreams::default();
    for (kind, end) in [
        (Kind::Present, present),
        (Kind::Length, present + second),
        (Kind::Data, streams.len()),
    ] {
        if end > from || kind == Kind::Data {
            let (offset, length) = (from as u64, (end - from) as u64);
            stripe.streams.push(Stream {
                column,
                kind,
                offset,
                length,
            });
        }
        from = end;
    }
    stripe.info.rows = rows;
    tail.rows = rows;
    let version_1 = head[1] & VERSION_1 > 0;
    stripe.encodings[column as usize].kind = if version_1 {
        Encoding::Direct
    } else {
        Encoding::DirectV2
    };
    let encoding = stripe.encodings[column as usize].kind;
    let (tail, stripe) = (Arc::new(tail), Arc::new(stripe));
    let source = Arc::new(Memory(Bytes::copy_from_slice(streams)));
    let read = |selection: &RowSelection| -> Result<ArrayRef> {
        let access = Access::Decode { seekable: false };
        let (tail, stripe, source) = (tail.clone(), stripe.clone(), source.clone());
        ColumnReader::new(tail, stripe, column, None, access, source)?.read(selection)
    };
    let some = steps(rows, head[6], head[7]);
    let Ok(whole) = read(&RowSelection::range(0..rows)) else {
        let _ = read(&some);
        return false;
    };
    let places = UInt64Array::from_iter_values(some.iter());
    let expected = match places.len() {
        0 => new_empty_array(whole.data_type()),
        _ => take(&whole, &places, None).expect("places below the number of rows"),
    };
    let got = read(&some).expect("rows of a column that can be read");
    assert_eq!(&got, &expected, "{:?}", some.ranges());
    // Not before: orc-rust believes the lengths that corrupt streams claim.
    let lengths: Vec<(Kind, u64)> = stripe
        .streams
        .iter()
        .map(|stream| (stream.kind, stream.length))
        .collect();
    let file = one_column_file(TYPES[field], encoding, rows, &lengths, streams);
    let schema = Arc::new(Schema::new(vec![Field::new("c", whole.data_type().clone(), true)]));
    if let Some(theirs) = peer::read(file.into(), &schema).filter(|batch| batch.num_rows() as u64 == rows) {
        let theirs = theirs.column(0);
        // orc-rust takes a PRESENT stream that it cannot read to its end for none.
        let present_ignored = whole.null_count() > 0 && theirs.null_count() == 0;
        let known = present_ignored || may_have_zero_delta(streams) || may_have_patches(streams);
        assert!(
            known || theirs == &whole,
            "orc-rust reads {theirs:?}, grampus {whole:?}"
        );
    }
    true
}

/// Whether some bytes may be a delta run of version 2 whose first delta is zero. orc-rust subtracts the other deltas
/// then; Java and C++ add them.
fn may_have_zero_delta(streams: &[u8]) -> bool {
    let is_run = |at: &usize| streams[*at] >> 6 == 3 && streams[*at] >> 1 & 31 > 0;
    (0..streams.len()).filter(is_run).any(|at| {
        let base = streams.iter().skip(at + 2);
        base.skip_while(|&&byte| byte & 0x80 > 0).nth(1) == Some(&0)
    })
}

/// Whether some bytes may be a patched run of version 2 with several patches. Two patches of one value mean nothing in
/// the specification: grampus combines both, orc-rust takes the first.
fn may_have_patches(streams: &[u8]) -> bool {
    streams.windows(4).any(|run| run[0] >> 6 == 2 && run[3] & 31 > 1)
}

/// Skips and reads alternately.
fn steps(rows: u64, skip: u8, read: u8) -> RowSelection {
    let mut selection = RowSelection::new();
    let mut at = u64::from(skip % 32);
    while at < rows {
        let end = (at + 1 + u64::from(read)).min(rows);
        selection.push(at..end);
        at = end + 1 + u64::from(skip);
    }
    selection
}

/// The specification's examples of every kind of run, for each column that has them.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let runs: [(&str, &[u8], u8, u8, u16); 10] = [
        ("v2-short-repeat", &[0x0a, 0x27, 0x10], 0, 0, 5),
        (
            "v2-direct",
            &[0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef],
            0,
            0,
            4,
        ),
        (
            "v2-patched-base",
            &[
                0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46, 0x50, 0x5a, 0x64,
                0x6e, 0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
            ],
            0,
            0,
            20,
        ),
        ("v2-delta", &[0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46], 0, 0, 10),
        ("v1-run", &[0x61, 0x00, 0x07], 0, VERSION_1, 100),
        ("v1-literals", &[0xfb, 0x02, 0x03, 0x06, 0x07, 0x0b], 0, VERSION_1, 5),
        ("byte-run", &[0x61, 0x00], 3, 0, 100),
        ("byte-literals", &[0xfe, 0x44, 0x45], 3, 0, 2),
        ("bits", &[0xff, 0x80, 0x0a, 0x55], 4, 0, 100),
        // PRESENT takes half of the bytes: sixteen rows, of which the first nine have values.
        ("nulls", &[0xfe, 0xff, 0x80, 0x0e, 0x27, 0x10], 1, PRESENT, 16),
    ];
    let seed = |&(name, bytes, column, flags, rows): &(&str, &[u8], u8, u8, u16)| {
        let [low, high] = rows.to_le_bytes();
        let mut seed = vec![column, flags, low, high, 32, 32, 2, 1];
        seed.extend_from_slice(bytes);
        (name.to_owned(), seed)
    };
    let mut seeds: Vec<_> = runs.iter().map(seed).collect();
    // Eight lengths of one, then the bytes.
    let mut text = vec![5, 0, 8, 0, 0, 13, 1, 0, 0x05, 0x01];
    text.extend_from_slice(b"abcdefgh");
    seeds.push(("lengths".into(), text));
    seeds
}
