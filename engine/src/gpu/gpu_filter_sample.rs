//! Selectivity of a filter, by a sample: the share of rows that pass in a few ranges of the table.

use std::ops::Range;

use datafusion::error::Result;
use grampus_gpu_exec::input::{Input, Placement};

use super::gpu_input::GpuInput;
use super::lower::Lowered;
use crate::scan::filter_sample::passing;

/// Ranges of a sample if every column lies raw in its file.
const MAX_RAW_RANGES: usize = 16;
/// Ranges of a sample if a column has to be decoded: each range then takes a row group.
const MAX_DECODED_RANGES: usize = 4;
/// Rows of a range.
const MAX_RANGE_ROWS: u64 = 2048;

/// The share of rows that pass the scan's filter in a few ranges of rows. A filter above the scan counts as one that
/// half of the rows pass.
///
/// # Errors
/// If the files cannot be read.
pub(crate) fn sampled_selectivity(lowered: &Lowered, gpu_input: &GpuInput) -> Result<f64> {
    let Some(scan) = lowered.scan().map(|exec| exec.shared()) else {
        return Ok(1.0);
    };
    let above = lowered.program.conjuncts.len().saturating_sub(scan.conjuncts.len());
    let guess = 0.5f64.powi(above.min(8) as i32);
    if scan.conjuncts.is_empty() {
        return Ok(guess);
    }
    let (mut rows, mut passed) = (0, 0);
    for (file, stripe, range) in sample_ranges(&gpu_input.input) {
        let Some(layout) = gpu_input.layouts.get(stripe) else {
            continue;
        };
        rows += range.end - range.start;
        passed += passing(&scan, file, layout, range)?;
    }
    // Half a row more than the sample found: a value that a sample misses is rare, not absent.
    Ok((passed as f64 + 0.5) / (rows as f64 + 1.0) * guess)
}

/// File, stripe (by position in the input) and rows of each sample.
fn sample_ranges(input: &Input) -> Vec<(usize, usize, Range<u64>)> {
    let is_raw = |placement: &Placement| !matches!(placement, Placement::Decoded { .. });
    let raw = input.stripes.iter().all(|stripe| stripe.columns.iter().all(is_raw));
    let wanted = if raw { MAX_RAW_RANGES } else { MAX_DECODED_RANGES };
    let ranges: Vec<_> = (input.stripes.iter().enumerate())
        .flat_map(|(at, stripe)| {
            stripe
                .selected
                .iter()
                .map(move |range| (stripe.file, at, range.clone()))
        })
        .collect();
    let total: u64 = ranges.iter().map(|(_, _, range)| range.end - range.start).sum();
    let mut samples: Vec<(usize, usize, Range<u64>)> = Vec::new();
    let mut before = 0;
    let mut next = 0;
    for (file, stripe, range) in ranges {
        let length = range.end - range.start;
        while next < wanted as u64 && total * next / (wanted as u64) < before + length {
            let start = range.start + (total * next / (wanted as u64)).saturating_sub(before);
            // A decoded row group is read from its beginning: a sample decodes no more than its own rows.
            let start = match raw {
                true => start,
                false => (start - start % input.stripes[stripe].group_rows.max(1)).max(range.start),
            };
            let end = (start + MAX_RANGE_ROWS).min(range.end);
            // Small tables: ranges do not overlap.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::device_choice::tests::input;

    #[test]
    fn sample_ranges_lie_apart_and_inside_the_selection() {
        let ranges = sample_ranges(&input());
        assert_eq!(ranges.len(), MAX_RAW_RANGES);
        for pair in ranges.windows(2) {
            assert!((pair[0].1, pair[0].2.end) <= (pair[1].1, pair[1].2.start), "{pair:?}");
        }
        let mut small = input();
        small.stripes.truncate(1);
        small.stripes[0].selected = vec![5..25, 30..31];
        let ranges = sample_ranges(&small);
        let rows: u64 = ranges.iter().map(|(_, _, rows)| rows.end - rows.start).sum();
        assert!(rows <= 21, "{ranges:?}");
        assert!(
            ranges
                .iter()
                .all(|(_, _, rows)| (5..25).contains(&rows.start) || rows.start == 30)
        );
    }
}
