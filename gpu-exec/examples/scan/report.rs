//! `Report`: the measurements, as a table and as JSON.

use std::fmt;

use grampus_gpu_exec::output::Cost;
use serde_json::{Value, json};

/// One query, measured in one way.
pub(crate) struct Line {
    pub(crate) query: String,
    pub(crate) way: String,
    /// Median and best of the whole call, and the median from the first launch or copy on.
    pub(crate) ms: f64,
    pub(crate) best_ms: f64,
    pub(crate) scan_ms: f64,
    /// From the first kernel's start to the last one's end.
    pub(crate) kernel_ms: f64,
    /// The first run's milliseconds: total, registering, compiling.
    pub(crate) first: Option<(f64, f64, f64)>,
    /// Ratio to another figure, and that figure's name.
    pub(crate) against: Option<(f64, String)>,
    /// Cost of the last run.
    pub(crate) cost: Cost,
}

/// All measurements.
pub(crate) struct Report {
    device: String,
    rows: u64,
    files: usize,
    runs: usize,
    plain: Vec<(String, f64, u64)>,
    lines: Vec<Line>,
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Report {
    pub(crate) fn new(device: String, rows: u64, files: usize, runs: usize) -> Self {
        Self {
            device,
            rows,
            files,
            runs,
            plain: Vec::new(),
            lines: Vec::new(),
        }
    }

    pub(crate) fn plain(&mut self, name: &str, ms: f64, bytes: u64) {
        eprintln!("{name}: {ms:.3} ms");
        self.plain.push((name.to_owned(), ms, bytes));
    }

    pub(crate) fn add(&mut self, line: Line) {
        eprintln!("{}, {}: {:.3} ms", line.query, line.way, line.ms);
        self.lines.push(line);
    }

    pub(crate) fn json(&self) -> serde_json::Result<String> {
        let plain = |(name, ms, bytes): &(String, f64, u64)| {
            let gb_per_s = *bytes as f64 / ms / 1e6;
            json!({ "name": name, "ms": ms, "bytes": bytes, "gb_per_s": gb_per_s })
        };
        let line = |line: &Line| -> Value {
            json!({
                "query": line.query, "way": line.way, "ms": line.ms, "best_ms": line.best_ms, "scan_ms": line.scan_ms,
                "kernel_ms": line.kernel_ms,
                "first_run_ms": line.first.map(|f| f.0), "register_ms": line.first.map(|f| f.1),
                "compile_ms": line.first.map(|f| f.2),
                "ratio": line.against.as_ref().map(|a| a.0), "against": line.against.as_ref().map(|a| &a.1),
                "pushed_bytes": line.cost.pushed_bytes, "mapped_bytes": line.cost.mapped_bytes,
                "command_bytes": line.cost.command_bytes, "commands": line.cost.commands,
                "page_bytes": line.cost.page_bytes, "pages": line.cost.pages, "passes": line.cost.passes,
                "gather_ms": line.cost.gather.as_secs_f64() * 1e3,
                "resident_bytes": line.cost.resident_bytes, "needed_bytes": line.cost.needed_bytes,
                "amplification": amplification(&line.cost), "rows": line.cost.rows, "passed": line.cost.passed,
            })
        };
        serde_json::to_string_pretty(&json!({
            "device": self.device, "rows": self.rows, "files": self.files, "runs": self.runs,
            "plain": self.plain.iter().map(plain).collect::<Vec<_>>(),
            "queries": self.lines.iter().map(line).collect::<Vec<_>>(),
        }))
    }
}

fn amplification(cost: &Cost) -> f64 {
    cost.moved_bytes() as f64 / cost.needed_bytes.max(1) as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} rows, {} files, medians of {}",
            self.device, self.rows, self.files, self.runs
        )?;
        for (name, ms, bytes) in &self.plain {
            writeln!(f, "{name:42} {ms:10.3} ms {:8.1} GB/s", *bytes as f64 / ms / 1e6)?;
        }
        writeln!(
            f,
            "{:10} {:30} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>8} {:>9} {:>8} {:>6} {:>9}  ratio",
            "query",
            "way",
            "ms",
            "best ms",
            "scan ms",
            "kernel ms",
            "first ms",
            "compile",
            "moved MB",
            "/ needed",
            "commands",
            "pages",
            "passes",
            "gather ms"
        )?;
        for line in &self.lines {
            let (first, compile) = line.first.map_or((f64::NAN, f64::NAN), |f| (f.0, f.2));
            write!(
                f,
                "{:10} {:30} {:10.3} {:10.3} {:10.3} {:10.3} {first:9.1} {compile:9.1} \
                 {:9.1} {:8.3} {:9} {:8} {:6} {:9.1}",
                line.query,
                line.way,
                line.ms,
                line.best_ms,
                line.scan_ms,
                line.kernel_ms,
                line.cost.moved_bytes() as f64 / 1e6,
                amplification(&line.cost),
                line.cost.commands,
                line.cost.pages,
                line.cost.passes,
                line.cost.gather.as_secs_f64() * 1e3
            )?;
            match &line.against {
                Some((ratio, what)) => writeln!(f, "  {ratio:.3} x {what}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}
