//! [`surviving_stripes`]: the stripes of a table that statistics do not exclude; and [`filtered`], for filters that a
//! planned scan takes over.

use arrow::datatypes::SchemaRef;

use super::Scan;
use super::conjunct::Conjunct;
use super::predicate_cascade::{Seen, order};
use super::pruning::{ContainerStatistics, Containers, Pruner};
use super::scan_ranges::{PlannedStripe, Skipped};
use crate::config::{GrampusOptions, InvalidUtf8};
use crate::table::files::TableFile;

/// The form of conjuncts for statistics; `None`: they exclude nothing.
pub(super) fn pruner_of(conjuncts: &[Conjunct], table: &SchemaRef, options: &GrampusOptions) -> Option<Pruner> {
    let parts = conjuncts.iter().map(|c| (&c.expr, c.columns.as_slice()));
    options.prune.then(|| Pruner::new(parts, table)).flatten()
}

/// The scan with more conjuncts over columns that it reads already, those of `stripes` that may have rows that pass
/// them too, and what was skipped.
pub(super) fn filtered(
    scan: &Scan,
    stripes: &[PlannedStripe],
    mut skipped: Skipped,
    conjuncts: Vec<Conjunct>,
) -> (Scan, Vec<PlannedStripe>, Skipped) {
    let mut scan = scan.clone();
    let new = pruner_of(&conjuncts, &scan.table, &scan.options);
    let keep = surviving_stripes(&scan.files, &scan.table, new.as_ref(), scan.options.invalid_utf8);
    let is_kept = |stripe: &&PlannedStripe| keep[stripe.file][stripe.stripe];
    for excluded in stripes.iter().filter(|stripe| !is_kept(stripe)) {
        skipped.stripes += 1;
        skipped.row_groups += excluded.groups;
    }
    let kept = stripes.iter().filter(is_kept).cloned().collect();
    scan.conjuncts.extend(conjuncts);
    scan.pruner = pruner_of(&scan.conjuncts, &scan.table, &scan.options);
    let numbered = scan.conjuncts.iter().enumerate().collect();
    let seen = vec![Seen::default(); scan.conjuncts.len()];
    scan.order = order(numbered, &|column| scan.cost(column), &seen);
    (scan, kept, skipped)
}

/// For each stripe, by file, whether it may have rows that pass.
///
/// Adjacent files with the same column types are pruned by one call. The cost of a call hardly depends on its number of
/// stripes.
pub(super) fn surviving_stripes(
    files: &[TableFile],
    table: &SchemaRef,
    pruner: Option<&Pruner>,
    invalid_utf8: InvalidUtf8,
) -> Vec<Vec<bool>> {
    let Some(pruner) = pruner else {
        return files
            .iter()
            .map(|file| vec![true; file.file.tail.stripes.len()])
            .collect();
    };
    let mut keep = Vec::with_capacity(files.len());
    for alike in files.chunk_by(|one, next| pruner.columns().iter().all(|&column| is_alike(one, next, column))) {
        let columns = pruner.columns().iter().map(|&column| (column, known(alike, column)));
        let stripes = alike.iter().flat_map(|file| &file.file.tail.stripes);
        let passes = pruner.may_pass(&Containers {
            schema: table,
            invalid_utf8,
            rows: stripes.map(|stripe| stripe.rows).collect(),
            columns: columns.collect(),
        });
        let mut passes = passes.into_iter();
        keep.extend(
            alike
                .iter()
                .map(|file| passes.by_ref().take(file.file.tail.stripes.len()).collect()),
        );
    }
    keep
}

/// True if both files store the column with the same type, or both have the same value in place of the column.
fn is_alike(one: &TableFile, other: &TableFile, column: usize) -> bool {
    let kind = |file: &TableFile, id| file.file.tail.schema.column(id).kind;
    match (one.place_of(column), other.place_of(column)) {
        (Ok(here), Ok(there)) => kind(one, here) == kind(other, there),
        (Err(here), Err(there)) => here == there,
        _ => false,
    }
}

/// A column's statistics by stripe, from the footers of files with the same column types. There is at least one file.
fn known(alike: &[TableFile], column: usize) -> ContainerStatistics<'_> {
    let first = &alike[0];
    let id = match first.place_of(column) {
        Ok(id) => id,
        Err(value) => return ContainerStatistics::Constant(value),
    };
    let statistics = alike.iter().flat_map(|file| {
        let tail = &file.file.tail;
        let id = file.place_of(column).ok();
        (0..tail.stripes.len()).map(move |stripe| tail.stripe_statistics.get(stripe)?.get(id? as usize))
    });
    ContainerStatistics::Stored {
        kind: first.file.tail.schema.column(id).kind,
        statistics: statistics.collect(),
        bloom_filters: &[],
        is_hybrid_calendar: first.file.tail.is_hybrid_calendar,
    }
}
