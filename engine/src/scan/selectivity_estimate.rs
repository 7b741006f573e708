//! The statistics of a scan for the optimizer: of the table if there is no filter, else estimates.
//!
//! The scan evaluates its filter itself. Without a sample the estimate is the one of DataFusion's own filter operator,
//! so that the optimizer orders and builds joins as it does over a table whose filter is an operator of its own.
//! DataFusion compares the filter with the columns' bounds. Of strings, decimals, IN, LIKE and OR it knows nothing. A
//! sample knows more.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::error::Result;
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::utils::reassign_expr_columns;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use super::Scan;
use super::conjunct::Conjunct;
use super::filter_sample::FilterSample;
use super::scan_ranges::PlannedStripe;
use crate::table::statistics;

/// Statistics of the rows and columns that a scan of `stripes` emits, without its limit.
///
/// `default_selectivity` is the share of rows, in percent, that pass a filter which neither bounds nor a sample say
/// anything about.
///
/// # Errors
/// If the session's default selectivity is above 100.
pub(super) fn scan_statistics(
    scan: &Scan,
    stripes: &[PlannedStripe],
    default_selectivity: u8,
    sample: Option<FilterSample>,
) -> Result<Statistics> {
    if scan.conjuncts.is_empty() {
        return Ok(statistics::with_total_size(table_statistics(scan, &scan.projection)));
    }
    let used = used_columns(&scan.projection, &scan.conjuncts);
    let unfiltered = table_statistics(scan, &used);
    let schema = Arc::new(scan.table.project(&used)?);
    let filter = conjunction(scan.conjuncts.iter().map(|conjunct| Arc::clone(&conjunct.expr)));
    let filter = reassign_expr_columns(filter, &schema)?;
    let has_bounds = check_support(&filter, &schema);
    let mut filtered = estimate_by_bounds(schema, filter, unfiltered.clone(), default_selectivity)?;
    let scanned: u64 = stripes.iter().map(|stripe| stripe.rows).sum();
    let by_bounds = filtered.num_rows.min(&Precision::Inexact(scanned as usize));
    match sample {
        Some(sample) => {
            let by_bounds = by_bounds.get_value().filter(|_| has_bounds).copied();
            filtered = with_rows(filtered, &unfiltered, estimate_by_sample(sample, scanned, by_bounds));
        }
        None => filtered.num_rows = by_bounds,
    }
    let places: Vec<usize> = (scan.projection.iter())
        .filter_map(|column| used.binary_search(column).ok())
        .collect();
    Ok(statistics::with_total_size(filtered.project(Some(&places))))
}

/// Table columns that a scan reads, ascending.
pub(super) fn used_columns(projection: &[usize], conjuncts: &[Conjunct]) -> Vec<usize> {
    let filtered = conjuncts.iter().flat_map(|conjunct| &conjunct.columns);
    let mut used: Vec<usize> = projection.iter().chain(filtered).copied().collect();
    used.sort_unstable();
    used.dedup();
    used
}

/// Statistics of all rows of the scan's files, for some of the table's columns.
fn table_statistics(scan: &Scan, columns: &[usize]) -> Statistics {
    let columns: Vec<(usize, DataType)> = columns
        .iter()
        .map(|&column| (column, scan.table.field(column).data_type().clone()))
        .collect();
    let mut statistics = statistics::of_files(&scan.files, &columns, scan.options.invalid_utf8);
    for ((column, _), known) in columns.iter().zip(&mut statistics.column_statistics) {
        if let Ok(at) = scan.distinct.binary_search_by_key(column, |(column, _)| *column) {
            known.distinct_count = Precision::Inexact(scan.distinct[at].1 as usize);
        }
    }
    statistics
}

/// Statistics of the rows that pass `filter`, all inexact, as DataFusion's filter operator estimates them.
pub(crate) fn estimate_by_bounds(
    schema: Arc<Schema>,
    filter: Arc<dyn PhysicalExpr>,
    statistics: Statistics,
    default_selectivity: u8,
) -> Result<Statistics> {
    let filter = FilterExecBuilder::new(filter, Arc::new(EmptyExec::new(schema)))
        .with_default_selectivity(default_selectivity)
        .build()?;
    let filtered = filter.statistics_from_inputs(&[Arc::new(statistics)], &StatisticsArgs::new())?;
    Ok(Arc::unwrap_or_clone(filtered).to_inexact())
}

/// The number of `scanned` rows that pass, by a sample of them and, if the columns' bounds say anything about the
/// filter, by these.
///
/// The rows of a place are often alike, by date say. If hardly any place has rows that pass, few of the table's rows
/// pass, or they lie together. Bounds can tell the two apart, if they do not contradict the sample.
pub(crate) fn estimate_by_sample(sample: FilterSample, scanned: u64, by_bounds: Option<usize>) -> usize {
    if sample.rows >= scanned {
        return sample.passed as usize;
    }
    let of_scanned = |part: f64, whole: f64| (scanned as f64 * part / whole).round() as usize;
    let are_together = 2 * sample.hits < sample.places && 4 * sample.passed >= sample.rows_of_hits;
    let believable = of_scanned((sample.hits + 1) as f64, sample.places as f64);
    match by_bounds.filter(|&rows| are_together && rows <= believable) {
        Some(rows) => rows,
        // A value that a sample misses is rare, not absent.
        None => of_scanned(sample.passed as f64 + 0.5, sample.rows as f64 + 1.0),
    }
}

/// `filtered`, estimates from bounds, for another number of rows. `unfiltered` describes all rows.
pub(crate) fn with_rows(filtered: Statistics, unfiltered: &Statistics, rows: usize) -> Statistics {
    let before = filtered.num_rows;
    let all = unfiltered.num_rows.get_value().copied().unwrap_or(rows).max(1);
    let at_most = |count: Precision<usize>| count.to_inexact().min(&Precision::Inexact(rows));
    let columns = filtered
        .column_statistics
        .into_iter()
        .zip(&unfiltered.column_statistics);
    let column_statistics = columns.map(|(column, whole)| ColumnStatistics {
        // The bounds' estimate is the count of all rows, or what the filter makes of it, at most `before`.
        distinct_count: match column.distinct_count == before {
            true => at_most(whole.distinct_count),
            false => at_most(column.distinct_count),
        },
        null_count: at_most(column.null_count),
        byte_size: whole.byte_size.with_estimated_selectivity(rows as f64 / all as f64),
        ..column
    });
    Statistics {
        num_rows: Precision::Inexact(rows),
        total_byte_size: Precision::Absent,
        column_statistics: column_statistics.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample of 8 places of 1,000 rows, by the rows that pass in each.
    fn sample(passed: [u64; 8]) -> FilterSample {
        let hits = passed.iter().filter(|passed| **passed > 0).count() as u64;
        FilterSample {
            rows: 8_000,
            passed: passed.iter().sum(),
            places: 8,
            rows_of_hits: 1_000 * hits,
            hits,
        }
    }

    #[test]
    fn bounds_decide_if_the_rows_that_pass_lie_together() {
        let estimate = |passed, by_bounds| estimate_by_sample(sample(passed), 800_000, by_bounds);
        let (none, one, scattered) = ([0; 8], [0, 0, 900, 0, 0, 0, 0, 0], [9, 11, 10, 8, 12, 10, 10, 10]);
        assert_eq!(estimate(none, Some(40_000)), 40_000);
        assert_eq!(estimate(one, Some(40_000)), 40_000);
        // The bounds' share is more than the sample could have missed.
        assert_eq!(estimate(none, Some(700_000)), 50);
        assert_eq!(estimate(none, None), 50);
        assert!((90_000..91_000).contains(&estimate(one, None)));
        for by_bounds in [None, Some(400_000)] {
            assert!((8_000..8_100).contains(&estimate(scattered, by_bounds)));
        }
        // Few rows pass, but not because they lie together.
        assert!((80..200).contains(&estimate([0, 0, 1, 0, 0, 0, 0, 0], Some(40_000))));
        assert_eq!(estimate_by_sample(sample(one), 8_000, Some(4)), 900);
    }
}
