//! Fuzzing of the writer: bytes as a table and as writer options. Our reader and orc-rust return the written values.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray, TimestampNanosecondArray,
    UInt64Array, new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field};
use bytes::Bytes;
use grampus_orc_layout::access::Access;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::metadata_reader::{read_index, read_stripe, read_tail};
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use grampus_orc_layout::{LayoutError, Result};

use crate::peer;

/// Columns of a table and rows at most.
const MAX_COLUMNS: u64 = 6;
const MAX_ROWS: u64 = 700;
/// The last second before 1970 is left out: ORC C++, Java and orc-rust read its fractions a second late.
const UNREADABLE_SECOND: i64 = -1;

struct Memory(Bytes);

impl ByteSource for Memory {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.start > range.end || range.end > self.0.len() as u64 {
            let reason = "beyond the end of the file";
            return Err(LayoutError::io_without_source(&"written.orc".into(), range, reason));
        }
        Ok(self.0.slice(range.start as usize..range.end as usize))
    }
}

/// Numbers from the input. Behind its end come numbers of a generator that the whole input seeds.
struct Input<'a> {
    bytes: &'a [u8],
    state: u64,
}

impl Input<'_> {
    fn byte(&mut self) -> u64 {
        if let Some((first, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            return u64::from(*first);
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 56
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.byte() << 8 | self.byte()) % bound
    }

    fn word(&mut self) -> u64 {
        (0..8).fold(0, |word, _| word << 8 | self.byte())
    }
}

/// Shape of a column's integers: the encodings of runs depend on it.
#[derive(Clone, Copy)]
enum Shape {
    Constant,
    Steps,
    Narrow,
    Outliers,
    Any,
}

struct Numbers {
    shape: Shape,
    base: i64,
    step: i64,
    bits: u32,
}

impl Numbers {
    fn new(input: &mut Input) -> Self {
        let shape = [
            Shape::Constant,
            Shape::Steps,
            Shape::Narrow,
            Shape::Outliers,
            Shape::Any,
        ];
        let bits = input.below(64) as u32;
        Self {
            shape: shape[input.below(5) as usize],
            base: input.word() as i64 >> bits,
            step: (input.byte() as i64 - 128) << (bits / 4),
            bits,
        }
    }

    fn next(&mut self, input: &mut Input) -> i64 {
        // A run of any shape breaks now and then.
        if input.byte() == 0 {
            self.base = input.word() as i64 >> self.bits;
        }
        match self.shape {
            Shape::Constant => self.base,
            Shape::Steps => {
                self.base = self.base.wrapping_add(self.step);
                self.base
            }
            Shape::Narrow => self.base.wrapping_add(input.byte() as i64),
            Shape::Outliers if input.byte() < 9 => input.word() as i64 >> (self.bits / 2),
            Shape::Outliers => self.base.wrapping_add(input.byte() as i64 & 15),
            Shape::Any => input.word() as i64 >> self.bits,
        }
    }
}

/// Writes the table that `data` describes, and reads it back.
///
/// # Panics
/// If the writer or a reader refuses the table, or a value comes back as another.
pub fn write(data: &[u8]) {
    let seed = data.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
    });
    let mut input = Input {
        bytes: data,
        state: seed | 1,
    };
    let rows = input.below(MAX_ROWS) as usize;
    let options = options(&mut input, rows);
    let columns = 1 + input.below(MAX_COLUMNS);
    let columns: Vec<(String, ArrayRef)> = (0..columns)
        .map(|index| (format!("c{index}"), column(&mut input, rows)))
        .collect();
    let table = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("columns of equal length");
    let options = WriterProperties {
        direct_columns: names(&table, |kind| matches!(kind, DataType::Float32 | DataType::Float64)),
        bloom_filter_columns: if options.row_index_stride > 0 && input.byte() < 64 {
            names(&table, |kind| matches!(kind, DataType::Int64 | DataType::Utf8))
        } else {
            Vec::new()
        },
        ..options
    };
    let mut writer = ArrowWriter::try_new(Vec::new(), table.schema(), Some(options)).expect("types of ORC");
    let mut row = 0;
    while row < rows {
        let step = (1 + input.below(400) as usize).min(rows - row);
        writer
            .write(&table.slice(row, step))
            .expect("values that ORC can store");
        row += step;
    }
    let file = Bytes::from(writer.into_inner().expect("memory does not run full"));
    let theirs = peer::read(file.clone(), &table.schema()).expect("a file that orc-rust can read");
    compare(&table, &theirs, "orc-rust");
    compare(&table, &read_back(&file, &table, &mut input), "grampus");
}

fn names(table: &RecordBatch, wanted: impl Fn(&DataType) -> bool) -> Vec<String> {
    let schema = table.schema();
    let fields = schema.fields().iter().filter(|field| wanted(field.data_type()));
    fields.map(|field| field.name().clone()).collect()
}

fn options(input: &mut Input, rows: usize) -> WriterProperties {
    let codecs = [
        None,
        Some(Codec::Zlib),
        Some(Codec::Snappy),
        Some(Codec::Lz4),
        Some(Codec::Zstd),
    ];
    WriterProperties {
        codec: codecs[input.below(5) as usize],
        chunk_size_bytes: 64 + input.below(3_000) as usize,
        row_index_stride: [0, 1 + input.below(90) as u32, 10_000][input.below(3) as usize],
        stripe_rows: (rows / 4).max(1) + input.below(500) as usize,
        alignment_bytes: [1, 8, 512][input.below(3) as usize],
        dictionary_threshold: [0.0, 0.5, 1.0][input.below(3) as usize],
        ..WriterProperties::default()
    }
}

fn column(input: &mut Input, rows: usize) -> ArrayRef {
    let nulls = [0, 40, 250][input.below(3) as usize];
    let mut valid = true;
    let valid: Vec<bool> = (0..rows)
        .map(|_| {
            if input.byte() < 64 {
                valid = input.byte() >= nulls;
            }
            valid || nulls == 0
        })
        .collect();
    let mut numbers = Numbers::new(input);
    let kind = input.below(15);
    let mut values = valid
        .iter()
        .map(|&valid| {
            let value = numbers.next(input);
            valid.then_some(value)
        })
        .collect::<Vec<_>>()
        .into_iter();
    let mut text = |value: i64| {
        let length = value.unsigned_abs() % 7;
        String::from_utf8_lossy(&value.to_le_bytes()[..length as usize]).into_owned()
    };
    match kind {
        0 => Arc::new(values.map(|v| v.map(|v| v & 4 > 0)).collect::<BooleanArray>()),
        1 => Arc::new(values.map(|v| v.map(|v| v as i8)).collect::<Int8Array>()),
        2 => Arc::new(values.map(|v| v.map(|v| v as i16)).collect::<Int16Array>()),
        3 => Arc::new(values.map(|v| v.map(|v| v as i32)).collect::<Int32Array>()),
        4 | 5 => Arc::new(values.collect::<Int64Array>()),
        6 => Arc::new(
            values
                .map(|v| v.map(|v| f32::from_bits(v as u32)))
                .collect::<Float32Array>(),
        ),
        7 => Arc::new(
            values
                .map(|v| v.map(|v| f64::from_bits(v as u64)))
                .collect::<Float64Array>(),
        ),
        8 | 9 => Arc::new(values.map(|v| v.map(&mut text)).collect::<StringArray>()),
        10 => Arc::new(
            values
                .map(|v| v.map(|v| v.to_le_bytes()[..(v & 7) as usize].to_vec()))
                .collect::<BinaryArray>(),
        ),
        11 => Arc::new(
            values
                .map(|v| v.map(|v| (v % 3_000_000) as i32))
                .collect::<Date32Array>(),
        ),
        12 => Arc::new(
            values
                .map(|v| {
                    v.map(|v| {
                        if v.div_euclid(1_000_000_000) == UNREADABLE_SECOND {
                            0
                        } else {
                            v
                        }
                    })
                })
                .collect::<TimestampNanosecondArray>(),
        ),
        13 => Arc::new(
            values
                .map(|v| v.map(|v| i128::from(v) * i128::from(v | 1) % 10_i128.pow(38)))
                .collect::<Decimal128Array>()
                .with_precision_and_scale(38, (rows % 39) as i8)
                .expect("a scale within the precision"),
        ),
        _ => {
            let lengths: Vec<usize> = values.by_ref().map(|v| v.map_or(0, |v| (v & 3) as usize)).collect();
            let items: usize = lengths.iter().sum();
            let field = Arc::new(Field::new("item", DataType::Int64, true));
            let items: Int64Array = (0..items as i64).map(|v| (v % 5 != 3).then_some(v * v)).collect();
            let list: ArrayRef = Arc::new(ListArray::new(
                field,
                OffsetBuffer::from_lengths(lengths),
                Arc::new(items),
                Some(valid.into()),
            ));
            let field = Arc::new(Field::new("list", list.data_type().clone(), true));
            Arc::new(StructArray::new(vec![field].into(), vec![list], None))
        }
    }
}

/// The table by our reader: whole columns, checked against a read of some rows.
fn read_back(file: &Bytes, table: &RecordBatch, input: &mut Input) -> RecordBatch {
    let source = Arc::new(Memory(file.clone()));
    let tail = Arc::new(read_tail(&"written.orc".into(), file.len() as u64, &*source).expect("a tail"));
    let mut parts: Vec<Vec<ArrayRef>> = vec![Vec::new(); table.num_columns()];
    for info in &tail.stripes {
        let stripe = Arc::new(read_stripe(&tail, &*source, info.index).expect("a stripe"));
        for (part, &column) in parts.iter_mut().zip(tail.schema.fields()) {
            let index = Arc::new(read_index(&tail, &stripe, &*source, column).expect("an index"));
            let read = |rows: &RowSelection| {
                let (tail, stripe, source, index) = (tail.clone(), stripe.clone(), source.clone(), index.clone());
                let access = Access::of(&tail, &stripe, column, Some(&index), &*source, true).expect("an access");
                let reader = ColumnReader::new(tail, stripe, column, Some(index), access, source);
                reader.and_then(|mut reader| reader.read(rows)).expect("readable rows")
            };
            let whole = read(&RowSelection::range(0..info.rows));
            let mut some = RowSelection::new();
            let mut row = input.below(40);
            while row < info.rows {
                let end = (row + 1 + input.below(12)).min(info.rows);
                some.push(row..end);
                row = end + 1 + input.below(60);
            }
            let places = UInt64Array::from_iter_values(some.iter());
            let expected = take(&whole, &places, None).expect("places below the number of rows");
            assert_eq!(&read(&some), &expected, "column {column}, rows {:?}", some.ranges());
            part.push(whole);
        }
    }
    let columns = parts.iter().zip(table.columns()).map(|(part, written)| {
        let part: Vec<&dyn Array> = part.iter().map(|array| &**array).collect();
        match part.len() {
            0 => new_empty_array(written.data_type()),
            _ => concat(&part).expect("parts of one type"),
        }
    });
    RecordBatch::try_new(table.schema(), columns.collect()).expect("the columns' types")
}

fn compare(written: &RecordBatch, read: &RecordBatch, reader: &str) {
    assert_eq!(written.num_rows(), read.num_rows(), "rows by {reader}");
    for (index, field) in written.schema().fields().iter().enumerate() {
        let (written, read) = (written.column(index), read.column(index));
        if written.to_data() == read.to_data() {
            continue;
        }
        // NaN differs from NaN in the comparison above.
        for row in 0..written.len() {
            let (a, b) = (written.slice(row, 1), read.slice(row, 1));
            assert_eq!(format!("{a:?}"), format!("{b:?}"), "{field} row {row} by {reader}");
        }
    }
}

/// Descriptions of small tables; a generator supplies their values.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    (0..60_u8)
        .map(|n| (format!("table-{n}"), vec![0, n, n, 7, n * 3, 1, n]))
        .collect()
}
