//! [`check`]: CSV files of one table have the same columns in the same order.
//!
//! DataFusion joins the names of all headings, and takes the values of each file by their places: of `a,b` and `b,a`,
//! it would read one file's values into the other's columns.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::plan_err;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::error::Result;
use object_store::{ObjectMeta, ObjectStore};

use super::leading_zeros::bytes_of;

/// Refuses files whose headings differ. `name` is a file's name in messages.
///
/// # Errors
/// If they do, or a file cannot be read.
pub(super) async fn check(
    format: &CsvFormat,
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    objects: &[ObjectMeta],
    name: impl Fn(&ObjectMeta) -> String,
) -> Result<()> {
    let mut first: Option<(Vec<String>, &ObjectMeta)> = None;
    for object in objects.iter().filter(|object| object.size > 0) {
        let (_, bytes) = bytes_of(store, object).await?;
        let stream = format.read_to_delimited_chunks_from_stream(bytes);
        let (stored, _) = format.infer_schema_from_stream(state, 1, stream).await?;
        let names: Vec<String> = stored.fields().iter().map(|field| field.name().clone()).collect();
        match &first {
            None => first = Some((names, object)),
            Some((known, _)) if *known == names || names.is_empty() => {}
            Some((known, other)) => {
                let (here, there) = (names.join(", "), known.join(", "));
                return plan_err!(
                    "{}: the columns are {here}, and {there} in {}: CSV files of one table have the same columns in \
                     the same order; read them one by one with UNION ALL BY NAME",
                    name(object),
                    name(other)
                );
            }
        }
    }
    Ok(())
}
