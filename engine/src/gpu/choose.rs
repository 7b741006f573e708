//! CPU or GPU: what a query is estimated to take on each. Sizes come from the files' layout, rates from the machine
//! profile, and the share of rows that pass from the last run of the same filter or from a sample. The time of each
//! column on the GPU is part of its `ColumnChoice`.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use grampus_gpu_exec::input::{Input, Placement};
use grampus_gpu_exec::program::Program;
use grampus_gpu_exec::{Backing, ColumnChoice, MachineProfile};

use super::lower::Lowered;
use super::place::{ColumnBytes, Placed, column_bytes};
use crate::scan::Scan;
use crate::scan::survey;

/// Places of the table at which a filter is tried.
const SAMPLES: usize = 16;
/// Rows tried at each place.
const SAMPLE_ROWS: u64 = 2048;
/// Where columns have to be decoded, there are fewer places: each takes a row group.
const DECODED_SAMPLES: usize = 4;
/// Cost of fetching one scattered value from memory, in values scanned.
const SCATTERED: f64 = 12.0;

/// What a query is estimated to move.
#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// By column: its bytes, and the share of rows at which it is read.
    columns: Vec<(ColumnBytes, f64)>,
    /// Rows that are aggregated.
    passed: f64,
    /// Whether they are grouped.
    grouped: bool,
}

impl Work {
    pub(crate) fn of(program: &Program, input: &Input, selectivity: f64) -> Self {
        let predicate = first_conjunct_columns(program);
        let columns = (0..program.columns.len()).map(|column| {
            // The first conjunct's columns are read whole, the others where rows are left.
            let share = if program.conjuncts.is_empty() || predicate.contains(&column) {
                1.0
            } else {
                selectivity
            };
            (column_bytes(program, input, column), share)
        });
        let rows: u64 = input
            .stripes
            .iter()
            .flat_map(|stripe| &stripe.selected)
            .map(|range| range.end - range.start)
            .sum();
        let passes = if program.conjuncts.is_empty() { 1.0 } else { selectivity };
        Self {
            columns: columns.collect(),
            passed: rows as f64 * passes,
            grouped: !program.keys.is_empty(),
        }
    }

    /// On all cores of the CPU.
    pub(crate) fn cpu_time(&self, profile: &MachineProfile) -> Duration {
        let cores = profile.cores as f64;
        let scan = (profile.cpu_scan_bytes_per_s * cores).min(profile.cpu_scan_all_bytes_per_s);
        let mut seconds = 0.0;
        for (bytes, share) in &self.columns {
            let scattered = if *share < 0.1 { SCATTERED } else { 1.0 };
            seconds += bytes.direct as f64 * share * scattered / scan;
            // Row groups are decoded whole if any of their rows is wanted, which is nearly everywhere.
            let decoded = bytes.decoded as f64 * share.max(0.2);
            seconds += decoded / 8.0 / profile.decoded_values_per_s();
        }
        let each = if self.grouped { 1.0 } else { 0.2 };
        seconds += self.passed * each / (profile.cpu_aggregated_rows_per_s * cores);
        Duration::from_secs_f64(seconds)
    }
}

/// On the GPU, given how columns are read; without opening it.
pub(crate) fn gpu_time(profile: &MachineProfile, choices: &[ColumnChoice]) -> Duration {
    let columns = choices.iter().map(|choice| choice.estimated_time + choice.scan_time);
    least_gpu_time(profile) + columns.sum::<Duration>()
}

/// On the GPU once everything that is to stay there has come.
pub(crate) fn hot_time(profile: &MachineProfile, choices: &[ColumnChoice]) -> Duration {
    let columns = choices.iter().map(|choice| match choice.backing {
        Backing::Resident | Backing::Paged => choice.scan_time,
        Backing::Mapped | Backing::Queued => choice.estimated_time + choice.scan_time,
    });
    least_gpu_time(profile) + columns.sum::<Duration>()
}

/// On the GPU at best: everything there already.
pub(crate) fn least_gpu_time(profile: &MachineProfile) -> Duration {
    Duration::from_secs_f64(profile.query_s)
}

/// True if a column is read only where rows are left.
pub(crate) fn has_dependents(program: &Program) -> bool {
    let predicate = first_conjunct_columns(program);
    !program.conjuncts.is_empty() && (0..program.columns.len()).any(|column| !predicate.contains(&column))
}

/// Columns that are read at all rows.
fn first_conjunct_columns(program: &Program) -> Vec<usize> {
    use grampus_gpu_exec::program::Expr;
    fn collect(expr: &Expr, found: &mut Vec<usize>) {
        match expr {
            Expr::Column(at) => found.push(*at),
            Expr::Argument(_) | Expr::Null(_) => {}
            Expr::Not(value)
            | Expr::Negate(value)
            | Expr::IsNull(value)
            | Expr::Cast { value, .. }
            | Expr::Math { value, .. }
            | Expr::Extract { value, .. }
            | Expr::Truncate { value, .. } => collect(value, found),
            Expr::Binary { left, right, .. } => {
                collect(left, found);
                collect(right, found);
            }
            Expr::InList { value, list, .. } => {
                collect(value, found);
                list.iter().for_each(|item| collect(item, found));
            }
            Expr::Case { branches, otherwise } => {
                for (condition, value) in branches {
                    collect(condition, found);
                    collect(value, found);
                }
                if let Some(otherwise) = otherwise {
                    collect(otherwise, found);
                }
            }
            Expr::Coalesce(items) => items.iter().for_each(|item| collect(item, found)),
        }
    }
    let mut found = Vec::new();
    if let Some(first) = program.conjuncts.first() {
        collect(first, &mut found);
    }
    found
}

/// The share of rows that the scan's filter lets pass, by trying it at a few places. Filters above the scan count as
/// letting half of the rows pass.
///
/// # Errors
/// If the files cannot be read.
pub(crate) fn sampled_selectivity(lowered: &Lowered, placed: &Placed) -> Result<f64> {
    let Some(scan) = lowered.scan().map(|exec| exec.shared()) else {
        return Ok(1.0);
    };
    let above = lowered.program.conjuncts.len().saturating_sub(scan.conjuncts.len());
    let guess = 0.5f64.powi(above.min(8) as i32);
    if scan.conjuncts.is_empty() {
        return Ok(guess);
    }
    let (mut rows, mut passed) = (0, 0);
    for (file, stripe, range) in places(&placed.input) {
        let Some(layout) = placed.layouts.get(stripe) else {
            continue;
        };
        rows += range.end - range.start;
        passed += passing(&scan, file, layout, range)?;
    }
    // Half a row more than was found: what a sample misses is rare, not absent.
    Ok((passed as f64 + 0.5) / (rows as f64 + 1.0) * guess)
}

/// File, stripe (by position in the input) and rows of each sample.
fn places(input: &Input) -> Vec<(usize, usize, std::ops::Range<u64>)> {
    let is_raw = |placement: &Placement| !matches!(placement, Placement::Decoded { .. });
    let raw = input.stripes.iter().all(|stripe| stripe.columns.iter().all(is_raw));
    let wanted = if raw { SAMPLES } else { DECODED_SAMPLES };
    let ranges: Vec<_> = (input.stripes.iter().enumerate())
        .flat_map(|(at, stripe)| {
            stripe
                .selected
                .iter()
                .map(move |range| (stripe.file, at, range.clone()))
        })
        .collect();
    let total: u64 = ranges.iter().map(|(_, _, range)| range.end - range.start).sum();
    let mut samples: Vec<(usize, usize, std::ops::Range<u64>)> = Vec::new();
    let mut before = 0;
    let mut next = 0;
    for (file, stripe, range) in ranges {
        let length = range.end - range.start;
        while next < wanted as u64 && total * next / (wanted as u64) < before + length {
            let start = range.start + (total * next / (wanted as u64)).saturating_sub(before);
            let end = (start + SAMPLE_ROWS).min(range.end);
            // Small tables: samples do not overlap.
            let start = match samples.last() {
                Some((_, last, rows)) if *last == stripe => start.max(rows.end),
                _ => start,
            };
            if start < end {
                samples.push((file, stripe, start..end));
            }
            next += 1;
        }
        before += length;
    }
    samples
}

/// How many of the rows pass the scan's filter.
fn passing(
    scan: &Scan,
    file: usize,
    layout: &Arc<grampus_orc_layout::stripe::StripeLayout>,
    rows: std::ops::Range<u64>,
) -> Result<u64> {
    let count = (rows.end - rows.start) as usize;
    let mut pass = vec![true; count];
    for &at in &scan.order {
        let conjunct = &scan.conjuncts[at];
        let mut arrays = Vec::with_capacity(conjunct.columns.len());
        for &column in &conjunct.columns {
            arrays.push(survey::read(scan, file, layout, column, rows.clone())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&conjunct.schema), arrays, &options)?;
        let mask = conjunct.compact.evaluate(&batch)?.into_array(count)?;
        let Some(mask) = mask.as_boolean_opt() else {
            return Ok(0);
        };
        for (row, pass) in pass.iter_mut().enumerate() {
            *pass &= mask.is_valid(row) && mask.value(row);
        }
    }
    Ok(pass.iter().filter(|pass| **pass).count() as u64)
}

/// A time for people.
pub(crate) fn shown(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        _ if ms < 10.0 => format!("{ms:.1} ms"),
        _ if ms < 10_000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.1} s", ms / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use grampus_gpu_exec::input::{Decode, Decoded, Segment, Stripe};
    use grampus_gpu_exec::program::{Aggregate, BinaryOp, Column, Expr, Function, Type};

    use super::*;

    #[derive(Debug)]
    struct NoDecoder;

    impl Decode for NoDecoder {
        fn decode(
            &self,
            _: usize,
            _: usize,
            _: std::ops::Range<u64>,
        ) -> std::result::Result<Decoded, Box<dyn std::error::Error + Send + Sync>> {
            Err("nothing is decoded here".into())
        }
    }

    /// 200 million rows of two doubles in 20 stripes.
    fn input() -> Input {
        let rows = 10_000_000;
        let direct = Placement::Direct(vec![Segment {
            first_row: 0,
            rows,
            offset: 3,
        }]);
        let stripe = |index| Stripe {
            file: 0,
            index,
            rows,
            group_rows: rows,
            selected: std::iter::once(0..rows).collect(),
            columns: vec![direct.clone(), direct.clone()],
        };
        Input {
            files: Vec::new(),
            stripes: (0..20).map(stripe).collect(),
            column_ids: vec![1, 2],
            decoder: Arc::new(NoDecoder),
        }
    }

    fn program() -> Program {
        let column = |name: &str| Column {
            name: name.to_owned(),
            ty: Type::Float64,
            nullable: false,
        };
        Program {
            columns: vec![column("a"), column("b")],
            arguments: vec![Type::Float64],
            conjuncts: vec![Expr::Binary {
                op: BinaryOp::GtEq,
                left: Box::new(Expr::Column(0)),
                right: Box::new(Expr::Argument(0)),
            }],
            keys: Vec::new(),
            aggregates: vec![Aggregate {
                function: Function::Sum,
                argument: Some(Expr::Column(1)),
                filter: None,
            }],
        }
    }

    /// Of 200 million rows of doubles.
    const COLUMN_BYTES: f64 = 1.6e9;

    fn choice(backing: Backing, moving_s: f64, share: f64) -> ColumnChoice {
        let device_bytes_per_s = MachineProfile::default().device_bytes_per_s;
        ColumnChoice {
            backing,
            granularity_bytes: 32,
            estimated_bytes: 0,
            estimated_time: Duration::from_secs_f64(moving_s),
            scan_time: Duration::from_secs_f64(COLUMN_BYTES * share / device_bytes_per_s),
            resident_bytes: 0,
            reason: String::new(),
        }
    }

    /// Measured on the machine of the default profile: over PCIe the GPU loses to 16 cores on Q0, with the column in
    /// its memory it wins.
    #[test]
    fn where_the_bytes_are_decides() {
        let profile = MachineProfile::of_cores(16);
        let work = Work::of(&program(), &input(), 0.0003);
        let cpu = work.cpu_time(&profile);
        assert!(
            (Duration::from_millis(10)..Duration::from_millis(30)).contains(&cpu),
            "{cpu:?}"
        );
        let predicate = |backing, moving_s| choice(backing, moving_s, 1.0);
        let dependent = |backing, moving_s| choice(backing, moving_s, 0.0003);
        let by_loads = dependent(Backing::Mapped, 2e6 / 32.0 / profile.mapped_loads_per_s);
        let moved = [
            predicate(Backing::Mapped, COLUMN_BYTES / profile.mapped_bytes_per_s),
            by_loads.clone(),
        ];
        assert!(gpu_time(&profile, &moved) > cpu);
        let there = [predicate(Backing::Resident, 0.0), by_loads.clone()];
        assert!(gpu_time(&profile, &there) < cpu);
        // Pages are loaded as they are missed.
        let by_page = [
            predicate(Backing::Resident, 0.0),
            dependent(Backing::Paged, 60_000.0 / profile.fetched_pages_per_s),
        ];
        let paged = gpu_time(&profile, &by_page);
        assert!(gpu_time(&profile, &there) < paged && paged < cpu, "{paged:?}");
        assert!(hot_time(&profile, &by_page) < paged);
        // Loaded once, and then resident.
        let loaded = [
            predicate(Backing::Resident, COLUMN_BYTES / profile.push_bytes_per_s),
            by_loads,
        ];
        assert!(gpu_time(&profile, &loaded) > cpu);
        assert_eq!(hot_time(&profile, &loaded), gpu_time(&profile, &there));
    }

    #[test]
    fn dependents_are_columns_that_the_first_conjunct_does_not_read() {
        let mut program = program();
        assert!(has_dependents(&program));
        program.aggregates[0].argument = Some(Expr::Column(0));
        program.columns.truncate(1);
        assert!(!has_dependents(&program));
        program.conjuncts.clear();
        assert!(!has_dependents(&program));
    }

    #[test]
    fn samples_lie_apart_and_inside() {
        let places = places(&input());
        assert_eq!(places.len(), SAMPLES);
        for pair in places.windows(2) {
            assert!((pair[0].1, pair[0].2.end) <= (pair[1].1, pair[1].2.start), "{pair:?}");
        }
        let mut small = input();
        small.stripes.truncate(1);
        small.stripes[0].selected = vec![5..25, 30..31];
        let places = super::places(&small);
        let rows: u64 = places.iter().map(|(_, _, rows)| rows.end - rows.start).sum();
        assert!(rows <= 21, "{places:?}");
        assert!(
            places
                .iter()
                .all(|(_, _, rows)| (5..25).contains(&rows.start) || rows.start == 30)
        );
    }
}
