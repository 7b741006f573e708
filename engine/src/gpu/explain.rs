//! What EXPLAIN says of a [`GpuAggregateExec`]: device, columns with backing and granularity, estimated bytes, and why the GPU; VERBOSE
//! adds the kernel.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use grampus_gpu_exec::gpu::{Backing, ColumnChoice};

use super::gpu_aggregate_exec::GpuAggregateExec;

/// Writes the operator's line, or lines.
pub(super) fn show(exec: &GpuAggregateExec, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let work = exec.work();
    let columns: Vec<String> = (work.lowered.program.columns.iter().zip(work.choices()))
        .map(|(column, choice)| format!("{} ({})", column.name, column_words(choice)))
        .collect();
    let moved: u64 = work.choices().iter().map(|choice| choice.estimated_bytes).sum();
    let (stripes, files) = (work.placed.input.stripes.len(), work.placed.input.files.len());
    let (keys, aggregates) = what(exec.cpu_plan().as_ref());
    match format {
        DisplayFormatType::Default | DisplayFormatType::Verbose => {
            write!(
                f,
                "GpuAggregateExec: device={}, gby=[{keys}], aggr=[{aggregates}]",
                work.device.name()
            )?;
            write!(
                f,
                ", files={files}, stripes={stripes}, columns=[{}]",
                columns.join(", ")
            )?;
            let filter = filter(exec);
            if !filter.is_empty() {
                write!(f, ", filter=[{}]", filter.join(", "))?;
            }
            write!(f, ", estimated={}, because {}", bytes(moved), work.why)?;
            if let Some(reason) = exec.fell_back() {
                write!(f, ", answered by the CPU: {reason}")?;
            }
            if matches!(format, DisplayFormatType::Verbose) {
                match work.device.kernel_text(&work.request(&Arc::default())) {
                    Ok(text) => write!(f, "\n{text}")?,
                    Err(error) => write!(f, "\n{error}")?,
                }
            }
            Ok(())
        }
        DisplayFormatType::TreeRender => {
            writeln!(f, "device={}", work.device.name())?;
            writeln!(f, "gby={keys}")?;
            writeln!(f, "aggr={aggregates}")?;
            writeln!(f, "columns={}", columns.join(", "))?;
            writeln!(f, "estimated={}", bytes(moved))
        }
    }
}

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

/// Keys and aggregates in the words of the CPU's plan.
fn what(cpu: &dyn ExecutionPlan) -> (String, String) {
    let Some(aggregation) = cpu.downcast_ref::<AggregateExec>() else {
        return match cpu.children().first() {
            Some(child) => what(child.as_ref()),
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

/// The scan's conjuncts in the order in which they are asked.
fn filter(exec: &GpuAggregateExec) -> Vec<String> {
    let Some(scan) = exec.work().lowered.scan().map(|exec| exec.shared()) else {
        return Vec::new();
    };
    (scan.order.iter())
        .map(|&at| fmt_sql(scan.conjuncts[at].expr.as_ref()).to_string())
        .collect()
}

/// A number of bytes for people.
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
    fn bytes_are_for_people() {
        assert_eq!(
            [bytes(0), bytes(1023), bytes(1536), bytes(20 << 20)],
            ["0 B", "1023 B", "1.5 KiB", "20 MiB"]
        );
        assert_eq!(bytes(u64::MAX), "16777216 TiB");
    }
}
