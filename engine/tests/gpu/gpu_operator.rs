//! The GPU operator: EXPLAIN and metrics, decoding and paging, errors, and changed files.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::collect;
use grampus::{scan_io, session};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

use crate::common::{compare_damaged, failure, metrics_of, open, ran, rows, set, stored_rows, text, write};
use crate::support::{GPU_SETTINGS, SETTINGS, Setting, gpu_runs, has_compiler, write_orc};

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_the_plan_and_analyze_the_run() {
    if !has_compiler("explain_shows_the_plan_and_analyze_the_run") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    let sql = "SELECT sum(x) FROM t WHERE x >= 1500 AND word = 'a'";
    let plan = text(&context, &format!("EXPLAIN {sql}")).await;
    for words in [
        "GpuAggregateExec: mode=Partial, device=",
        "aggr=[sum(t.x)]",
        "files=1, stripes=2",
        "columns=[x (resident, ",
        "word (resident, ",
        "filter=[x >= 1500, word = a]",
        "kernel=[dense]",
        "estimated=",
        "because grampus.device = 'prefer'",
    ] {
        assert!(plan.contains(words), "{words} in\n{plan}");
    }
    let verbose = text(&context, &format!("EXPLAIN VERBOSE {sql}")).await;
    assert!(
        verbose.contains("grampus_query") && verbose.contains("x, float64"),
        "{verbose}"
    );
    let analyzed = text(&context, &format!("EXPLAIN ANALYZE {sql}")).await;
    for words in [
        "compile_time=",
        "scan_time=",
        "kernel_time=",
        "decode_time=",
        "pushed_bytes=",
        "rows_passed=375",
        "io_amplification=",
    ] {
        assert!(analyzed.contains(words), "{words} in\n{analyzed}");
    }
    let (plan, _) = ran(&context, sql).await;
    let io = scan_io(&plan);
    assert_eq!(
        (io.rows_scanned, io.rows_passed, io.stripes_skipped),
        (1500, 375, 1),
        "{io:?}"
    );
    assert!(io.needed_bytes > 0, "{io:?}");
}

/// The device decodes columns in runs from their encoded form. In compressed files, it does if it knows the codec and
/// may decompress.
#[tokio::test(flavor = "multi_thread")]
async fn columns_in_runs_are_decoded_by_the_gpu() {
    if !has_compiler("columns_in_runs_are_decoded_by_the_gpu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let rows = stored_rows();
    let sql = "SELECT word, flag, count(*), sum(id), sum(maybe), min(time), max(time) FROM s \
               WHERE extract(year FROM time) >= 1960 GROUP BY word, flag ORDER BY word, flag";
    let mut answers = Vec::new();
    for (codec, decompress) in [
        (None, "auto"),
        (None, "off"),
        (Some(Codec::Snappy), "auto"),
        (Some(Codec::Snappy), "own"),
        (Some(Codec::Snappy), "off"),
        (Some(Codec::Lz4), "auto"),
        (Some(Codec::Zlib), "auto"),
        (Some(Codec::Zlib), "off"),
        (Some(Codec::Zstd), "own"),
    ] {
        let on_device = codec.is_none() || decompress != "off";
        let decoder = if on_device {
            "decoded by the GPU"
        } else {
            "decoded by the CPU"
        };
        let path = folder.path().join(format!("{codec:?} {decompress}.orc"));
        let options = WriterProperties {
            codec,
            row_index_stride: 1000,
            stripe_rows: 16_000,
            chunk_size_bytes: 5000,
            ..WriterProperties::default()
        };
        write_orc(&path, rows.schema(), std::slice::from_ref(&rows), options);
        let context = GPU_SETTINGS[0].context();
        set(&context, "grampus.gpu_decompress", decompress).await;
        let location = path.display().to_string();
        session::register_orc(&context, "s", &location).await.unwrap();
        let plan = text(&context, &format!("EXPLAIN {sql}")).await;
        assert_eq!(plan.matches(decoder).count(), 5, "{plan}");
        let (plan, answer) = ran(&context, sql).await;
        assert_eq!(gpu_runs(&plan), (1, 0));
        let metrics = metrics_of(&plan);
        let number = |name: &str| {
            metrics
                .iter()
                .filter(|(n, _)| n == name)
                .map(|(_, v)| *v)
                .sum::<usize>()
        };
        // A time of zero is reported as one nanosecond.
        assert_eq!(number("decode_time") > 1, !on_device, "{metrics:?}");
        assert_eq!(number("device_decode_time") > 1, on_device, "{metrics:?}");
        if on_device {
            // 40,000 values of 8 + 8 + 4 + 8 + 1 bytes, with their validity, take 1.36 MB. The file has less than half.
            let file = std::fs::metadata(&path).unwrap().len() as usize;
            let pushed = number("pushed_bytes");
            assert!(pushed > 0 && pushed < file, "{pushed} of {file}");
        }
        answers.push(answer);
        let by_cpu = SETTINGS[0].context();
        session::register_orc(&by_cpu, "s", &location).await.unwrap();
        answers.push(text(&by_cpu, sql).await);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
}

/// Damaged chunks give the CPU's error, or its answer.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_chunks_give_the_cpus_error_or_answer() {
    if !has_compiler("damaged_chunks_give_the_cpus_error_or_answer") {
        return;
    }
    let (mut errors, mut answers) = (0, 0);
    for codec in [Codec::Snappy, Codec::Lz4, Codec::Zlib, Codec::Zstd] {
        let (e, a) = compare_damaged(codec, [GPU_SETTINGS[0].context(), SETTINGS[0].context()]).await;
        (errors, answers) = (errors + e, answers + a);
    }
    println!("{errors} errors, {answers} answers");
    assert!(errors > 10 && answers > 0, "{errors} errors, {answers} answers");
}

/// For damaged bytes, the error is that of the CPU's plan, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_runs_give_the_decoders_error() {
    if !has_compiler("damaged_runs_give_the_decoders_error") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.orc");
    let rows = stored_rows();
    write_orc(
        &path,
        rows.schema(),
        std::slice::from_ref(&rows),
        WriterProperties::default(),
    );
    let mut bytes = std::fs::read(&path).unwrap();
    // The first fifth of the file has row indexes and the runs of `id`. Neither has patches or gaps of more than 64
    // bits.
    let tenth = bytes.len() / 10;
    bytes[tenth..tenth + 4000].fill(0xBF);
    std::fs::write(&path, bytes).unwrap();
    let mut failures = Vec::new();
    for setting in [GPU_SETTINGS[0], SETTINGS[0]] {
        let context = setting.context();
        session::register_orc(&context, "s", &path.display().to_string())
            .await
            .unwrap();
        failures.push(failure(&context, "SELECT sum(id), max(time) FROM s").await);
        failures.push(failure(&context, "SELECT sum(id), max(time) FROM s").await);
    }
    assert!(
        failures
            .iter()
            .all(|words| *words == failures[0] && words.contains("s.orc")),
        "{failures:#?}"
    );
}

/// Paged columns. The size of a page depends on the encoding of the column.
#[tokio::test(flavor = "multi_thread")]
async fn explain_names_pages_and_analyze_counts_them() {
    if !has_compiler("explain_names_pages_and_analyze_counts_them") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[2]).await;
    let sql = "SELECT sum(x), count(word) FROM t WHERE i = 3";
    let plan = text(&context, &format!("EXPLAIN {sql}")).await;
    for words in [
        "i (resident, ",
        "x (paged, 64 B at a time",
        "word (paged, 2.0 KiB at a time",
    ] {
        assert!(plan.contains(words), "{words} in\n{plan}");
    }
    let verbose = text(&context, &format!("EXPLAIN VERBOSE {sql}")).await;
    assert!(verbose.contains("by loads from pages"), "{verbose}");
    let analyzed = text(&context, &format!("EXPLAIN ANALYZE {sql}")).await;
    for words in ["page_bytes=", "pages=", "passes=", "gather_time=", "rows_passed=429"] {
        assert!(analyzed.contains(words), "{words} in\n{analyzed}");
    }
    let analyzed = text(&context, &format!("EXPLAIN ANALYZE {sql}")).await;
    for words in ["passes=1,", "pages=0,", "page_bytes=0,"] {
        assert!(analyzed.contains(words), "{words} in\n{analyzed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gpu_errors_are_those_of_the_cpu() {
    if !has_compiler("gpu_errors_are_those_of_the_cpu") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let gpu = open(folder.path(), &GPU_SETTINGS[0]).await;
    let cpu = open(
        folder.path(),
        &Setting {
            gpu: None,
            ..GPU_SETTINGS[0]
        },
    )
    .await;
    for sql in [
        "SELECT sum(10 / i) FROM t",
        "SELECT sum(CAST(x * 1e30 AS INT)) FROM t",
        "SELECT i % (i - 2), count(*) FROM t GROUP BY 1",
    ] {
        let (wanted, found) = (failure(&cpu, sql).await, failure(&gpu, sql).await);
        assert_eq!(wanted, found, "{sql}");
    }
    // If the divisor is never zero in the passing rows, the query has an answer.
    let sql = "SELECT sum(10 / i) FROM t WHERE i > 0";
    let (plan, answer) = ran(&gpu, sql).await;
    assert_eq!(gpu_runs(&plan), (1, 0));
    assert_eq!(answer, text(&cpu, sql).await);
}

/// A file changes after planning. The device notices the change, the CPU still has the old file open, and the next
/// query sees the new file.
#[tokio::test(flavor = "multi_thread")]
async fn changed_file_is_noticed() {
    if !has_compiler("changed_file_is_noticed") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    let sql = "SELECT count(*), sum(x) FROM t WHERE x >= 0";
    assert!(text(&context, sql).await.contains("| 3000     | 4498500.0 |"));
    let plan = async || context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let lenient = plan().await;
    set(&context, "grampus.device", "gpu").await;
    let strict = plan().await;
    let fewer = rows().slice(0, 1000);
    let other = folder.path().join("other.orc");
    write(&other, &fewer);
    std::fs::rename(&other, folder.path().join("t.orc")).unwrap();
    let error = collect(strict, context.task_ctx())
        .await
        .expect_err("the file is another");
    assert!(error.to_string().contains("t.orc"), "{error}");
    let old = collect(Arc::clone(&lenient), context.task_ctx()).await.unwrap();
    assert!(pretty_format_batches(&old).unwrap().to_string().contains("| 3000 "));
    assert_eq!(gpu_runs(&lenient), (0, 1));
    let (plan, answer) = ran(&context, sql).await;
    assert_eq!(gpu_runs(&plan), (1, 0));
    assert!(answer.contains("| 1000     | 499500.0 "), "{answer}");
}

/// Two files of one table number their columns differently. The cached columns of one file are not used for the other.
#[tokio::test(flavor = "multi_thread")]
async fn cached_columns_are_distinct_across_files() {
    if !has_compiler("cached_columns_are_distinct_across_files") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let both = folder.path().join("both");
    std::fs::create_dir(&both).unwrap();
    let column = |from: i64| Arc::new(Int64Array::from_iter_values(from..from + 10)) as ArrayRef;
    let table = |names: [&str; 2]| {
        let columns = [(names[0], column(0)), (names[1], column(1000))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
    };
    write(&both.join("1.orc"), &table(["a", "b"]));
    write(&both.join("2.orc"), &table(["b", "a"]));
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    session::register_orc(&context, "both", &both.display().to_string())
        .await
        .unwrap();
    let second = both.join("2.orc").display().to_string();
    session::register_orc(&context, "second", &second).await.unwrap();
    for (table, sums) in [
        ("both", "| 10090 | 10090 |"),
        ("second", "| 10045 | 45 "),
        ("both", "| 10090 | 10090 |"),
    ] {
        let answer = text(&context, &format!("SELECT sum(a) AS a, sum(b) AS b FROM {table}")).await;
        assert!(answer.contains(sums), "{table}: {answer}");
    }
}

/// Strings keep their dictionary codes from query to query, in any order of literals.
#[tokio::test(flavor = "multi_thread")]
async fn strings_are_found_by_equality() {
    if !has_compiler("strings_are_found_by_equality") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let context = open(folder.path(), &GPU_SETTINGS[0]).await;
    for (word, count) in [("never there", "0  "), ("c", "750"), ("a", "750")] {
        let answer = text(&context, &format!("SELECT count(*) AS n FROM t WHERE word = '{word}'")).await;
        assert!(
            answer.contains(&format!("| {count} |").replace("0   |", "0 |")),
            "{word}: {answer}"
        );
    }
    let (plan, answer) = ran(
        &context,
        "SELECT coalesce(word, 'none') AS w, count(*) FROM t GROUP BY w ORDER BY w",
    )
    .await;
    assert_eq!(gpu_runs(&plan), (1, 0));
    assert!(answer.contains("none") && answer.contains("| a    | 750"), "{answer}");
}
