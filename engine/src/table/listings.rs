//! [`Listings`]: the files that one statement has found, so that it lists each location once.
//!
//! A table that is named by a path is opened while its statement is bound, and scanned by the statement's plan. A
//! self-join scans a table twice. All of them see one listing. Outside of [`during`](Listings::during), each search
//! lists anew, as do statements that are executed while they are planned.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::Session;
use datafusion::error::Result;

use super::listing::{FoundFile, find_files, find_files_if_any};

tokio::task_local! {
    /// The listings of the statement that this task plans.
    static CURRENT: Listings;
}

/// Files by the locations, and whether there may be none.
type Found = HashMap<(Vec<String>, bool), Arc<[FoundFile]>>;

/// The listings of one statement.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listings {
    found: Arc<Mutex<Found>>,
}

/// Whether an earlier listing of the statement will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// It will.
    OfStatement,
    /// The files have changed since.
    New,
}

impl Listings {
    /// Those of the statement that this task plans.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Plans a statement, or a part of it, with these listings.
    pub(crate) async fn during<F: Future>(&self, planning: F) -> F::Output {
        CURRENT.scope(self.clone(), planning).await
    }
}

/// The files at `locations`: as [`find_files`] finds them, or as [`find_files_if_any`] does.
///
/// # Errors
/// As these.
pub(crate) async fn files_at(
    state: &dyn Session,
    locations: &[String],
    may_be_empty: bool,
    freshness: Freshness,
) -> Result<Arc<[FoundFile]>> {
    let listings = Listings::current().unwrap_or_default();
    let key = (locations.to_vec(), may_be_empty);
    // Entries are inserted whole.
    let lock = || listings.found.lock().unwrap_or_else(PoisonError::into_inner);
    let known = lock()
        .get(&key)
        .filter(|_| freshness == Freshness::OfStatement)
        .cloned();
    if let Some(known) = known {
        return Ok(known);
    }
    let found: Arc<[FoundFile]> = match may_be_empty {
        true => find_files_if_any(state, locations).await?,
        false => find_files(state, locations).await?,
    }
    .into();
    lock().insert(key, Arc::clone(&found));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::util::display::array_value_to_string;
    use datafusion::physical_plan::collect;
    use datafusion::prelude::SessionContext;
    use grampus_orc_layout::write::ArrowWriter;

    use super::*;
    use crate::config::GrampusConfig;
    use crate::file::LOOKED_UP;
    use crate::session::plan_cache::plan_sql;

    /// More files than the cache keeps open.
    const FILES: usize = 600;

    fn write(path: &Path, value: i64) {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values([value, value]));
        let rows = RecordBatch::try_from_iter([("x", column)]).unwrap();
        let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), rows.schema(), None).unwrap();
        writer.write(&rows).unwrap();
        writer.close().unwrap();
    }

    /// The first value of the answer, and the identities that were looked up.
    async fn run(context: &SessionContext, sql: &str) -> (String, usize) {
        let before = LOOKED_UP.get();
        let (plan, task) = plan_sql(context, sql).await.unwrap();
        let batches = collect(plan, task).await.unwrap();
        let first = batches.iter().find(|batch| batch.num_rows() > 0).unwrap();
        let value = array_value_to_string(first.column(0), 0).unwrap();
        (value, LOOKED_UP.get() - before)
    }

    /// A listing, and the check before rows leave the scan. The tail of a new file is checked too. All runs on this
    /// thread.
    #[tokio::test]
    async fn identities_of_many_files_are_looked_up_twice_per_query() {
        let folder = tempfile::tempdir().unwrap();
        for k in 0..FILES {
            write(&folder.path().join(format!("{k:03}.orc")), k as i64);
        }
        let config = GrampusConfig {
            target_partitions: Some(1),
            ..GrampusConfig::default()
        };
        let context = crate::session::context(config).unwrap();
        let named = format!("'{}'", folder.path().display());
        let sum = (FILES * (FILES - 1)).to_string();
        // One more is of the first stripe, whose encodings the plan looks at.
        let sql = format!("SELECT sum(x) FROM {named}");
        assert_eq!(run(&context, &sql).await, (sum.clone(), 3 * FILES + 1));
        assert_eq!(run(&context, &sql).await, (sum, 2 * FILES + 1));
        // The filter is evaluated on each row.
        let sql = format!("SELECT count(*) FROM {named} WHERE x = 7 OR x * 2 = 20");
        let (answer, count) = run(&context, &sql).await;
        assert_eq!(answer, "4");
        assert!(count <= 2 * FILES + 1, "{count}");
        // Both sides of a self-join are of one listing.
        let sql = format!("SELECT count(*) FROM {named} a JOIN {named} b ON a.x = b.x");
        let (answer, count) = run(&context, &sql).await;
        assert_eq!(answer, (4 * FILES).to_string());
        assert!(count <= 3 * FILES + 2, "{count}");
        // A file that changes between two statements is seen.
        write(&folder.path().join("007.orc"), 1_000_000);
        let sql = format!("SELECT max(x), sum(x) FROM {named} WHERE x > 5");
        assert_eq!(run(&context, &sql).await.0, "1000000");
    }
}
