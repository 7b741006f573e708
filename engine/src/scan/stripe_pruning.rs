//! [`surviving_rows`]: the row groups of a stripe that its row indexes and bloom filters do not exclude.

use std::ops::Range;

use datafusion::error::Result;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::stripe::StripeLayout;

use super::Scan;
use super::metrics::ScanMetrics;
use super::pruning::{ContainerStatistics, Containers, Pruner};
use super::scan_ranges::ScanRange;
use crate::error::layout;

/// The rows of the row groups of `work` that may pass the filters of all of `pruners`. Counts the others as skipped.
pub(super) async fn surviving_rows(
    scan: &Scan,
    pruners: impl Iterator<Item = &Pruner>,
    work: &ScanRange,
    layout_of: &StripeLayout,
    metrics: &ScanMetrics,
) -> Result<Vec<Range<u64>>> {
    let mut keep = vec![true; work.groups.len()];
    for pruner in pruners {
        let may_pass = surviving_groups(scan, pruner, work, layout_of, metrics).await?;
        keep.iter_mut()
            .zip(may_pass)
            .for_each(|(keep, may_pass)| *keep &= may_pass);
    }
    let skipped = keep.iter().filter(|keep| !**keep).count();
    metrics.row_groups_skipped.add(skipped);
    let tail = &scan.files[work.file].file.tail;
    let surviving = work.groups.clone().zip(keep).filter(|(_, keep)| *keep);
    let rows = surviving.map(|(group, _)| layout_of.row_group_rows(tail, group));
    Ok(rows.collect())
}

/// The rows of the row groups of `work` that end behind `first_row`, as far as no row passes the filter of `pruner`.
pub(super) async fn excluded_rows(
    scan: &Scan,
    pruner: &Pruner,
    work: &ScanRange,
    layout_of: &StripeLayout,
    first_row: u64,
    metrics: &ScanMetrics,
) -> Result<Vec<Range<u64>>> {
    let tail = &scan.files[work.file].file.tail;
    let rows = |group: usize| layout_of.row_group_rows(tail, group);
    let groups = work.groups.clone();
    let begun = groups.clone().find(|&group| rows(group).end > first_row);
    let left = ScanRange {
        groups: begun.unwrap_or(groups.end)..groups.end,
        ..work.clone()
    };
    let keep = surviving_groups(scan, pruner, &left, layout_of, metrics).await?;
    let excluded = left.groups.zip(keep).filter(|(_, keep)| !keep);
    Ok(excluded.map(|(group, _)| rows(group)).collect())
}

/// For each row group of `work`, whether it may have rows that pass the filter of `pruner`.
pub(super) async fn surviving_groups(
    scan: &Scan,
    pruner: &Pruner,
    work: &ScanRange,
    layout_of: &StripeLayout,
    metrics: &ScanMetrics,
) -> Result<Vec<bool>> {
    let table_file = &scan.files[work.file];
    let tail = &table_file.file.tail;
    if tail.row_group_stride(&layout_of.info).is_none() {
        return Ok(vec![true; work.groups.len()]);
    }
    let stored: Vec<(usize, ColumnId)> = pruner
        .columns()
        .iter()
        .filter_map(|&column| Some((column, table_file.place_of(column).ok()?)))
        .collect();
    let asked: Vec<_> = stored
        .iter()
        .map(|&(column, id)| (id, pruner.wants_bloom_filter(column)))
        .collect();
    let indexes = scan
        .cache
        .indexes(&table_file.file, layout_of, &asked, &metrics.io)
        .await
        .map_err(layout)?;
    let mut columns: Vec<(usize, ContainerStatistics<'_>)> = Vec::new();
    for (&(column, id), index) in stored.iter().zip(&indexes) {
        let Some(index) = index else { continue };
        let known = ContainerStatistics::Stored {
            kind: tail.schema.column(id).kind,
            statistics: work.groups.clone().map(|group| index.statistics.get(group)).collect(),
            bloom_filters: index.bloom_filters.get(work.groups.clone()).unwrap_or(&[]),
            is_hybrid_calendar: tail.is_hybrid_calendar,
        };
        columns.push((column, known));
    }
    columns.extend(
        pruner
            .columns()
            .iter()
            .filter_map(|&c| Some((c, ContainerStatistics::Constant(table_file.place_of(c).err()?)))),
    );
    let rows = |group| layout_of.row_group_rows(tail, group);
    let containers = Containers {
        schema: &scan.table,
        invalid_utf8: scan.options.invalid_utf8,
        rows: work
            .groups
            .clone()
            .map(rows)
            .map(|rows| rows.end - rows.start)
            .collect(),
        columns,
    };
    Ok(pruner.may_pass(&containers))
}
