//! The choice between CPU and GPU at recorded rates: estimates must order the processors as measured times do.
//!
//! The measurements are of 200 million rows on servers with 16 cores and one H200 or H100 (docs/experiments/
//! {0028-nvcomp,0040-decode-lanes,0061-zlib-and-zstd}.md, queries/RESULTS.md). The tables here have a thousandth of the
//! rows, and the machine profile a thousandth of the rates.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch};
use datafusion::prelude::SessionContext;
use grampus::gpu::calibration::Calibration;
use grampus::session::register_orc;
use grampus_gpu_exec::{MachineProfile, PerCodec};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

use crate::common::{set, text};
use crate::support::{GPU_SETTINGS, has_compiler, write_orc};

const SCALE: f64 = 1e-3;
const ROWS: u64 = 200_000;
/// Columns: the filter's, and five that depend on it.
const COLUMNS: [&str; 6] = ["d", "a", "b", "c", "e", "f"];
const Q0: &str = "SELECT count(*), sum(d) FROM t WHERE d >= 30";
const Q5: &str = "SELECT count(*), sum(d), sum(a), sum(b), sum(c), sum(e), sum(f) FROM t WHERE d >= 30";

/// Measured times of a first touch in ms: the CPU, and an open GPU with a compiled kernel.
struct Recorded {
    /// `None`: uncompressed.
    codec: Option<Codec>,
    /// `grampus.gpu_decompress`.
    decompress: &'static str,
    sql: &'static str,
    cpu_ms: f64,
    gpu_ms: f64,
}

const fn recorded(
    codec: Option<Codec>,
    decompress: &'static str,
    sql: &'static str,
    cpu_ms: f64,
    gpu_ms: f64,
) -> Recorded {
    Recorded {
        codec,
        decompress,
        sql,
        cpu_ms,
        gpu_ms,
    }
}

const RECORDED: [Recorded; 12] = [
    recorded(None, "auto", Q0, 21.1, 39.3),
    recorded(None, "auto", Q5, 22.5, 59.7),
    recorded(Some(Codec::Snappy), "auto", Q0, 195.0, 65.0),
    recorded(Some(Codec::Snappy), "auto", Q5, 683.0, 114.0),
    recorded(Some(Codec::Zstd), "auto", Q0, 273.0, 54.0),
    recorded(Some(Codec::Zstd), "auto", Q5, 928.0, 149.0),
    recorded(Some(Codec::Zlib), "auto", Q0, 235.0, 40.0),
    recorded(Some(Codec::Zlib), "auto", Q5, 610.0, 82.0),
    recorded(Some(Codec::Zstd), "off", Q0, 208.0, 279.0),
    recorded(Some(Codec::Zstd), "off", Q5, 667.0, 2232.0),
    recorded(Some(Codec::Zlib), "off", Q0, 173.0, 260.0),
    recorded(Some(Codec::Zlib), "off", Q5, 674.0, 2337.0),
];

/// Numbers with two decimals, as distances and amounts are; 0.03 % of the first column's reach 30.
fn rows() -> RecordBatch {
    let value = |column: u64, row: u64| {
        let random = (row * 6 + column).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        match (column, row % 3_333) {
            (0, 7) => 31.5,
            (0, _) => (random % 2_900) as f64 / 100.0,
            _ => (random % 10_000) as f64 / 100.0,
        }
    };
    let columns = (0..).zip(COLUMNS).map(|(at, name)| {
        let values = (0..ROWS).map(|row| value(at, row));
        (name, Arc::new(Float64Array::from_iter_values(values)) as ArrayRef)
    });
    RecordBatch::try_from_iter(columns).unwrap()
}

/// A machine whose rates are a thousandth of these. Its device is open.
fn scaled(profile: &MachineProfile) -> MachineProfile {
    let scaled = |rates: PerCodec<f64>| PerCodec {
        zlib: rates.zlib * SCALE,
        snappy: rates.snappy * SCALE,
        lz4: rates.lz4 * SCALE,
        zstd: rates.zstd * SCALE,
    };
    MachineProfile {
        cpu_scan_bytes_per_s: profile.cpu_scan_bytes_per_s * SCALE,
        cpu_scan_all_bytes_per_s: profile.cpu_scan_all_bytes_per_s * SCALE,
        cpu_decoded_values_per_s: profile.cpu_decoded_values_per_s * SCALE,
        cpu_decompressed_bytes_per_s: scaled(profile.cpu_decompressed_bytes_per_s),
        cpu_aggregated_rows_per_s: profile.cpu_aggregated_rows_per_s * SCALE,
        push_bytes_per_s: profile.push_bytes_per_s * SCALE,
        mapped_bytes_per_s: profile.mapped_bytes_per_s * SCALE,
        mapped_loads_per_s: profile.mapped_loads_per_s * SCALE,
        commands_per_s: profile.commands_per_s * SCALE,
        fetched_pages_per_s: profile.fetched_pages_per_s * SCALE,
        disk_bytes_per_s: profile.disk_bytes_per_s * SCALE,
        device_bytes_per_s: profile.device_bytes_per_s * SCALE,
        device_decompressed_bytes_per_s: scaled(profile.device_decompressed_bytes_per_s),
        open_s: 0.0,
        ..profile.clone()
    }
}

/// A session of the machine whose calibration is in `cache`.
async fn open(cache: &Path, decompress: &str) -> SessionContext {
    let context = GPU_SETTINGS[0].context();
    set(&context, "grampus.cache_folder", &cache.display().to_string()).await;
    set(&context, "grampus.gpu_backing", "auto").await;
    set(&context, "grampus.gpu_decompress", decompress).await;
    context
}

fn write(path: &Path, rows: &RecordBatch, codec: Option<Codec>) {
    let options = WriterProperties {
        codec,
        chunk_size_bytes: 64 << 10,
        stripe_rows: 50_000,
        ..WriterProperties::default()
    };
    write_orc(path, rows.schema(), std::slice::from_ref(rows), options);
}

/// The estimates of a plan, for the GPU and the CPU, in ms.
fn estimates(plan: &str) -> (f64, f64) {
    let ms = |text: &str| {
        let number: String = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let unit = if text[number.len()..].starts_with(" s") {
            1e3
        } else {
            1.0
        };
        number.parse::<f64>().unwrap_or_else(|_| panic!("{text}: {plan}")) * unit
    };
    let of_gpu = [
        ("it is estimated to take ", " instead of "),
        ("the GPU is estimated to take ", ", the CPU "),
    ];
    let found = of_gpu.into_iter().find_map(|(gpu, cpu)| {
        let rest = plan.split_once(gpu)?.1;
        Some((ms(rest), ms(rest.split_once(cpu)?.1)))
    });
    found.unwrap_or_else(|| panic!("no estimates: {plan}"))
}

/// The profile that is supposed, and what the benchmarks of the I/O stack measured on two days
/// (queries/results/2026-11-21_edd846d_h200-1.json and 2026-11-23_b0d795d_h200-1.json).
fn profiles() -> [(&'static str, MachineProfile); 3] {
    let supposed = MachineProfile::default();
    let first = MachineProfile {
        push_bytes_per_s: 51.4e9,
        mapped_bytes_per_s: 51.4e9,
        mapped_loads_per_s: 7.8e9 / 128.0,
        commands_per_s: 4.3e6,
        disk_bytes_per_s: 2.6e9,
        device_bytes_per_s: 4639e9,
        ..supposed.clone()
    };
    let second = MachineProfile {
        push_bytes_per_s: 51.8e9,
        mapped_bytes_per_s: 51.2e9,
        mapped_loads_per_s: 7.9e9 / 128.0,
        commands_per_s: 5.5e6,
        disk_bytes_per_s: 2.36e9,
        device_bytes_per_s: 4513e9,
        ..supposed.clone()
    };
    [("supposed", supposed), ("2026-11-21", first), ("2026-11-23", second)]
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_rates_choose_the_faster_processor() {
    if !has_compiler("recorded_rates_choose_the_faster_processor") {
        return;
    }
    let (folder, rows) = (tempfile::tempdir().unwrap(), rows());
    for (machine, profile) in profiles() {
        let cache = folder.path().join(machine);
        Calibration::of(scaled(&profile)).save(&cache).unwrap();
        for case in &RECORDED {
            check(folder.path(), &cache, case, &rows).await;
        }
    }
}

/// Compares the choice and the estimates with what was measured.
async fn check(folder: &Path, cache: &Path, case: &Recorded, rows: &RecordBatch) {
    let what = format!("{cache:?}, {:?}, {}, {}", case.codec, case.decompress, case.sql);
    // The kernel is compiled by a query over a copy of the table.
    let [file, copy] = ["t", "copy"].map(|name| folder.join(format!("{name}-{:?}.orc", case.codec)));
    if !file.exists() {
        write(&file, rows, case.codec);
        fs::copy(&file, &copy).unwrap();
    }
    let context = open(cache, case.decompress).await;
    for (name, file) in [("copy", &copy), ("t", &file)] {
        register_orc(&context, name, &file.display().to_string()).await.unwrap();
    }
    set(&context, "grampus.device", "gpu").await;
    text(&context, &case.sql.replace("FROM t", "FROM copy")).await;
    let plan = text(&context, &format!("EXPLAIN {}", case.sql)).await;
    // The measured 59.7 ms are those of pages: whole columns took 213 ms.
    let is_pushed_whole = plan.contains(" a (resident");
    assert!(!(is_pushed_whole && case.codec.is_none()), "{what}: {plan}");
    set(&context, "grampus.device", "auto").await;
    let plan = text(&context, &format!("EXPLAIN {}", case.sql)).await;
    let (gpu, cpu) = estimates(&plan);
    println!(
        "{what}: GPU {gpu:.0} of {}, CPU {cpu:.0} of {}",
        case.gpu_ms, case.cpu_ms
    );
    assert_eq!(gpu < cpu, case.gpu_ms < case.cpu_ms, "{what}: {plan}");
    for (estimated, measured) in [(gpu, case.gpu_ms), (cpu, case.cpu_ms)] {
        let ratio = estimated / measured;
        assert!(
            (0.5..2.0).contains(&ratio),
            "{what}: {estimated} for {measured}: {plan}"
        );
    }
}
