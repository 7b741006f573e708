//! [`numbered_columns`]: columns of CSV files whose heading repeats a name.
//!
//! DataFusion infers one column for each name, and refuses the file. As in ORC files, a
//! number follows a repeated name: `a`, `a_1`.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::datasource::file_format::DEFAULT_SCHEMA_INFER_MAX_RECORD;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::error::Result;
use object_store::{ObjectMeta, ObjectStore};

use super::leading_zeros::bytes_of;
use crate::table::schema::distinct_names;

/// The schema of the first file, with all columns, if the file repeats a name.
///
/// # Errors
/// If the file cannot be read.
pub(super) async fn numbered_columns(
    format: &CsvFormat,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    objects: &[ObjectMeta],
) -> Result<Option<SchemaRef>> {
    let Some(first) = objects.first() else {
        return Ok(None);
    };
    let most = (format.options().schema_infer_max_rec).unwrap_or(DEFAULT_SCHEMA_INFER_MAX_RECORD);
    let mut inferred = None;
    // A record tells the names, and more of them the types.
    for records in [most.min(1), most] {
        let (_, bytes) = bytes_of(store, first).await?;
        let stream = format.read_to_delimited_chunks_from_stream(bytes);
        let (stored, _) = format.infer_schema_from_stream(state, records, stream).await?;
        let named = distinct_names(stored.fields());
        if named == *stored.fields() {
            return Ok(None);
        }
        inferred = Some(Arc::new(Schema::new(named)));
    }
    Ok(inferred)
}
