//! The queries of `queries/` on the sample of real trips, by kernels and by the CPU's plan.
//!
//! The sample is not part of the project. Without the sample, the tests are ignored.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;

use crate::compare::difference;
use crate::support::{GPU_SETTINGS, Setting, gpu_runs, has_compiler};

/// Queries for which statistics exclude all rows of a sample of one month.
const PRUNED: [&str; 1] = ["x3"];

fn queries() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../queries");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect()
}

async fn open(setting: &Setting, location: &Path) -> SessionContext {
    let context = setting.context();
    let location = location.display().to_string();
    grampus::session::register_orc(&context, "trips", &location)
        .await
        .unwrap();
    context
}

/// The answer, and the numbers of aggregations that kernels computed, and that fell back.
async fn answer(context: &SessionContext, sql: &str) -> (RecordBatch, (usize, usize)) {
    let frame = context.sql(sql).await.unwrap();
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), task).await.unwrap();
    (concat_batches(&plan.schema(), &batches).unwrap(), gpu_runs(&plan))
}

#[tokio::test(flavor = "multi_thread")]
async fn query_answers_are_those_of_the_cpu() {
    let test = "query_answers_are_those_of_the_cpu";
    let Some(folder) = grampus_test_support::data("taxi") else {
        return;
    };
    if !has_compiler(test) {
        return;
    }
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    for codec in ["uncompressed", "zlib", "snappy", "lz4", "zstd"] {
        let file = folder.join(format!("yellow_90k_{codec}.orc"));
        let expected = open(&cpu, &file).await;
        for setting in &GPU_SETTINGS {
            let context = open(setting, &file).await;
            for (name, sql) in &queries() {
                let what = format!("{name} on {codec}, {setting:?}");
                let (wanted, _) = answer(&expected, sql).await;
                let (found, (computed, given_back)) = answer(&context, sql).await;
                if let Some(words) = difference(&wanted, &found) {
                    panic!("{what}: {words}");
                }
                assert_eq!(given_back, 0, "{what}");
                let is_pruned = setting.prune && PRUNED.contains(&name.as_str());
                assert_eq!(computed, usize::from(!is_pruned), "{what}");
            }
        }
    }
}

/// Queries with mapped columns, and with the device's own choice, share one session and its cached columns.
#[tokio::test(flavor = "multi_thread")]
async fn cached_columns_serve_later_queries() {
    let test = "cached_columns_serve_later_queries";
    let Some(folder) = grampus_test_support::data("taxi") else {
        return;
    };
    if !has_compiler(test) {
        return;
    }
    let file = folder.join("yellow_90k_uncompressed.orc");
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let (expected, context) = (open(&cpu, &file).await, open(&GPU_SETTINGS[0], &file).await);
    for backing in ["paged", "auto", "mapped", "paged", "resident", "auto"] {
        context
            .sql(&format!("SET grampus.gpu_backing = '{backing}'"))
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
        for name in ["q5_20", "q0_30", "x1"] {
            let sql = &queries()[name];
            let (wanted, _) = answer(&expected, sql).await;
            let (found, (computed, _)) = answer(&context, sql).await;
            assert_eq!(computed, 1, "{name}");
            if let Some(words) = difference(&wanted, &found) {
                panic!("{name}, {backing}: {words}");
            }
        }
    }
}
