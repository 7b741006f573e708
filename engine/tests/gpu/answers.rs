//! The queries of `queries/` on the sample of real trips, by kernels and by the CPU's plan.
//!
//! The sample is not part of the project. Without the sample, the tests are ignored.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{answer, open_table};
use crate::compare::difference;
use crate::support::{GPU_SETTINGS, Setting, has_compiler};

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
        let expected = open_table(&cpu, "trips", &file).await;
        for setting in &GPU_SETTINGS {
            let context = open_table(setting, "trips", &file).await;
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
    let (expected, context) = (
        open_table(&cpu, "trips", &file).await,
        open_table(&GPU_SETTINGS[0], "trips", &file).await,
    );
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
