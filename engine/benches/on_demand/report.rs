//! `Report`: the measurements as a table and as JSON, and the targets that they meet.

use serde::Serialize;

/// One query on one table with one number of threads.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Measurement {
    pub(crate) table: &'static str,
    pub(crate) threads: usize,
    pub(crate) query: &'static str,
    /// Median seconds of the on-demand scan.
    pub(crate) on_demand_s: f64,
    /// Median seconds of the on-demand scan with a cached plan.
    pub(crate) again_s: f64,
    /// Median seconds of the whole-column reader, if it was timed.
    pub(crate) whole_column_s: Option<f64>,
    /// Median seconds of the fastest plain loop over the predicate column, if the loop is a limit.
    pub(crate) plain_loop_s: Option<f64>,
    pub(crate) needed_bytes: u64,
    pub(crate) moved_bytes: u64,
    pub(crate) read_requests: u64,
    pub(crate) amplification: f64,
    /// Bytes that the whole-column reader moved.
    pub(crate) whole_column_bytes: u64,
    pub(crate) rows_passed: u64,
}

/// A target, and the measured value.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Aim {
    pub(crate) what: String,
    pub(crate) measured: f64,
    pub(crate) aim: f64,
    /// Whether a higher value is better.
    pub(crate) at_least: bool,
}

impl Aim {
    pub(crate) fn reached(&self) -> bool {
        if self.at_least {
            self.measured >= self.aim
        } else {
            self.measured <= self.aim
        }
    }
}

/// All measurements of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) rows: u64,
    pub(crate) runs: usize,
    pub(crate) local_io: String,
    pub(crate) table_bytes: Vec<(&'static str, u64)>,
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) aims: Vec<Aim>,
}

impl Report {
    /// Prints the table and the aims.
    pub(crate) fn print(&self) {
        println!(
            "{:<14} {:>3} {:<6} {:>10} {:>10} {:>10} {:>7} {:>10} {:>6} {:>10} {:>10} {:>6} {:>9} {:>10}",
            "table",
            "thr",
            "query",
            "on demand",
            "again",
            "whole col",
            "faster",
            "plain loop",
            "of it",
            "needed",
            "moved",
            "ampl",
            "reads",
            "whole col"
        );
        for m in &self.measurements {
            let (plain, share) = match m.plain_loop_s {
                Some(plain) => (
                    format!("{:.2} ms", plain * 1e3),
                    format!("{:.0} %", 100.0 * plain / m.on_demand_s),
                ),
                None => (String::new(), String::new()),
            };
            let (whole, faster) = match m.whole_column_s {
                Some(whole) => (
                    format!("{:.2} ms", whole * 1e3),
                    format!("{:.1} x", whole / m.on_demand_s),
                ),
                None => (String::new(), String::new()),
            };
            println!(
                "{:<14} {:>3} {:<6} {:>7.2} ms {:>7.2} ms {:>10} {:>7} {:>10} {:>6} {:>10} {:>10} {:>6.3} {:>9} {:>10}",
                m.table,
                m.threads,
                m.query,
                m.on_demand_s * 1e3,
                m.again_s * 1e3,
                whole,
                faster,
                plain,
                share,
                bytes(m.needed_bytes),
                bytes(m.moved_bytes),
                m.amplification,
                m.read_requests,
                bytes(m.whole_column_bytes),
            );
        }
        println!();
        for aim in &self.aims {
            let word = if aim.reached() { "reached" } else { "MISSED " };
            let bound = if aim.at_least { "at least" } else { "at most" };
            println!("{word}  {:<64} {:>8.3}  ({bound} {})", aim.what, aim.measured, aim.aim);
        }
    }

    /// Derives the aims from the measurements.
    pub(crate) fn judge(&mut self) {
        let mut aims = Vec::new();
        let mut threads: Vec<_> = self.measurements.iter().map(|m| m.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        for threads in threads {
            let find = |table: &str, query: &str| {
                self.measurements
                    .iter()
                    .find(|m| m.table == table && m.threads == threads && m.query == query)
            };
            let mut add = |what: &str, measured: Option<f64>, aim, at_least| {
                let what = format!("{what}, {threads} thread{}", if threads == 1 { "" } else { "s" });
                aims.extend(measured.map(|measured| Aim {
                    what,
                    measured,
                    aim,
                    at_least,
                }));
            };
            let faster = |m: &Measurement| Some(m.whole_column_s? / m.on_demand_s);
            let (q0, q5) = (find("uncompressed", "q0_30"), find("uncompressed", "q5_30"));
            let of_limit = q0.and_then(|q0| Some(q0.plain_loop_s? / q0.on_demand_s));
            add(
                "uncompressed: Q0 >= 30, share of the plain loop's speed",
                of_limit,
                0.4,
                true,
            );
            let ratio = q0.zip(q5).map(|(q0, q5)| q5.on_demand_s / q0.on_demand_s);
            add("uncompressed: Q5 >= 30, times Q0's time", ratio, 1.15, false);
            let ratio = q0.zip(q5).map(|(q0, q5)| q5.again_s / q0.again_s);
            add("uncompressed: Q5 >= 30 again, times Q0's time", ratio, 1.15, false);
            add(
                "uncompressed: Q5 >= 30, times faster than whole columns",
                q5.and_then(faster),
                10.0,
                true,
            );
            let amplification = |m: &Measurement| m.amplification;
            add(
                "uncompressed: Q5 >= 30, amplification",
                q5.map(amplification),
                1.05,
                false,
            );
            let at_20 = find("uncompressed", "q5_20").map(amplification);
            add("uncompressed: Q5 >= 20, amplification", at_20, 1.35, false);
            add(
                "snappy: Q5 >= 30, times faster than whole columns",
                find("snappy", "q5_30").and_then(faster),
                3.0,
                true,
            );
            for query in ["t1", "t2", "t3", "t4"] {
                let what = format!("snappy: {query}, times faster than whole columns");
                add(&what, find("snappy", query).and_then(faster), 1.0, true);
            }
        }
        self.aims = aims;
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} B"),
        10_000..10_000_000 => format!("{:.1} kB", count as f64 / 1e3),
        _ => format!("{:.1} MB", count as f64 / 1e6),
    }
}
