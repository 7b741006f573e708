//! Values as other writers store them, by kernels and by the CPU's plan: timestamps of any year in both units, CHAR,
//! and strings that are not UTF-8.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use grampus::session;
use grampus_orc_layout::proto::r#type::Kind;
use grampus_orc_layout::write::WriterProperties;

use crate::common::{failure, ran, set, text};
use crate::edited_file::edited;
use crate::support::{GPU_SETTINGS, Setting, gpu_runs, has_compiler, write_orc};

const DAY: i64 = 86_400_000_000;

/// 3,000 rows: times of all years and of this century, a CHAR and a STRING, of which some are Latin-1.
fn write(path: &Path) {
    let far = |row: i64| (row % 7 != 0).then_some((row - 1_500) * 1_300 * DAY + row * 1_000_003);
    let near = |row: i64| (row % 5 != 0).then_some(row * DAY / 3 + 946_684_800_000_000);
    let times = |time: &dyn Fn(i64) -> Option<i64>| -> ArrayRef {
        Arc::new((0..3_000).map(time).collect::<TimestampMicrosecondArray>())
    };
    let chars = (0..3_000).map(|row| [Some("a  "), Some("bc "), None, Some("def")][row % 4]);
    let texts = (0..3_000).map(|row| [Some(&b"caf\xe9"[..]), None, Some(b"tea")][row % 3]);
    let columns: [(&str, ArrayRef); 5] = [
        ("far", times(&far)),
        ("near", times(&near)),
        ("c", Arc::new(StringArray::from_iter(chars))),
        ("s", Arc::new(BinaryArray::from_iter(texts))),
        (
            "i",
            Arc::new(Int32Array::from_iter_values((0..3_000).map(|row| row % 11))),
        ),
    ];
    let rows = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let options = WriterProperties {
        row_index_stride: 500,
        ..WriterProperties::default()
    };
    write_orc(path, rows.schema(), &[rows], options);
    let file = edited(&std::fs::read(path).unwrap(), |parts| {
        parts.footer.types[3].kind = Some(Kind::Char as i32);
        parts.footer.types[3].maximum_length = Some(3);
        parts.footer.types[4].kind = Some(Kind::String as i32);
    });
    std::fs::write(path, file).unwrap();
}

/// The answers of kernels are the CPU's, for each of `queries` and each backing.
async fn agree(test: &str, unit: &str, queries: &[&str]) {
    if !has_compiler(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write(&path);
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let open = async |setting: &Setting| {
        let context = setting.context();
        set(&context, "grampus.timestamp_unit", unit).await;
        set(&context, "grampus.invalid_utf8", "replace").await;
        session::register_orc(&context, "t", &path.display().to_string())
            .await
            .unwrap();
        context
    };
    let expected = open(&cpu).await;
    for setting in GPU_SETTINGS {
        let setting = Setting {
            partitions: 1,
            ..setting
        };
        let context = open(&setting).await;
        for sql in queries {
            let (_, wanted) = ran(&expected, sql).await;
            let (plan, found) = ran(&context, sql).await;
            assert_eq!(found, wanted, "{sql}, {setting:?}");
            let explained = text(&context, &format!("EXPLAIN {sql}")).await;
            assert_eq!(gpu_runs(&plan), (1, 0), "{sql}, {setting:?}: {explained}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn timestamps_of_any_year_have_the_cpus_answers() {
    let queries = [
        "SELECT count(far), min(far), max(far), count(near), min(near), max(near) FROM t",
        "SELECT count(*), sum(i) FROM t WHERE far < '0900-01-01' OR far >= '9000-06-01'",
        "SELECT count(*), max(far) FROM t WHERE near > '2001-05-05' AND far < '5000-01-01'",
        "SELECT count(*) FROM t WHERE far IS NULL AND near < '2001-01-01'",
        "SELECT date_part('year', near) AS y, count(*), min(far) FROM t GROUP BY y ORDER BY y",
        "SELECT date_trunc('month', near) AS m, max(far) FROM t WHERE i > 3 GROUP BY m ORDER BY m",
    ];
    agree("timestamps_of_any_year_have_the_cpus_answers", "auto", &queries).await;
    agree("timestamps_of_any_year_have_the_cpus_answers", "us", &queries).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timestamps_that_do_not_fit_nanoseconds_are_errors() {
    if !has_compiler("timestamps_that_do_not_fit_nanoseconds_are_errors") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write(&path);
    for setting in &GPU_SETTINGS {
        let context = setting.context();
        set(&context, "grampus.timestamp_unit", "ns").await;
        session::register_orc(&context, "t", &path.display().to_string())
            .await
            .unwrap();
        let error = failure(&context, "SELECT max(far), sum(i) FROM t").await;
        let is_named =
            error.contains("t.orc: column far: timestamp") && error.contains("grampus.timestamp_unit = 'us'");
        assert!(is_named, "{setting:?}: {error}");
        ran(&context, "SELECT max(near) FROM t").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_of_other_writers_has_the_cpus_answers() {
    let queries = [
        "SELECT c, count(*), sum(i) FROM t GROUP BY c ORDER BY c",
        "SELECT s, count(*), sum(i) FROM t GROUP BY s ORDER BY s",
        "SELECT count(*) FROM t WHERE c = 'a' AND s = 'caf\u{fffd}'",
        "SELECT count(*) FROM t WHERE c = 'bc '",
        "SELECT count(*) FROM t WHERE c IN ('a ', 'def')",
    ];
    agree("text_of_other_writers_has_the_cpus_answers", "auto", &queries).await;
}
