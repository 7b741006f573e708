//! [`surviving_groups`]: the row groups of a stripe that its row indexes and bloom filters do not exclude.

use datafusion::error::Result;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::stripe::StripeLayout;

use super::Scan;
use super::metrics::ScanMetrics;
use super::pruning::{ContainerStatistics, Containers, Pruner};
use super::scan_ranges::ScanRange;
use crate::error::layout;

/// As [`surviving_groups`], for the filters of all of `pruners`. Counts the others as skipped.
pub(super) async fn surviving_all(
    scan: &Scan,
    pruners: impl Iterator<Item = &Pruner>,
    work: &ScanRange,
    layout_of: &StripeLayout,
    metrics: &ScanMetrics,
) -> Result<Vec<bool>> {
    let mut keep = vec![true; work.groups.len()];
    for pruner in pruners {
        let may_pass = surviving_groups(scan, pruner, work, layout_of, metrics).await?;
        keep.iter_mut()
            .zip(may_pass)
            .for_each(|(keep, may_pass)| *keep &= may_pass);
    }
    let skipped = keep.iter().filter(|keep| !**keep).count();
    metrics.row_groups_skipped.add(skipped);
    Ok(keep)
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
