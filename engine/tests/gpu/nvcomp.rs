//! Files whose chunks nvCOMP decompresses: a stand-in for it works in the memory of host threads.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch};
use datafusion::prelude::SessionContext;
use grampus::session;
use grampus_host_nvcomp::Fault;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

use crate::common::{compare_damaged, failure, metrics_of, ran, set, stored_rows, text};
use crate::support::{GPU_SETTINGS, SETTINGS, gpu_runs, has_stand_ins, write_orc};

/// A file without a library.
const ABSENT: &str = "/nowhere/libnvcomp.so.5";

/// A session on host threads with a library.
async fn context(decompress: &str, library: &str) -> SessionContext {
    let context = GPU_SETTINGS[0].context();
    set(&context, "grampus.gpu_decompress", decompress).await;
    set(&context, "grampus.nvcomp_library", library).await;
    context
}

fn stand_in() -> String {
    grampus_host_nvcomp::file().display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn nvcomp_decompresses_if_it_is_asked_for() {
    if !has_stand_ins("nvcomp_decompresses_if_it_is_asked_for") {
        return;
    }
    let (folder, rows) = (tempfile::tempdir().unwrap(), stored_rows());
    let sql = "SELECT word, flag, count(*), sum(id), sum(maybe), min(time), max(time) FROM s \
               WHERE extract(year FROM time) >= 1960 GROUP BY word, flag ORDER BY word, flag";
    let mut answers = Vec::new();
    for (codec, decompress, is_there, on_device) in [
        (Codec::Zstd, "nvcomp", true, true),
        (Codec::Zlib, "nvcomp", true, true),
        (Codec::Snappy, "nvcomp", true, true),
        (Codec::Lz4, "nvcomp", true, true),
        (Codec::Zstd, "auto", true, true),
        (Codec::Zlib, "own", true, true),
        (Codec::Zlib, "off", true, false),
        (Codec::Zstd, "auto", false, true),
        (Codec::Lz4, "auto", false, true),
    ] {
        let what = format!("{codec:?}, {decompress}, {is_there}");
        let path = folder.path().join(format!("{what}.orc"));
        let options = WriterProperties {
            codec: Some(codec),
            row_index_stride: 1000,
            stripe_rows: 16_000,
            chunk_size_bytes: 5000,
            ..WriterProperties::default()
        };
        write_orc(&path, rows.schema(), std::slice::from_ref(&rows), options);
        let library = if is_there { stand_in() } else { ABSENT.to_owned() };
        let gpu = context(decompress, &library).await;
        let location = path.display().to_string();
        session::register_orc(&gpu, "s", &location).await.unwrap();
        let plan = text(&gpu, &format!("EXPLAIN {sql}")).await;
        let decoder = if on_device {
            "decoded by the GPU"
        } else {
            "decoded by the CPU"
        };
        assert_eq!(plan.matches(decoder).count(), 5, "{what}: {plan}");
        let by_nvcomp = plan.contains("decompression=[nvCOMP 5.3.0]");
        assert_eq!(by_nvcomp, decompress == "nvcomp", "{what}: {plan}");
        let (plan, answer) = ran(&gpu, sql).await;
        assert_eq!(gpu_runs(&plan), (1, 0), "{what}");
        let metrics = metrics_of(&plan);
        let number = |name: &str| {
            metrics
                .iter()
                .filter(|(n, _)| n == name)
                .map(|(_, v)| *v)
                .sum::<usize>()
        };
        // A time of zero is reported as one nanosecond.
        assert_eq!(number("decode_time") > 1, !on_device, "{what}: {metrics:?}");
        assert_eq!(number("device_decode_time") > 1, on_device, "{what}: {metrics:?}");
        answers.push(answer);
        let by_cpu = SETTINGS[0].context();
        session::register_orc(&by_cpu, "s", &location).await.unwrap();
        answers.push(text(&by_cpu, sql).await);
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn query_fails_if_the_nvcomp_that_it_asks_for_is_absent() {
    if !has_stand_ins("query_fails_if_the_nvcomp_that_it_asks_for_is_absent") {
        return;
    }
    let (folder, rows) = (tempfile::tempdir().unwrap(), stored_rows().slice(0, 3000));
    for codec in [None, Some(Codec::Snappy), Some(Codec::Zlib)] {
        let path = folder.path().join(format!("{codec:?}.orc"));
        let options = WriterProperties {
            codec,
            ..WriterProperties::default()
        };
        write_orc(&path, rows.schema(), std::slice::from_ref(&rows), options);
        let gpu = context("nvcomp", ABSENT).await;
        let location = path.display().to_string();
        session::register_orc(&gpu, "s", &location).await.unwrap();
        let sql = "SELECT count(*), max(id) FROM s WHERE id > 5";
        if codec.is_none() {
            assert_eq!(gpu_runs(&ran(&gpu, sql).await.0), (1, 0));
            continue;
        }
        let said = failure(&gpu, sql).await;
        for words in [
            ABSENT,
            "pip install nvidia-libnvcomp-cu13",
            "grampus.gpu_decompress = 'nvcomp'",
        ] {
            assert!(said.contains(words), "{codec:?}: {said}");
        }
        // Without an aggregate nothing is decompressed on the device.
        assert!(text(&gpu, "SELECT id FROM s LIMIT 1").await.contains("| 0"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cpu_answers_if_nvcomp_fails_at_a_chunk() {
    if !has_stand_ins("cpu_answers_if_nvcomp_fails_at_a_chunk") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for fault in Fault::ALL {
        // The values' bytes begin with the mark at which the stand-in fails. The NULL makes them encoded.
        let mut mark = fault.mark().to_vec();
        mark.resize(24, b' ');
        let marked = mark
            .chunks_exact(8)
            .map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()));
        let values = marked.chain((0..20_000).map(f64::from)).map(Some).chain([None]);
        let column: ArrayRef = Arc::new(Float64Array::from_iter(values));
        let rows = RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap();
        for codec in [Codec::Zstd, Codec::Zlib] {
            let path = folder.path().join(format!("{fault:?} {codec:?}.orc"));
            let options = WriterProperties {
                codec: Some(codec),
                chunk_size_bytes: 5000,
                ..WriterProperties::default()
            };
            write_orc(&path, rows.schema(), std::slice::from_ref(&rows), options);
            let location = path.display().to_string();
            let sql = "SELECT count(x), count(*), min(x), max(x) FROM s";
            let (gpu, cpu) = (context("nvcomp", &stand_in()).await, SETTINGS[0].context());
            for context in [&gpu, &cpu] {
                session::register_orc(context, "s", &location).await.unwrap();
            }
            let plan = text(&gpu, &format!("EXPLAIN {sql}")).await;
            assert!(plan.contains("decoded by the GPU"), "{fault:?}: {plan}");
            let (plan, answer) = ran(&gpu, sql).await;
            assert_eq!(gpu_runs(&plan), (1, 0), "{fault:?}");
            assert_eq!(answer, text(&cpu, sql).await, "{fault:?}, {codec:?}");
            let by_cpu = metrics_of(&plan).into_iter().filter(|(name, _)| name == "decode_time");
            assert!(by_cpu.map(|(_, ns)| ns).sum::<usize>() > 1, "{fault:?}, {codec:?}");
            // The column stays the CPU's to decode.
            let plan = text(&gpu, &format!("EXPLAIN {sql}")).await;
            assert!(!plan.contains("decoded by the GPU"), "{fault:?}: {plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_chunks_for_nvcomp_give_the_cpus_error_or_answer() {
    if !has_stand_ins("damaged_chunks_for_nvcomp_give_the_cpus_error_or_answer") {
        return;
    }
    let (mut errors, mut answers) = (0, 0);
    for codec in [Codec::Zlib, Codec::Zstd] {
        let contexts = [context("nvcomp", &stand_in()).await, SETTINGS[0].context()];
        let (e, a) = compare_damaged(codec, contexts).await;
        (errors, answers) = (errors + e, answers + a);
    }
    println!("{errors} errors, {answers} answers");
    assert!(errors > 10 && answers > 0, "{errors} errors, {answers} answers");
}
