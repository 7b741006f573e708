//! Random tables and random layouts, as small descriptions that shrink well. The values follow from a seed.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;
use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Column types of random tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Boolean,
    Byte,
    Short,
    Int,
    Long,
    Float,
    Double,
    Text,
    Binary,
    Date,
    Timestamp,
    Instant,
    Decimal,
    List,
    Struct,
}

/// The distribution of values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// All values of the type, with its limits often.
    Wild,
    /// A few values over and over.
    Few,
    /// Growing with the row, so that statistics can exclude row groups.
    Growing,
    /// Long runs of one value.
    Runs,
}

/// The places of NULLs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Nulls {
    None,
    Some,
    Most,
    /// Whole stretches, so that whole row groups are NULL.
    Stretches,
    All,
}

#[derive(Debug, Clone)]
pub(crate) struct ColumnSpec {
    pub(crate) kind: Kind,
    shape: Shape,
    nulls: Nulls,
    seed: u64,
}

/// A table and its layout.
#[derive(Debug, Clone)]
pub(crate) struct TableSpec {
    rows: usize,
    /// The columns after the first one, `row`, which numbers the rows.
    pub(crate) columns: Vec<ColumnSpec>,
    /// Rows per batch handed to the writer.
    batch_rows: usize,
    codec: Option<Codec>,
    chunk_bytes: usize,
    stride: u32,
    stripe_rows: usize,
    alignment_bytes: u64,
    dictionary_percent: u32,
    bloom: bool,
    direct: bool,
}

pub(crate) fn tables() -> impl Strategy<Value = TableSpec> {
    let layout = (
        prop::sample::select(vec![
            None,
            None,
            Some(Codec::Zlib),
            Some(Codec::Snappy),
            Some(Codec::Lz4),
            Some(Codec::Zstd),
        ]),
        prop::sample::select(vec![64_usize, 100, 1_000, 65_536]),
        prop::sample::select(vec![0_u32, 7, 100, 1_000, 10_000]),
        prop::sample::select(vec![5_000_000_usize, 1_000, 333, 50]),
        prop::sample::select(vec![1_u64, 8, 64, 4_096]),
        prop::sample::select(vec![0_u32, 50, 100]),
        any::<bool>(),
        any::<bool>(),
    );
    let rows = prop_oneof![1 => 0..3_usize, 3 => 3..300_usize, 3 => 300..3_000_usize];
    (rows, prop::collection::vec(columns(), 1..7), 1..2_000_usize, layout).prop_map(
        |(
            rows,
            columns,
            batch_rows,
            (codec, chunk_bytes, stride, stripe_rows, alignment_bytes, dictionary_percent, bloom, direct),
        )| {
            TableSpec {
                rows,
                columns,
                batch_rows,
                codec,
                chunk_bytes,
                stride,
                stripe_rows,
                alignment_bytes,
                dictionary_percent,
                bloom,
                direct,
            }
        },
    )
}

fn columns() -> impl Strategy<Value = ColumnSpec> {
    use Kind::*;
    let kinds = vec![
        Boolean, Byte, Short, Int, Long, Float, Double, Double, Text, Text, Binary, Date, Timestamp, Instant, Decimal,
        List, Struct,
    ];
    let shapes = vec![Shape::Growing, Shape::Few, Shape::Runs, Shape::Wild];
    let nulls = vec![
        Nulls::None,
        Nulls::None,
        Nulls::Some,
        Nulls::Most,
        Nulls::Stretches,
        Nulls::All,
    ];
    (
        prop::sample::select(kinds),
        prop::sample::select(shapes),
        prop::sample::select(nulls),
        0..1_000_u64,
    )
        .prop_map(|(kind, shape, nulls, seed)| ColumnSpec {
            kind,
            shape,
            nulls,
            seed,
        })
}

impl TableSpec {
    /// The rows: `row`, then `c0`, `c1`, …
    pub(crate) fn rows(&self) -> RecordBatch {
        let mut columns: Vec<(String, ArrayRef, bool)> = vec![(
            "row".into(),
            Arc::new(Int64Array::from_iter_values(0..self.rows as i64)),
            true,
        )];
        for (index, column) in self.columns.iter().enumerate() {
            columns.push((format!("c{index}"), column.values(self.rows), true));
        }
        RecordBatch::try_from_iter_with_nullable(columns).expect("columns of equal length")
    }

    /// The rows in batches, as a writer may get them.
    pub(crate) fn batches(&self, rows: &RecordBatch) -> Vec<RecordBatch> {
        let starts = (0..rows.num_rows()).step_by(self.batch_rows);
        starts
            .map(|start| rows.slice(start, self.batch_rows.min(rows.num_rows() - start)))
            .collect()
    }

    pub(crate) fn options(&self) -> WriterProperties {
        let named = |wanted: &dyn Fn(Kind) -> bool| -> Vec<String> {
            let columns = self
                .columns
                .iter()
                .enumerate()
                .filter(|(_, column)| wanted(column.kind));
            columns.map(|(index, _)| format!("c{index}")).collect()
        };
        let bloom = self.bloom && self.stride > 0;
        WriterProperties {
            codec: self.codec,
            chunk_size_bytes: self.chunk_bytes,
            direct_columns: if self.direct {
                named(&|kind| matches!(kind, Kind::Float | Kind::Double))
            } else {
                Vec::new()
            },
            row_index_stride: self.stride,
            stripe_rows: self.stripe_rows,
            alignment_bytes: self.alignment_bytes,
            dictionary_threshold: f64::from(self.dictionary_percent) / 100.0,
            bloom_filter_columns: if bloom { named(&can_bloom) } else { Vec::new() },
            ..WriterProperties::default()
        }
    }
}

fn can_bloom(kind: Kind) -> bool {
    use Kind::*;
    matches!(kind, Byte | Short | Int | Long | Float | Double | Text | Date)
}

impl ColumnSpec {
    /// Whether some of the column's floats are NaN or infinite. Used by the tests of GPU aggregates only.
    #[allow(dead_code)]
    pub(crate) fn is_wild(&self) -> bool {
        matches!(self.shape, Shape::Wild)
    }

    /// Whether a filter can compare the column's values.
    pub(crate) fn is_comparable(&self) -> bool {
        !matches!(self.kind, Kind::List | Kind::Struct)
    }

    fn values(&self, rows: usize) -> ArrayRef {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let numbers: Vec<Option<i64>> = self.numbers(rows, &mut random);
        let floats = |number: i64, row: usize| match self.shape {
            Shape::Wild => [
                f64::NAN,
                -0.0,
                0.0,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::MIN_POSITIVE,
                1.0e300,
                number as f64,
            ][(number as usize ^ row) % 8],
            _ => number as f64 / 4.0,
        };
        let map = |value: &dyn Fn(i64) -> i64| numbers.iter().map(|number| number.map(value)).collect::<Vec<_>>();
        // Timestamps stay in the range of both 64-bit nanoseconds and the writer's seconds. They avoid the last second
        // before 1970: readers of ORC disagree about it, and our writer refuses it.
        let nanoseconds = |number: i64| {
            let value = match self.shape {
                Shape::Wild => number / 4,
                _ => number.wrapping_mul(1_000_000_007) % (i64::MAX / 4),
            };
            if (-1_000_000_000..0).contains(&value) {
                value - 1_000_000_000
            } else {
                value
            }
        };
        match self.kind {
            Kind::Boolean => Arc::new(numbers.iter().map(|n| n.map(|n| n & 1 == 1)).collect::<BooleanArray>()),
            Kind::Byte => Arc::new(numbers.iter().map(|n| n.map(|n| n as i8)).collect::<Int8Array>()),
            Kind::Short => Arc::new(numbers.iter().map(|n| n.map(|n| n as i16)).collect::<Int16Array>()),
            Kind::Int => Arc::new(numbers.iter().map(|n| n.map(|n| n as i32)).collect::<Int32Array>()),
            Kind::Long => Arc::new(Int64Array::from(numbers)),
            Kind::Float => Arc::new(
                numbers
                    .iter()
                    .enumerate()
                    .map(|(row, n)| n.map(|n| floats(n, row) as f32))
                    .collect::<Float32Array>(),
            ),
            Kind::Double => Arc::new(
                numbers
                    .iter()
                    .enumerate()
                    .map(|(row, n)| n.map(|n| floats(n, row)))
                    .collect::<Float64Array>(),
            ),
            Kind::Text => Arc::new(numbers.iter().map(|n| n.map(|n| self.text(n))).collect::<StringArray>()),
            Kind::Binary => Arc::new(
                numbers
                    .iter()
                    .map(|n| n.map(|n| n.to_le_bytes()[..(n & 7) as usize].to_vec()))
                    .collect::<BinaryArray>(),
            ),
            Kind::Date => Arc::new(
                numbers
                    .iter()
                    .map(|n| n.map(|n| (n % 60_000) as i32))
                    .collect::<Date32Array>(),
            ),
            Kind::Timestamp => Arc::new(TimestampNanosecondArray::from(map(&nanoseconds))),
            Kind::Instant => Arc::new(TimestampNanosecondArray::from(map(&nanoseconds)).with_timezone("UTC")),
            Kind::Decimal => Arc::new(
                Decimal128Array::from_iter(numbers.iter().map(|n| n.map(|n| i128::from(n) * 7)))
                    .with_precision_and_scale(38, 3)
                    .expect("values of 38 digits"),
            ),
            Kind::List => Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(numbers.iter().map(
                |n| {
                    n.map(|n| {
                        (0..n.rem_euclid(4))
                            .map(|item| (item != 2).then_some((n ^ item) as i32))
                            .collect::<Vec<_>>()
                    })
                },
            ))),
            Kind::Struct => {
                let text: ArrayRef = Arc::new(numbers.iter().map(|n| n.map(|n| self.text(n))).collect::<StringArray>());
                let long: ArrayRef = Arc::new(Int64Array::from(numbers));
                Arc::new(StructArray::from(vec![
                    (Arc::new(Field::new("long", DataType::Int64, true)), long),
                    (Arc::new(Field::new("text", DataType::Utf8, true)), text),
                ]))
            }
        }
    }

    fn text(&self, number: i64) -> String {
        match self.shape {
            Shape::Growing => format!("{number:06}"),
            Shape::Wild => ["", "a", "ab%", "a_c", "Ünïcödé", "\u{10FFFF}", "abc", "xyz"][(number & 7) as usize]
                .repeat(1 + (number >> 3 & 3) as usize),
            _ => format!("word {}", number % 10),
        }
    }

    fn numbers(&self, rows: usize, random: &mut ChaCha8Rng) -> Vec<Option<i64>> {
        let limits = [
            i64::MIN,
            i64::MAX,
            0,
            -1,
            1,
            127,
            -128,
            32_767,
            i64::from(i32::MIN),
            i64::from(i32::MAX),
        ];
        let mut run = 0;
        (0..rows)
            .map(|row| {
                let number = match self.shape {
                    Shape::Wild if random.random_ratio(1, 3) => limits[random.random_range(0..limits.len())],
                    Shape::Wild => random.random::<i64>() >> random.random_range(0..64),
                    Shape::Few => random.random_range(-3..9),
                    Shape::Growing => row as i64 * 3 - 50 + random.random_range(0..5),
                    Shape::Runs => {
                        if random.random_ratio(1, 60) {
                            run = random.random_range(-1_000..1_000);
                        }
                        run
                    }
                };
                let null = match self.nulls {
                    Nulls::None => false,
                    Nulls::Some => random.random_ratio(1, 10),
                    Nulls::Most => random.random_ratio(9, 10),
                    Nulls::Stretches => (row / 150) % 2 == 1,
                    Nulls::All => true,
                };
                (!null).then_some(number)
            })
            .collect()
    }
}
