//! The choice between CPU and GPU: the estimated time of a query on each.
//!
//! Sizes come from the layout of the files, and rates from the machine profile. The share of rows that pass comes from
//! the last run of the same filter or from a sample. The time of each column on the GPU is part of its `ColumnChoice`.

use std::time::Duration;

use grampus_gpu_exec::input::{Input, Placement};
use grampus_gpu_exec::program::{Program, Type};
use grampus_gpu_exec::{Backing, ColumnChoice, MachineProfile, PerCodec};

/// Cost of fetching one scattered value from memory, in values scanned.
const SCATTERED_VALUE_COST: f64 = 12.0;

/// The estimated bytes and rows of a query, from which the CPU's time follows.
#[derive(Debug, Clone)]
pub(crate) struct Workload {
    columns: Vec<ColumnWork>,
    /// Rows that are aggregated.
    passed: f64,
    /// True if the query has group keys.
    grouped: bool,
}

impl Workload {
    pub(crate) fn of(program: &Program, input: &Input, selectivity: f64) -> Self {
        let predicate = first_conjunct_columns(program);
        let columns = (0..program.columns.len()).map(|column| {
            // The first conjunct's columns are read whole, the others for the rows that are left.
            let share = if program.conjuncts.is_empty() || predicate.contains(&column) {
                1.0
            } else {
                selectivity
            };
            ColumnWork::of(program, input, column, share)
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

    /// Estimated time on all cores of the CPU.
    pub(crate) fn cpu_time(&self, profile: &MachineProfile) -> Duration {
        let cores = profile.cores as f64;
        let scan = (profile.cpu_scan_bytes_per_s * cores).min(profile.cpu_scan_all_bytes_per_s);
        let mut seconds = 0.0;
        for column in &self.columns {
            let share = column.share;
            let scattered = if share < 0.1 { SCATTERED_VALUE_COST } else { 1.0 };
            seconds += column.direct_bytes * share * scattered / scan;
            // Row groups are decoded whole if any of their rows is wanted, which is nearly everywhere.
            seconds += column.decoded_values * share.max(0.2) / profile.decoded_values_per_s();
            let decompressed = column.decompressed_bytes.values().into_iter();
            let rates = profile.cpu_decompressed_bytes_per_s.values();
            let core_seconds: f64 = decompressed.zip(rates).map(|(bytes, rate)| bytes / rate).sum();
            seconds += core_seconds / cores;
        }
        let each = if self.grouped { 1.0 } else { 0.2 };
        seconds += self.passed * each / (profile.cpu_aggregated_rows_per_s * cores);
        Duration::from_secs_f64(seconds)
    }
}

/// What the CPU does for one column at the selected rows.
#[derive(Debug, Clone, Default)]
struct ColumnWork {
    /// Share of the rows for which the column is read.
    share: f64,
    /// Bytes of raw values, in the file or in decompressed chunks.
    direct_bytes: f64,
    /// Values that are decoded.
    decoded_values: f64,
    /// Bytes that come out of the chunks with a row that is read.
    decompressed_bytes: PerCodec<f64>,
}

impl ColumnWork {
    fn of(program: &Program, input: &Input, column: usize, share: f64) -> Self {
        let mut work = Self {
            share,
            ..Self::default()
        };
        let ty = program.columns[column].ty;
        let width = f64::from(ty.width());
        for stripe in &input.stripes {
            let rows: u64 = stripe.selected.iter().map(|range| range.end - range.start).sum();
            let rows = rows as f64;
            match (&stripe.columns[column], stripe.compression) {
                (Placement::Constant(_), _) => {}
                (Placement::Direct(_), _) => work.direct_bytes += rows * width,
                (Placement::Decoded { .. }, None) => work.decoded_values += rows * width / 8.0,
                (Placement::Decoded { .. }, Some(compression)) => {
                    let chunk_rows = compression.block_size_bytes.max(1) as f64 / width;
                    let chunks = 1.0 - (1.0 - share.clamp(0.0, 1.0)).powf(chunk_rows);
                    *work.decompressed_bytes.get_mut(compression.codec) += rows * width * chunks;
                    match ty {
                        // Nothing is encoded but the places of NULLs.
                        Type::Float32 | Type::Float64 => work.direct_bytes += rows * width,
                        _ => work.decoded_values += rows * width / 8.0,
                    }
                }
            }
        }
        work
    }
}

/// Estimated time to compile a kernel (docs/experiments/0009-compilation.md).
pub(crate) const COMPILE_TIME: Duration = Duration::from_millis(150);

/// Estimated time on an open GPU with these backings and a compiled kernel.
pub(crate) fn gpu_time(profile: &MachineProfile, choices: &[ColumnChoice]) -> Duration {
    let columns = choices.iter().map(|choice| choice.estimated_time + choice.scan_time);
    least_gpu_time(profile) + columns.sum::<Duration>()
}

/// Estimated time on the GPU after the first run, when every column that stays there is resident.
pub(crate) fn hot_time(profile: &MachineProfile, choices: &[ColumnChoice]) -> Duration {
    let columns = choices.iter().map(|choice| match choice.backing {
        Backing::Resident | Backing::Paged => choice.scan_time,
        Backing::Mapped | Backing::Queued => choice.estimated_time + choice.scan_time,
    });
    least_gpu_time(profile) + columns.sum::<Duration>()
}

/// Whether everything that the query needs is on the device.
pub(crate) fn is_resident(choices: &[ColumnChoice]) -> bool {
    choices.iter().all(|choice| choice.estimated_time.is_zero())
}

/// The shortest time on the GPU: every column is resident already.
pub(crate) fn least_gpu_time(profile: &MachineProfile) -> Duration {
    Duration::from_secs_f64(profile.query_s)
}

/// True if a column is read only for the rows that the first conjunct lets pass.
pub(crate) fn has_dependents(program: &Program) -> bool {
    let predicate = first_conjunct_columns(program);
    !program.conjuncts.is_empty() && (0..program.columns.len()).any(|column| !predicate.contains(&column))
}

/// The first conjunct's columns, which are read whole.
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
            | Expr::TryCast { value, .. }
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
pub(super) mod tests {
    use std::sync::Arc;

    use grampus_gpu_exec::input::{Decode, Decoded, Placement, Segment, Stripe};
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
    pub(in crate::gpu) fn input() -> Input {
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
            compression: None,
            selected: std::iter::once(0..rows).collect(),
            columns: vec![direct.clone(), direct.clone()],
        };
        Input {
            files: Vec::new(),
            stripes: (0..20).map(stripe).collect(),
            column_ids: vec![1, 2],
            dictionary: 0,
            value_ranges: Vec::new(),
            value_bounds: Vec::new(),
            decoder: Arc::new(NoDecoder),
        }
    }

    fn program() -> Program {
        let column = |name: &str| Column::new(name, Type::Float64, false);
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
    fn resident_columns_make_the_gpu_faster() {
        let profile = MachineProfile::of_cores(16);
        let workload = Workload::of(&program(), &input(), 0.0003);
        let cpu = workload.cpu_time(&profile);
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
}
