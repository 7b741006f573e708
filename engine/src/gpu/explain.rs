//! [`Explain`]: the text that EXPLAIN shows for the GPU operator.
//!
//! The text has the device, the keys and aggregates, the columns with backing and granularity, the shape of the kernel,
//! the estimated bytes, and the reason for the GPU. EXPLAIN VERBOSE adds the kernel's source.

use std::fmt;

use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use grampus_gpu_exec::{Backing, ColumnChoice};

use super::gpu_work::GpuWork;

/// The parts of the GPU operator that EXPLAIN shows.
pub(super) struct Explain<'a> {
    pub(super) work: &'a GpuWork,
    /// The CPU's plan for the same aggregation.
    pub(super) cpu: &'a dyn ExecutionPlan,
    /// No final aggregation follows.
    pub(super) is_whole: bool,
    /// The reason why the CPU answered, after a fallback.
    pub(super) fallback: Option<&'a str>,
}

impl Explain<'_> {
    /// Writes the operator's lines.
    pub(super) fn write(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = self.work;
        let preview = work.preview();
        let columns: Vec<String> = (work.lowered.program.columns.iter().zip(&preview.columns))
            .map(|(column, choice)| format!("{} ({})", column.name, column_words(choice)))
            .collect();
        let columns = columns.join(", ");
        let moved: u64 = preview.columns.iter().map(|choice| choice.estimated_bytes).sum();
        let (keys, aggregates) = keys_and_aggregates(self.cpu);
        let device = work.planned_device.name();
        // As AggregateExec names its modes.
        let mode = if self.is_whole { "Single" } else { "Partial" };
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                let input = &work.gpu_input.input;
                let (files, stripes) = (input.files.len(), input.stripes.len());
                write!(
                    f,
                    "GpuAggregateExec: mode={mode}, device={device}, gby=[{keys}], aggr=[{aggregates}]"
                )?;
                write!(f, ", files={files}, stripes={stripes}, columns=[{columns}]")?;
                if let Some(words) = work.decompression.words() {
                    write!(f, ", decompression=[{words}]")?;
                }
                let filter = self.filter();
                if !filter.is_empty() {
                    write!(f, ", filter=[{}]", filter.join(", "))?;
                }
                write!(f, ", kernel=[{}]", preview.kernel_shape)?;
                write!(f, ", estimated={}, because {}", bytes(moved), work.reason)?;
                if let Some(reason) = self.fallback {
                    write!(f, ", answered by the CPU: {reason}")?;
                }
                if matches!(format, DisplayFormatType::Verbose) {
                    write!(f, "\n{}", work.kernel_source())?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "mode={mode}")?;
                writeln!(f, "device={device}")?;
                writeln!(f, "gby={keys}")?;
                writeln!(f, "aggr={aggregates}")?;
                writeln!(f, "columns={columns}")?;
                writeln!(f, "estimated={}", bytes(moved))
            }
        }
    }

    /// The scan's conjuncts, in the order of evaluation.
    fn filter(&self) -> Vec<String> {
        let Some(scan) = self.work.lowered.scan().map(|exec| exec.shared()) else {
            return Vec::new();
        };
        (scan.order.iter())
            .map(|&at| fmt_sql(scan.conjuncts[at].expr.as_ref()).to_string())
            .collect()
    }
}

/// Backing, granularity, estimated and resident bytes of a column.
fn column_words(choice: &ColumnChoice) -> String {
    let backing = match choice.backing {
        Backing::Resident => "resident",
        Backing::Paged => "paged",
        Backing::Mapped => "mapped",
        Backing::Queued => "queued",
    };
    let mut words = format!(
        "{backing}, {} at a time, {}",
        bytes(choice.granularity_bytes),
        bytes(choice.estimated_bytes)
    );
    if choice.resident_bytes > 0 {
        words.push_str(&format!(", {} there", bytes(choice.resident_bytes)));
    }
    if !choice.reason.is_empty() {
        words.push_str(&format!(": {}", choice.reason));
    }
    words
}

/// Keys and aggregates as the CPU's plan names them.
fn keys_and_aggregates(cpu: &dyn ExecutionPlan) -> (String, String) {
    let Some(aggregation) = cpu.downcast_ref::<AggregateExec>() else {
        return match cpu.children().first() {
            Some(child) => keys_and_aggregates(child.as_ref()),
            None => Default::default(),
        };
    };
    let keys: Vec<&str> = aggregation
        .group_expr()
        .expr()
        .iter()
        .map(|(_, name)| name.as_str())
        .collect();
    let aggregates: Vec<&str> = aggregation
        .aggr_expr()
        .iter()
        .map(|aggregate| aggregate.name())
        .collect();
    (keys.join(", "), aggregates.join(", "))
}

/// A number of bytes with a binary unit.
fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ if value < 10.0 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_binary_units() {
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1536), bytes(20 << 20)],
            ["0 B", "1023 B", "1.5 KiB", "20 MiB"]
        );
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
    }
}
