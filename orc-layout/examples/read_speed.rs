//! Time to read a file with this crate and with orc-rust, in turns, from memory on one thread.
//!
//! ```text
//! cargo run --release -p grampus-orc-layout --example read_speed -- FILE.orc [BATCH_ROWS]
//! ```
//!
//! Without a file, a table of every type with 1,000,000 rows is written first, uncompressed and in zstd.

use std::error::Error;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use bytes::Bytes;
use grampus_orc_layout::arrow_reader::{ArrowPredicateFn, OrcReaderBuilder, ProjectionMask, RowFilter};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

#[path = "../tests/tables/mod.rs"]
mod tables;
use tables::{Nulls, every_type};

const PASSES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next();
    let batch_rows = arguments.next().map_or(Ok(8192), |text| text.parse())?;
    match file {
        Some(path) => compare(&path, &Bytes::from(std::fs::read(&path)?), batch_rows),
        None => {
            compare("uncompressed", &written(None)?, batch_rows)?;
            compare("zstd", &written(Some(Codec::Zstd))?, batch_rows)
        }
    }
}

fn written(codec: Option<Codec>) -> Result<Bytes, Box<dyn Error>> {
    let table = every_type(100_000, Nulls::Some, 1);
    let properties = WriterProperties::builder().set_compression(codec).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), table.schema(), Some(properties))?;
    for _ in 0..10 {
        writer.write(&table)?;
    }
    Ok(writer.into_inner()?.into())
}

fn compare(name: &str, file: &Bytes, batch_rows: usize) -> Result<(), Box<dyn Error>> {
    let mut best = [Duration::MAX; 3];
    let mut rows = [0; 3];
    for _ in 0..PASSES {
        for (reader, read) in [ours, orc_rust, one_of_a_thousand].into_iter().enumerate() {
            let start = Instant::now();
            rows[reader] = read(file, batch_rows)?;
            best[reader] = best[reader].min(start.elapsed());
        }
    }
    println!("{name}: {} bytes, {} rows", file.len(), rows[0]);
    for (what, (time, rows)) in ["this crate", "orc-rust", "one row of 1,000"]
        .iter()
        .zip(best.iter().zip(rows))
    {
        println!("  {what}: {time:.1?} for {rows} rows");
    }
    Ok(())
}

fn ours(file: &Bytes, batch_rows: usize) -> Result<usize, Box<dyn Error>> {
    let reader = OrcReaderBuilder::try_new(file.clone())?
        .with_batch_size(batch_rows)
        .build()?;
    count(reader)
}

fn orc_rust(file: &Bytes, batch_rows: usize) -> Result<usize, Box<dyn Error>> {
    count(
        orc_rust::ArrowReaderBuilder::try_new(file.clone())?
            .with_batch_size(batch_rows)
            .build(),
    )
}

/// All columns of the rows that a filter on no column lets pass.
fn one_of_a_thousand(file: &Bytes, batch_rows: usize) -> Result<usize, Box<dyn Error>> {
    let predicate = ArrowPredicateFn::new(ProjectionMask::none(), |batch: RecordBatch| {
        Ok((0..batch.num_rows()).map(|row| Some(row % 1_000 == 0)).collect())
    });
    let builder = OrcReaderBuilder::try_new(file.clone())?.with_batch_size(batch_rows);
    count(
        builder
            .with_row_filter(RowFilter::new(vec![Box::new(predicate)]))
            .build()?,
    )
}

fn count<E: Error + 'static>(batches: impl Iterator<Item = Result<RecordBatch, E>>) -> Result<usize, Box<dyn Error>> {
    let mut rows = 0;
    for batch in batches {
        rows += batch?.num_rows();
    }
    Ok(rows)
}
