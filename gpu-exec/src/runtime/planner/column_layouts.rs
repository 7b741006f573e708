//! `ColumnLayouts`: how many bytes the values of a query's columns take in memory.
//!
//! 1. A column of files that were loaded before keeps its layout, so that what is resident is found.
//! 2. A column of other files has the narrowest layout for the bounds that are known of its values.
//! 3. If a value turns out to lie beyond the layout, the query is run again with a wider one.
//!
//! Only values that are decoded have a choice: values that lie raw in files are read as they are. Floats that are
//! probably whole numbers are decoded although they lie raw, if a query reads their column whole.

use crate::input::encoded_check::MAX_GROUP_ROWS;
use std::collections::BTreeSet;

use crate::error::{RefusalReason, RunError};
use crate::input::{Placement, Stripe};
use crate::options::{Backing, BackingChoice, Request};
use crate::program::{Program, Stored, Type, Value};
use crate::runtime::memory::column_key::dictionary_of;
use crate::runtime::memory::residency::Residency;
use crate::runtime::planner::kernel_choice::reads_whole;
use crate::runtime::transfer::decoded_values::whole_number;

/// Layouts that a query's columns need, as its attempts have found out.
#[derive(Debug, Clone, Default)]
pub(crate) struct ColumnLayouts {
    /// Columns, by position, with the layout that they have at least.
    least: Vec<(usize, Stored)>,
}

impl ColumnLayouts {
    /// The request's program with a layout for each column.
    pub(crate) fn program(&self, request: &Request<'_>, residency: &Residency) -> Program {
        let mut program = request.program.clone();
        let files: BTreeSet<usize> = request.input.stripes.iter().map(|stripe| stripe.file).collect();
        let versions = files.into_iter().filter_map(|at| request.input.files.get(at));
        let ids: Vec<_> = versions.map(|version| residency.file_id(version)).collect();
        for (at, column) in program.columns.iter_mut().enumerate() {
            let own = Stored::of(column.ty);
            let bounds = request.input.value_bounds.get(at).copied().flatten();
            let known = bounds.map_or(own, |(least, most)| Stored::narrowest(column.ty, least, most));
            if known == own && column.ty != Type::Code {
                continue;
            }
            let (Some(&id), true) = (request.input.column_ids.get(at), has_choice(request, at, known)) else {
                continue;
            };
            // Of floats that lie raw, single values can be fetched as long as none is decoded.
            let wanted = match known.float_bytes() {
                Some(_) if !reads_whole(request, at) => own,
                _ => known,
            };
            let dictionary = dictionary_of(request, column.ty);
            let known_files = residency.known();
            let loaded = |file| known_files.layout((file?, id, dictionary));
            let layouts = ids.iter().map(|file| loaded(*file).unwrap_or(wanted));
            let least = self.least.iter().filter(|(of, _)| *of == at).map(|(_, layout)| *layout);
            let constants = constants(request, at).map(|value| match value {
                Some(value) => Stored::narrowest(column.ty, value, value),
                None => own,
            });
            let all = layouts
                .chain(least)
                .chain(constants)
                .reduce(|a, b| a.join(b, column.ty));
            column.stored = all.unwrap_or(own);
        }
        program
    }

    /// Whether the request is run again, with a wider layout of a column: an attempt has failed so.
    pub(crate) fn widen(&mut self, failure: &RunError, request: &Request<'_>, residency: &Residency) -> bool {
        let RunError::Refused(RefusalReason::NarrowLayout { column }) = failure else {
            return false;
        };
        let of = &request.program.columns[*column];
        if let (Some(_), Some(&id)) = (of.stored.float_bytes(), request.input.column_ids.get(*column)) {
            let files = request.input.files.iter();
            let files = files.filter_map(|version| residency.file_id(version));
            files.for_each(|file| residency.keep_floats(file, id, of.ty));
        }
        let wider = match of.ty {
            // Of a dictionary it is known how long it is by now, and not how long it will be.
            Type::Code => of.stored.wider(of.ty),
            _ => Some(Stored::of(of.ty)).filter(|own| *own != of.stored),
        };
        self.least.extend(wider.map(|wider| (*column, wider)));
        wider.is_some()
    }
}

/// Values that whole stripes of a column have, as integers. `None`: a float that is none.
fn constants(request: &Request<'_>, column: usize) -> impl Iterator<Item = Option<i64>> {
    let constant = move |stripe: &Stripe| match stripe.columns.get(column) {
        Some(Placement::Constant(Some(Value::Int(value)))) => Some(Some(*value)),
        Some(Placement::Constant(Some(Value::Float(value)))) => Some(whole_number(*value)),
        _ => None,
    };
    request.input.stripes.iter().filter_map(constant)
}

/// Whether a column's values can have another layout than their type's: all are decoded, or are floats that the device
/// can decode and that are to be resident.
fn has_choice(request: &Request<'_>, column: usize, known: Stored) -> bool {
    let lies_raw = |stripe: &&Stripe| matches!(stripe.columns.get(column), Some(Placement::Direct(_)) | None);
    let mut raw = request.input.stripes.iter().filter(lies_raw);
    match (known.float_bytes(), request.backing) {
        (None, _) => raw.next().is_none(),
        (Some(_), BackingChoice::Auto | BackingChoice::All(Backing::Resident)) => {
            raw.all(|stripe| stripe.group_rows <= MAX_GROUP_ROWS)
        }
        (Some(_), BackingChoice::All(_)) => false,
    }
}
