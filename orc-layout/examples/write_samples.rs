//! Sample files for other readers (`tests/peers/check_writer.py`), one per combination of shape, codec and options.
//!
//! Next to each ORC file lies `NAME.jsonl` with the expected rows, one JSON array each. Floats are their bits in
//! hexadecimal, times are nanoseconds, decimals are text.
//!
//! ```text
//! cargo run -p grampus-orc-layout --example write_samples -- FOLDER
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::*;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use serde_json::{Value, json};

#[path = "../tests/tables/mod.rs"]
mod tables;
use tables::{Nulls, every_type};

const CODECS: [(&str, Option<Codec>); 5] = [
    ("none", None),
    ("zlib", Some(Codec::Zlib)),
    ("snappy", Some(Codec::Snappy)),
    ("lz4", Some(Codec::Lz4)),
    ("zstd", Some(Codec::Zstd)),
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: write_samples FOLDER")?;
    write_all(Path::new(&folder))
}

/// Writes all samples into `folder`.
pub(crate) fn write_all(folder: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder)?;
    let names: Vec<String> = every_type(0, Nulls::None, 0)
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    std::fs::write(folder.join("columns.json"), json!(names).to_string())?;
    let base = WriterProperties {
        chunk_size_bytes: 4096,
        row_index_stride: 250,
        stripe_rows: 1100,
        bloom_filter_columns: ["tiny", "int", "near", "double", "word", "text", "day", "blob"]
            .map(String::from)
            .into(),
        ..WriterProperties::default()
    };
    for (codec_name, codec) in CODECS {
        for (nulls_name, nulls) in [("full", Nulls::None), ("nulls", Nulls::Some), ("empty", Nulls::All)] {
            let batch = every_type(2345, nulls, 7);
            let options = WriterProperties { codec, ..base.clone() };
            save(folder, &format!("{codec_name}-{nulls_name}"), &batch, options.clone())?;
            let direct = ["double", "float", "wild"].map(String::from).into();
            let options = WriterProperties {
                direct_columns: direct,
                dictionary_threshold: 0.0,
                ..options
            };
            save(folder, &format!("{codec_name}-{nulls_name}-direct"), &batch, options)?;
        }
    }
    let long_group = WriterProperties {
        row_index_stride: 3_000,
        stripe_rows: 5_000_000,
        ..base.clone()
    };
    save(folder, "one-stripe", &every_type(9_000, Nulls::Some, 8), long_group)?;
    let unaligned = WriterProperties {
        alignment_bytes: 1,
        dictionary_threshold: 1.0,
        ..base.clone()
    };
    save(folder, "unaligned", &every_type(5_000, Nulls::None, 9), unaligned)?;
    save(folder, "one-row", &every_type(1, Nulls::Some, 10), base.clone())?;
    save(folder, "no-row", &every_type(0, Nulls::None, 11), base)
}

fn save(folder: &Path, name: &str, batch: &RecordBatch, options: WriterProperties) -> Result<(), Box<dyn Error>> {
    let file = BufWriter::new(File::create(folder.join(format!("{name}.orc")))?);
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(options))?;
    // Batches end between row groups' ends.
    for start in (0..batch.num_rows()).step_by(737) {
        writer.write(&batch.slice(start, 737.min(batch.num_rows() - start)))?;
    }
    writer.close()?;
    let mut rows = BufWriter::new(File::create(folder.join(format!("{name}.jsonl")))?);
    for row in 0..batch.num_rows() {
        let values: Vec<Value> = batch.columns().iter().map(|column| value(column, row)).collect();
        serde_json::to_writer(&mut rows, &values)?;
        writeln!(rows)?;
    }
    Ok(rows.flush()?)
}

fn value(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int8 => json!(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => json!(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::Float32 => json!(format!(
            "{:08x}",
            array.as_primitive::<Float32Type>().value(row).to_bits()
        )),
        DataType::Float64 => json!(format!(
            "{:016x}",
            array.as_primitive::<Float64Type>().value(row).to_bits()
        )),
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::Binary => json!(array.as_binary::<i32>().value(row)),
        DataType::Date32 => json!(array.as_primitive::<Date32Type>().value(row)),
        DataType::Timestamp(..) => json!(array.as_primitive::<TimestampNanosecondType>().value(row)),
        DataType::Decimal128(..) => json!(array.as_primitive::<Decimal128Type>().value_as_string(row)),
        DataType::Struct(_) => array
            .as_struct()
            .columns()
            .iter()
            .map(|field| value(field, row))
            .collect(),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|item| value(&items, item)).collect()
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            (0..entries.len())
                .map(|entry| json!([value(entries.column(0), entry), value(entries.column(1), entry)]))
                .collect()
        }
        other => json!(other.to_string()),
    }
}
