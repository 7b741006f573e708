//! Repairs of DataFusion's faults: right answers over ORC, Parquet and rows in memory, and the faults themselves.
//!
//! `stock.rs` fails when DataFusion no longer has a fault. `GRAMPUS_TEST_SEED` and `GRAMPUS_TEST_CASES` replay and
//! repeat the random tests.

#[path = "../support/mod.rs"]
mod support;

mod computed_keys;
mod dates;
mod decimals;
mod lists;
mod not_in;
mod pushdown;
mod stock;
mod subqueries;
mod sums;
mod using_keys;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::session::plan_cache::{data_frame, plan_sql};
use grampus_orc_layout::write::WriterProperties;
use support::seeds::{random, seeds};

/// A session with the same rows as three tables.
struct Tables {
    context: SessionContext,
    names: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Tables {
    /// The tables `{name}_memory` and `{name}_parquet`, and `{name}_orc` if ORC has the types.
    async fn new(tables: &[(&str, RecordBatch)], has_orc: bool) -> Self {
        let context = support::SETTINGS[2].context();
        let folder = tempfile::tempdir().unwrap();
        let mut kinds = vec!["memory", "parquet"];
        for (name, rows) in tables {
            support::register_rows(&context, &format!("{name}_memory"), rows);
            let parquet = folder.path().join(format!("{name}.parquet")).display().to_string();
            let copy = format!("COPY {name}_memory TO '{parquet}'");
            answer(&context, &copy).await.unwrap();
            grampus::session::register_files(&context, &format!("{name}_parquet"), &parquet)
                .await
                .unwrap();
            if has_orc {
                let orc = folder.path().join(format!("{name}.orc"));
                support::write_orc(
                    &orc,
                    rows.schema(),
                    std::slice::from_ref(rows),
                    WriterProperties::default(),
                );
                grampus::session::register_orc(&context, &format!("{name}_orc"), orc.to_str().unwrap())
                    .await
                    .unwrap();
            }
        }
        if has_orc {
            kinds.push("orc");
        }
        Self {
            context,
            names: kinds.into_iter().map(str::to_owned).collect(),
            _folder: folder,
        }
    }

    /// Asserts the answer over each kind of table, which `{}` in the statement stands for.
    async fn check(&self, sql: &str, expected: &str) {
        for kind in &self.names {
            let sql = sql.replace("{}", kind);
            let found = answer(&self.context, &sql).await;
            let found = found.unwrap_or_else(|error| format!("error: {}", grampus::error::message(&error)));
            assert_eq!(found, expected, "{sql}");
        }
    }

    /// Asserts an error over each kind of table.
    async fn check_error(&self, sql: &str, expected: &str) {
        for kind in &self.names {
            let sql = sql.replace("{}", kind);
            match answer(&self.context, &sql).await {
                Ok(found) => panic!("{sql}: {found}"),
                Err(error) => {
                    let text = grampus::error::message(&error);
                    assert!(text.contains(expected), "{sql}: {text}");
                }
            }
        }
    }
}

/// Rows of columns that may be NULL.
fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The answer of a statement: values separated by blanks, rows by semicolons.
async fn answer(context: &SessionContext, sql: &str) -> Result<String> {
    let (plan, task) = plan_sql(context, sql).await?;
    Ok(text(&collect(plan, task).await?))
}

/// The same by `SessionContext::sql`, whose literals are DOUBLEs.
async fn answer_by_datafusion(context: &SessionContext, sql: &str) -> Result<String> {
    Ok(text(&context.sql(sql).await?.collect().await?))
}

fn text(batches: &[RecordBatch]) -> String {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(cells.join(" "));
        }
    }
    rows.join("; ")
}

fn array<T: arrow::array::Array + 'static>(array: T) -> ArrayRef {
    Arc::new(array)
}

/// The session of `data_frame`, for parameters.
async fn with_parameters(context: &SessionContext, sql: &str, values: Vec<datafusion::scalar::ScalarValue>) -> String {
    let frame = data_frame(context, sql, datafusion::execution::context::SQLOptions::new())
        .await
        .unwrap();
    let batches = frame.with_param_values(values).unwrap().collect().await;
    batches.map_or_else(|error| format!("error: {error}"), |batches| text(&batches))
}
