//! The checks of one file of the corpus, in a process of its own.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions};
use arrow::compute::{SortOptions, cast, sort_to_indices};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::prelude::{Expr, SessionContext, lit};
use grampus::LocalIo;
use grampus_orc_layout::read_options::TimestampUnit;
use grampus_test_support::map_names::with_arrows_map_names;
use orc_rust::schema::TimestampPrecision;
use serde_json::Value;

use crate::hashes::{column_hash, write_value};
use crate::support::{Setting, difference, full_read_in, one_batch, register_rows};

/// Maximum rows for all checks. Larger files are filtered by two columns only. If the order of their rows is open, the
/// rows are not compared one by one.
const MANY_ROWS: usize = 100_000;

const ORDERED: Setting = Setting {
    partitions: 1,
    local_io: LocalIo::Mmap,
    batch_rows: 8192,
    tile_rows: 65_536,
    min_partition_rows: 16_384,
    prune: true,
    gpu: None,
};
const PARALLEL: Setting = Setting {
    partitions: 4,
    local_io: LocalIo::Read,
    batch_rows: 1000,
    tile_rows: 4096,
    min_partition_rows: 16_384,
    prune: true,
    gpu: None,
};

/// All rows, in file order.
pub(crate) async fn read_all(path: &Path) -> Result<RecordBatch> {
    let context = open(path, ORDERED).await?;
    let frame = context.table("t").await?;
    let schema = std::sync::Arc::new(frame.schema().as_arrow().clone());
    Ok(one_batch(&schema, &frame.collect().await?))
}

async fn open(path: &Path, setting: Setting) -> Result<SessionContext> {
    let context = setting.context();
    grampus::session::register_orc(&context, "t", &path.display().to_string()).await?;
    Ok(context)
}

/// An error in the rows that were read. `hashes` is this file's part of `column_hashes.json`.
pub(crate) async fn complaints(path: &Path, rows: &RecordBatch, hashes: Option<&Value>) -> Vec<String> {
    let mut complaints = Vec::new();
    if let Some(hashes) = hashes.and_then(Value::as_object) {
        for (key, wanted) in hashes.iter().filter(|(key, _)| !pyarrow_cuts(path, key)) {
            complaints.extend(against_hash(rows, key, wanted).map(|words| format!("pyarrow: {words}")));
        }
    }
    match full_read_in(path, unit_of(rows)) {
        Ok(_) if orc_rust_errs(path) => {}
        Ok(full) => {
            complaints.extend(difference(&with_arrows_names(&full), rows).map(|words| format!("orc-rust: {words}")))
        }
        Err(words) if hashes.is_none() => complaints.push(format!("no oracle: orc-rust says {words}")),
        Err(words) => println!("orc-rust cannot read it: {words}"),
    }
    // The rows are right. From here on, filtered scans are compared with filters over the rows.
    if complaints.is_empty() {
        for column in filter_columns(rows) {
            match filtered(path, rows, column).await {
                Ok(found) => complaints.extend(found),
                Err(error) => complaints.push(format!("filter on column {column}: {error}")),
            }
        }
        complaints.extend(
            parallel(path, rows)
                .await
                .unwrap_or_else(|error| Some(error.to_string())),
        );
    }
    complaints
}

/// The rows with Arrow's names in maps. orc-rust calls the fields otherwise.
fn with_arrows_names(rows: &RecordBatch) -> RecordBatch {
    let schema = rows.schema();
    let fields = schema.fields().iter().map(|field| {
        let named = with_arrows_map_names(field.data_type());
        field.as_ref().clone().with_data_type(named)
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = rows.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()).unwrap());
    let columns = columns.collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options).unwrap()
}

/// California's summers after 2100 are missing from orc-rust's time zone tables. Both pyarrow and the scan have them.
fn orc_rust_errs(path: &Path) -> bool {
    path.ends_with("TestOrcFile.testDate2038.orc")
}

/// The unit of the timestamps that the scan returned.
fn unit_of(rows: &RecordBatch) -> TimestampPrecision {
    let schema = rows.schema();
    let mut units = schema.fields().iter().map(|field| TimestampUnit::of(field.data_type()));
    match units.any(|unit| unit == TimestampUnit::Microsecond) {
        true => TimestampPrecision::Microsecond,
        false => TimestampPrecision::Nanosecond,
    }
}

/// Decimals of Hive 0.11 with seven digits after the point, of which readers agree on six: pyarrow cuts, the scan
/// rounds as Java does.
fn pyarrow_cuts(path: &Path, column: &str) -> bool {
    path.ends_with("orc-file-11-format.orc") && column == "13:decimal1"
}

fn against_hash(rows: &RecordBatch, key: &str, wanted: &Value) -> Option<String> {
    let (index, name) = key.split_once(':')?;
    let index: usize = index.parse().ok()?;
    if index >= rows.num_columns() || rows.schema().field(index).name() != name {
        return Some(format!("column {key} is not there"));
    }
    let column = rows.column(index);
    let n = wanted["n"].as_u64()?;
    if column.len() as u64 != n {
        return Some(format!("column {key} has {} values instead of {n}", column.len()));
    }
    let hash = column_hash(column);
    (Some(hash.as_str()) != wanted["sha256"].as_str()).then(|| {
        format!(
            "column {key} ({}) has other values than {}",
            column.data_type(),
            wanted["type"]
        )
    })
}

fn filter_columns(rows: &RecordBatch) -> Vec<usize> {
    let comparable = |data_type: &DataType| {
        data_type.is_numeric()
            || matches!(
                data_type,
                DataType::Utf8 | DataType::Date32 | DataType::Timestamp(..) | DataType::Boolean
            )
    };
    let columns = (0..rows.num_columns()).filter(|&index| comparable(rows.column(index).data_type()));
    let most = if rows.num_rows() > MANY_ROWS { 2 } else { 12 };
    columns.take(most).collect()
}

/// A filter on `column` for the values between two quantiles, about 1 % of all.
fn one_percent(rows: &RecordBatch, column: usize) -> Result<Option<Expr>> {
    let values = rows.column(column);
    let options = SortOptions {
        descending: false,
        nulls_first: false,
    };
    let order = sort_to_indices(values, Some(options), None)?;
    let valid = values.len() - values.null_count();
    if valid == 0 {
        return Ok(None);
    }
    let low = valid * 45 / 100;
    let high = (low + valid / 100).min(valid - 1);
    let bound = |place: usize| ScalarValue::try_from_array(values, order.value(place) as usize);
    let name = Expr::Column(Column::new_unqualified(rows.schema().field(column).name().clone()));
    Ok(Some(name.between(lit(bound(low)?), lit(bound(high)?))))
}

/// Checks that the filtered scan equals the filter over all rows, with all columns and with only the last one.
async fn filtered(path: &Path, rows: &RecordBatch, column: usize) -> Result<Option<String>> {
    let Some(filter) = one_percent(rows, column)? else {
        return Ok(None);
    };
    let context = open(path, ORDERED).await?;
    register_rows(&context, "rows", rows);
    let names = [
        (0..rows.num_columns()).collect::<Vec<_>>(),
        vec![rows.num_columns() - 1],
    ];
    for projection in names {
        let mut answers = Vec::new();
        for table in ["rows", "t"] {
            let columns = projection
                .iter()
                .map(|&index| Expr::Column(Column::new_unqualified(rows.schema().field(index).name().clone())));
            let frame = context
                .table(table)
                .await?
                .filter(filter.clone())?
                .select(columns.collect::<Vec<_>>())?;
            let schema = std::sync::Arc::new(frame.schema().as_arrow().clone());
            answers.push(one_batch(&schema, &frame.collect().await?));
        }
        if let Some(words) = difference(&answers[0], &answers[1]) {
            return Ok(Some(format!("with {filter}: {words}")));
        }
    }
    Ok(None)
}

/// Checks that a parallel read in small batches gives the same rows in any order.
async fn parallel(path: &Path, rows: &RecordBatch) -> Result<Option<String>> {
    let context = open(path, PARALLEL).await?;
    let batches = context.table("t").await?.collect().await?;
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if count != rows.num_rows() {
        return Ok(Some(format!("{count} rows in parallel instead of {}", rows.num_rows())));
    }
    if count > MANY_ROWS {
        return Ok(None);
    }
    let sum = batches
        .iter()
        .fold(0_u64, |sum, batch| sum.wrapping_add(rows_hash(batch)));
    Ok((sum != rows_hash(rows)).then(|| "other rows in parallel".to_owned()))
}

fn rows_hash(batch: &RecordBatch) -> u64 {
    let mut text = String::new();
    (0..batch.num_rows()).fold(0, |sum, row| {
        text.clear();
        for column in batch.columns() {
            write_value(&mut text, column, row);
            text.push(' ');
        }
        let mut hash = DefaultHasher::new();
        text.hash(&mut hash);
        sum.wrapping_add(hash.finish())
    })
}
