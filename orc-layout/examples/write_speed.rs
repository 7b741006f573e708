//! Speed of the writer on one core: six doubles, and a mixed table of twenty columns, uncompressed and compressed.
//!
//! ```text
//! cargo run --release -p grampus-orc-layout --example write_speed
//! ```

use std::io::{self, Write};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, Int16Array, Int32Array,
    RecordBatch, StringArray, TimestampSecondArray,
};
use arrow::datatypes::Int8Type;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

#[path = "../tests/tables/mod.rs"]
mod tables;
use tables::Random;

const BATCH_ROWS: usize = 65_536;
const BATCHES: usize = 64;

/// Counts and drops.
#[derive(Debug, Default)]
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn main() {
    let doubles = doubles(6, &mut Random(1));
    measure("six doubles", &doubles, None);
    for column in 0..mixed().num_columns() {
        let table = mixed().project(&[column]).expect("a column");
        let name = format!("  {}", table.schema().field(0));
        measure(&name, &table, None);
    }
    for codec in [
        None,
        Some(Codec::Snappy),
        Some(Codec::Lz4),
        Some(Codec::Zstd),
        Some(Codec::Zlib),
    ] {
        measure("twenty columns", &mixed(), codec);
    }
}

/// CPU time if the system reports it, so that a busy machine does not count; else wall-clock time.
fn cpu_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let clock = START.elapsed();
    let stated = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stated.and_then(|text| text.split(' ').next()?.parse().ok());
    nanos.map_or(clock, Duration::from_nanos)
}

fn measure(what: &str, batch: &RecordBatch, codec: Option<Codec>) {
    let options = WriterProperties {
        codec,
        ..WriterProperties::default()
    };
    let mut writer =
        ArrowWriter::try_new(Counter::default(), batch.schema(), Some(options)).expect("a schema that can be stored");
    let start = cpu_time();
    for _ in 0..BATCHES {
        writer.write(batch).expect("values that can be stored");
    }
    let written = writer.into_inner().expect("a sink that takes everything").0;
    let seconds = (cpu_time() - start).as_secs_f64();
    let given = (batch.get_array_memory_size() * BATCHES) as f64;
    println!(
        "{what:60.60} {:8} {:7.0} MB/s in memory {:7.0} MB/s in the file {:6.1} M rows/s",
        codec.map_or("none".into(), |codec| format!("{codec:?}")),
        given / 1e6 / seconds,
        written as f64 / 1e6 / seconds,
        (BATCH_ROWS * BATCHES) as f64 / 1e6 / seconds,
    );
}

fn doubles(columns: usize, r: &mut Random) -> RecordBatch {
    let column = |r: &mut Random| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(
            (0..BATCH_ROWS).map(|_| r.below(10_000) as f64 / 100.0),
        ))
    };
    RecordBatch::try_from_iter((0..columns).map(|i| (format!("double{i}"), column(r)))).expect("equal lengths")
}

fn mixed() -> RecordBatch {
    let r = &mut Random(2);
    let rows = 0..BATCH_ROWS as u64;
    let words = ["CRD", "CSH", "DIS", "NOC"];
    let text: StringArray = rows
        .clone()
        .map(|_| Some(format!("POINT({} {})", r.below(1 << 20), r.below(1 << 20))))
        .collect();
    let named: StringArray = rows.clone().map(|_| Some(words[r.below(4) as usize])).collect();
    let keyed: DictionaryArray<Int8Type> = rows.clone().map(|_| words[r.below(4) as usize]).collect();
    let zones: StringArray = rows.clone().map(|_| Some(format!("zone {}", r.below(265)))).collect();
    let mut second = 1_400_000_000;
    let mut pickup = |r: &mut Random| {
        second += r.below(3) as i64;
        second + r.below(3600) as i64
    };
    let pickups: Vec<i64> = rows.clone().map(|_| pickup(r)).collect();
    let drops: Vec<i64> = pickups.iter().map(|at| at + r.below(3000) as i64).collect();
    let nullable: Float64Array = rows.clone().map(|_| (r.below(2) == 0).then_some(2.5)).collect();
    let mut columns: Vec<(String, ArrayRef)> = vec![
        (
            "trip".into(),
            Arc::new(Int32Array::from_iter_values(0..BATCH_ROWS as i32)),
        ),
        ("pickup".into(), Arc::new(TimestampSecondArray::from(pickups))),
        ("dropoff".into(), Arc::new(TimestampSecondArray::from(drops))),
        ("text".into(), Arc::new(text)),
        ("named".into(), Arc::new(named)),
        ("keyed".into(), Arc::new(keyed)),
        ("zones".into(), Arc::new(zones)),
        ("nullable".into(), Arc::new(nullable)),
        (
            "flag".into(),
            Arc::new(BooleanArray::from_iter(rows.clone().map(|_| Some(r.below(9) == 0)))),
        ),
        (
            "date".into(),
            Arc::new(Date32Array::from_iter_values(rows.clone().map(|i| (i / 3000) as i32))),
        ),
        (
            "money".into(),
            Arc::new(Decimal128Array::from_iter_values(
                rows.clone().map(|_| i128::from(r.below(10_000))),
            )),
        ),
        (
            "random".into(),
            Arc::new(Int32Array::from_iter_values(rows.clone().map(|_| r.next() as i32))),
        ),
        (
            "skewed".into(),
            Arc::new(Int16Array::from_iter_values(
                rows.clone().map(|_| if r.below(5) > 0 { 1 } else { r.below(7) as i16 }),
            )),
        ),
        (
            "outliers".into(),
            Arc::new(Int32Array::from_iter_values(
                rows.map(|_| if r.below(99) == 0 { 1 << 30 } else { r.below(50) as i32 }),
            )),
        ),
    ];
    for (field, column) in doubles(6, r).schema().fields().iter().zip(doubles(6, r).columns()) {
        columns.push((field.name().clone(), column.clone()));
    }
    RecordBatch::try_from_iter(columns).expect("equal lengths")
}
