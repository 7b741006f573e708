//! Prefetch against synchronous fetch, over storages of several latencies, and the time of each step that a warp takes.
//! Computing takes as long as the I/O.

use std::sync::Arc;
use std::time::Duration;

use grampus_cuda::Args;
use grampus_driver::storage::{FaultAction, FaultRule, FaultyStorage, MappedFile, Storage};

use crate::error::BenchError;
use crate::report::Report;
use crate::setup::{Bed, Setup, Timed, wrong};
use crate::small_reads::{WARPS_PER_BLOCK, options};
use crate::step_clocks::Phase;

/// The work of a launch's warps.
#[derive(Debug, Clone, Copy)]
struct Steps {
    /// Blocks that compute.
    blocks: u32,
    /// Steps of each warp.
    steps: u32,
    /// Lines of 4 KiB in each step: one read whole, or a value from each.
    lines: u32,
    /// Number of steps by which lines are requested ahead; 0: not ahead.
    ahead: u32,
    /// Additional warps that serve.
    servers: u32,
    /// Computing time in each step.
    compute_ns: u64,
}

impl Steps {
    fn kernel(self) -> &'static str {
        if self.lines == 1 { "steps_line" } else { "steps_values" }
    }

    fn all_blocks(self) -> u32 {
        self.blocks + self.servers.div_ceil(WARPS_PER_BLOCK as u32)
    }

    /// Microseconds a step; compares the sum with that of the positions.
    fn time(self, setup: &Setup, bed: &Bed, expected: u64) -> Result<f64, BenchError> {
        let run = setup.steps(bed, self.kernel(), self.all_blocks(), self.servers, |args| {
            self.arguments(args)
        })?;
        self.checked(&run, expected)
    }

    fn checked(self, run: &Timed, expected: u64) -> Result<f64, BenchError> {
        if run.sum != expected {
            return Err(wrong("steps", format!("{self:?} read something else")));
        }
        Ok(run.ms * 1e3 / f64::from(self.steps))
    }

    fn arguments(self, args: Args) -> Args {
        args.with(self.steps)
            .with(self.lines)
            .with(self.ahead)
            .with(self.compute_ns)
    }

    fn expected(self, setup: &Setup) -> Result<u64, BenchError> {
        let kernel = if self.lines == 1 {
            "expected_line"
        } else {
            "expected_values"
        };
        let args = || Args::new().with(setup.rows()).with(self.steps).with(self.lines);
        Ok(setup.time(kernel, self.blocks, args, 1)?.sum)
    }
}

/// Number of queues, and of serving warps: one for each queue.
const QUEUES: u32 = 32;
/// Runs of each variant, interleaved with the others; the median counts.
const TURNS: usize = 3;

pub(crate) fn prefetch(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let path = setup.file()?;
    let cached = || MappedFile::open(&path);
    // Blocks of 8 warps, and lines a step. The disk's load stays below its most reads a second: above, prefetching
    // could gain nothing.
    let shapes: &[(u32, u32)] = &[(1, 1), (4, 1), (16, 1), (1, 32), (4, 32)];
    let page_cache = over(setup, report, "page cache", Arc::new(cached()?), shapes)?;
    for us in [50, 100] {
        // Like a device: every read finishes that much later, and any number of reads overlap.
        let rule = FaultRule {
            bytes: 0..u64::MAX,
            every: 1,
            at_most: u64::MAX,
            action: FaultAction::Delay(Duration::from_micros(us)),
        };
        let late = FaultyStorage::new(Box::new(cached()?), vec![rule]);
        let name = format!("page cache, {us} µs late");
        over(setup, report, &name, Arc::new(late), shapes)?;
    }
    #[cfg(target_os = "linux")]
    {
        let direct = grampus_driver::storage::DirectFile::open(&path)?;
        over(setup, report, "disk", Arc::new(direct), &[(1, 1), (4, 1), (1, 4)])?;
    }
    where_time_goes(setup, report, Arc::new(cached()?), page_cache)
}

fn stack_over(setup: &Setup, storage: Arc<dyn Storage>) -> Result<Bed, BenchError> {
    setup.bed(storage, options(8, QUEUES, setup.size(2 << 30, 1 << 30)), 0)
}

/// Runs all shapes over one storage; returns microseconds a step of I/O alone, of the first shape.
fn over(
    setup: &Setup,
    report: &mut Report,
    name: &str,
    storage: Arc<dyn Storage>,
    shapes: &[(u32, u32)],
) -> Result<f64, BenchError> {
    let mut first_io = 0.0;
    for &(blocks, lines) in shapes {
        if setup.options.small && blocks > 1 {
            continue;
        }
        let mut alone = Steps {
            blocks,
            steps: setup.size(100, 4) as u32,
            lines,
            ahead: 0,
            servers: 0,
            compute_ns: 0,
        };
        let expected = alone.expected(setup)?;
        let bed = stack_over(setup, storage.clone())?;
        let medians = |variants: &[Steps]| -> Result<Vec<f64>, BenchError> {
            let mut times = vec![Vec::new(); variants.len()];
            for _ in 0..TURNS {
                for (variant, times) in variants.iter().zip(&mut times) {
                    times.push(variant.time(setup, &bed, expected)?);
                }
            }
            Ok(times.into_iter().map(median).collect())
        };
        let served = |steps: Steps| Steps {
            servers: QUEUES,
            ..steps
        };
        // Computing takes as long as the faster one of the synchronous ways, with which prefetching is compared.
        let io = medians(&[alone, served(alone)])?;
        alone.compute_ns = (io[0].min(io[1]) * 1e3) as u64;
        let [one, two] = [1, 2].map(|ahead| Steps { ahead, ..alone });
        let times = medians(&[alone, served(alone), one, served(one), served(two)])?;
        let synchronous = times[0].min(times[1]);
        let warps = u64::from(blocks) * WARPS_PER_BLOCK;
        let plural = if lines == 1 { "line" } else { "lines" };
        report
            .add(
                format!("prefetch against synchronous, {name}, {warps} warps, {lines} {plural} a step"),
                synchronous / times[3].min(times[4]),
                "x",
            )
            .at_least(1.7)
            .note(format!(
                "I/O {:.0} µs, {:.0} served; with computing {:.0}, {:.0}; one ahead {:.0}, {:.0} served, two {:.0}",
                io[0], io[1], times[0], times[1], times[2], times[3], times[4]
            ));
        if first_io == 0.0 {
            first_io = io[0].min(io[1]);
        }
    }
    Ok(first_io)
}

/// Reports the steps of the protocol that a computing warp takes itself, by clocks between them.
fn where_time_goes(
    setup: &Setup,
    report: &mut Report,
    storage: Arc<dyn Storage>,
    compute_us: f64,
) -> Result<(), BenchError> {
    let bed = stack_over(setup, storage)?;
    let way = |ahead, servers| Steps {
        blocks: 1,
        steps: setup.size(100, 4) as u32,
        lines: 1,
        ahead,
        servers,
        compute_ns: (compute_us * 1e3) as u64,
    };
    let ways = [
        ("synchronous", way(0, 0)),
        ("one ahead", way(1, 0)),
        ("one ahead, served", way(1, QUEUES)),
    ];
    for (name, way) in ways {
        let expected = way.expected(setup)?;
        let (run, phases) = setup.clocked_steps(&bed, way.kernel(), way.all_blocks(), way.servers, |args| {
            way.arguments(args)
        })?;
        let us = way.checked(&run, expected)?;
        let steps = f64::from(way.steps) * (u64::from(way.blocks) * WARPS_PER_BLOCK) as f64;
        let own: f64 = phases
            .iter()
            .filter(|p| p.name != "computed")
            .map(|p| p.us / steps)
            .sum();
        report
            .add(
                format!("a step with clocks, page cache, 8 warps, 1 line, {name}"),
                us,
                "µs",
            )
            .note(format!("{own:.1} without computing:{}", listed(&phases, steps)));
    }
    Ok(())
}

/// Lists phases of at least a quarter of a microsecond.
fn listed(phases: &[Phase], steps: f64) -> String {
    let long = phases.iter().filter(|p| p.name != "computed" && p.us / steps >= 0.25);
    long.map(|p| format!(" {} {:.1}", p.name, p.us / steps)).collect()
}

/// The median; of an even number of times the upper one.
pub(crate) fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
