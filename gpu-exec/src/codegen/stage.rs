//! Stages: the functions of a kernel that process held rows.
//!
//! 1. A stage takes rows from its ring in shared memory.
//! 2. A step fetches columns for the rows, and evaluates its conjuncts.
//! 3. After the last step the rows are put into the next stage's ring, or are added to their groups.
//!
//! All functions are out of line, and their state is in shared memory.

use std::fmt::Write as _;

use super::expr::Emitter;
use super::plan::Stage;
use super::statements::{cpp_held, stored};
use super::writer::{ENTRY_FUNCTION, Writer, mask_of};
use super::{Access, aggregate};
use crate::error::RunError;
use crate::program::Type;

/// Puts the active lanes' rows into the ring of stage `at`, and runs the stage if there are enough rows.
///
/// The code is inline: a call would save registers in memory for each of the few rows that pass.
pub(super) fn hold(
    writer: &Writer<'_>,
    e: &mut Emitter<'_>,
    at: usize,
    row: &str,
    value: &dyn Fn(usize) -> String,
    valid: &dyn Fn(usize) -> String,
) {
    let n = at + 1;
    let stage = &writer.plan.stages[at];
    e.line(&format!("const u32 to = shared.tally.ring_{n}.put(active);"));
    e.line("if (active) {");
    e.line(&format!("    shared.held_{n}.row[to] = {row};"));
    for &c in &stage.carried {
        e.line(&format!("    shared.held_{n}.c{c}[to] = {};", value(c)));
        if writer.shape.columns[c].nullable {
            e.line(&format!("    shared.held_{n}.ok{c}[to] = {};", valid(c)));
        }
    }
    e.line("}");
    e.line("sync_warp();");
    let fetched = stage.steps.first().map_or(&[][..], |s| &s.fetch);
    if fetched
        .iter()
        .any(|&c| writer.shape.columns[c].access == Access::Queued)
    {
        e.line(&format!(
            "if (!far_call(&send_{n})(parameter, active, {row})) return false;"
        ));
    }
    e.line(&format!(
        "if (shared.tally.ring_{n}.held >= ENOUGH_{n} && !far_call(&stage_{n})(parameter, shared)) return false;"
    ));
}

/// The function that sends the commands for a stage's queued columns.
pub(super) fn send_function(writer: &Writer<'_>, at: usize) -> String {
    let fetched = writer.plan.stages[at].steps.first().map_or(&[][..], |s| &s.fetch);
    let mut out = String::new();
    for &c in fetched
        .iter()
        .filter(|&&c| writer.shape.columns[c].access == Access::Queued)
    {
        if out.is_empty() {
            let _ = writeln!(
                out,
                "// Sends for the active lanes' rows.\n\
                 {ENTRY_FUNCTION}send_{}(const QueryParameter& parameter, bool active, u64 row) {{",
                at + 1
            );
        }
        let _ = writeln!(
            out,
            "    if (!prefetch_slowly<Queued<>>(parameter.head.io, parameter.columns[{c}], active, row, {})) return \
             false;",
            writer.program.columns[c].stored.bytes()
        );
    }
    if !out.is_empty() {
        out.push_str("    return true;\n}\n\n");
    }
    out
}

/// The function that empties all rings.
pub(super) fn drain_function(writer: &Writer<'_>) -> String {
    let mut out = format!(
        "// Goes on with all rows that are held back.\n\
         {ENTRY_FUNCTION}drain(const QueryParameter& parameter, Shared& shared) {{\n",
    );
    for n in 1..=writer.plan.stages.len() {
        let _ = writeln!(
            out,
            "    while (shared.tally.ring_{n}.held > 0)\n        if (!stage_{n}(parameter, shared)) return false;"
        );
    }
    out.push_str("    return true;\n}\n\n");
    out
}

pub(super) fn stage_function(writer: &Writer<'_>, at: usize) -> Result<String, RunError> {
    let n = at + 1;
    let stage = &writer.plan.stages[at];
    let last = at + 1 == writer.plan.stages.len();
    let mut out = format!(
        "// Takes rows that were held back: the oldest, as many as there are lanes, or all.\n\
         {ENTRY_FUNCTION}stage_{n}(const QueryParameter& parameter, Shared& shared) {{\n    \
         const QueryHead& head = parameter.head;\n"
    );
    let conjuncts = stage.steps.iter().flat_map(|s| &s.conjuncts);
    let conjuncts = conjuncts.map(|&c| &writer.program.conjuncts[c]);
    writer.load_arguments(
        &mut out,
        true,
        conjuncts.chain(writer.last_expressions().filter(|_| last)),
    );
    let mut e = writer.emitter(1);
    take(writer, &mut e, n, stage);
    let first_counter: usize = writer.plan.stages[..at].iter().map(|s| s.steps.len()).sum();
    for (i, step) in stage.steps.iter().enumerate() {
        e.line(&format!("tally(shared.tally.counted[{}], active);", first_counter + i));
        look_for_pages(writer, &mut e, &step.fetch);
        fetch(writer, &mut e, &step.fetch);
        let mut of_step = writer.emitter(1);
        std::mem::swap(&mut of_step.statements.out, &mut e.statements.out);
        writer.narrow(&mut e, &step.conjuncts)?;
        if e.statements.may_refuse {
            of_step.line("bool refused = false;");
            e.line("if (leaves(head, refused)) return false;");
        }
        // Each step is a block, so that names are local to it.
        let body = std::mem::take(&mut e.statements.out);
        e.statements.out = of_step.statements.out + &body;
    }
    if last {
        e.line(&format!(
            "tally(shared.tally.counted[{}], active);",
            writer.plan.counters() - 2
        ));
        aggregate::accumulate(writer, &mut e)?;
    } else {
        e.line("if (!any(active)) return true;");
        hold(writer, &mut e, at + 1, "row", &|c| format!("c{c}"), &|c| {
            format!("ok{c}")
        });
    }
    out.push_str(&e.statements.out);
    out.push_str("    return true;\n}\n\n");
    Ok(out)
}

/// Names the values in the ring.
fn take(writer: &Writer<'_>, e: &mut Emitter<'_>, n: usize, stage: &Stage) {
    e.line("u32 at;");
    e.line(&format!("bool active = shared.tally.ring_{n}.take(at);"));
    e.line(&format!("const u64 row = shared.held_{n}.row[at];"));
    for &c in &stage.carried {
        let ty = writer.program.columns[c].ty;
        let is_true = if ty == Type::Bool { " != 0" } else { "" };
        e.line(&format!(
            "const {} c{c} = shared.held_{n}.c{c}[at]{is_true};",
            cpp_held(ty)
        ));
        if writer.shape.columns[c].nullable {
            e.line(&format!("const bool ok{c} = shared.held_{n}.ok{c}[at] != 0;"));
        }
    }
    e.line("sync_warp();");
}

/// Deactivates rows that miss a page of the step's columns, before any column is fetched. One pass therefore requests
/// all pages that the step misses.
fn look_for_pages(writer: &Writer<'_>, e: &mut Emitter<'_>, columns: &[usize]) {
    let paged = |c: &usize| writer.shape.columns[*c].access == Access::Paged;
    let place = |c: &usize| (0..*c).filter(paged).count();
    let places: Vec<usize> = columns.iter().filter(|c| paged(c)).map(place).collect();
    if let Some(mask) = mask_of(&places) {
        e.line(&format!(
            "active = has_pages(parameter.paging, {mask:#x}ull, shared.near.stripe, active, row);"
        ));
    }
}

/// Fetches columns' values for the active lanes' rows.
fn fetch(writer: &Writer<'_>, e: &mut Emitter<'_>, columns: &[usize]) {
    let by_loads = |c: &usize| writer.shape.columns[*c].access.by_loads();
    let (loaded, queued): (Vec<usize>, Vec<usize>) = columns.iter().partition(|c| by_loads(c));
    for &c in &queued {
        e.line(&format!(
            "const FetchedBits got{c} = fetch_queued(head.io, parameter.columns[{c}], active, row);"
        ));
        e.line(&format!("if (!got{c}.ok) return false;"));
        name_value(writer, e, c, &format!("got{c}.bits"));
    }
    let near = |what: &str| match writer.plan.near_columns.is_empty() {
        true => "0, 0".to_owned(),
        false => format!("shared.near.{what}, {:#x}ull", writer.near_mask(what)),
    };
    for (step, (what, columns)) in [("columns", loaded.clone()), ("valid", writer.nullable(columns))]
        .into_iter()
        .enumerate()
    {
        let (Some(&first), Some(mask)) = (columns.first(), mask_of(&columns)) else {
            continue;
        };
        let near = if step == 1 && writer.near_mask("valid") == 0 {
            "0, 0".to_owned()
        } else {
            near(what)
        };
        let got = format!("{what}_{first}");
        e.line(&format!("u64 {got}[{}];", columns.len().next_multiple_of(4)));
        e.line(&format!(
            "if (!fetch_columns(head.io, parameter.{what}, {mask:#x}ull, {near}, active, row, {got})) return false;"
        ));
        for (at, &c) in columns.iter().enumerate() {
            if step == 0 {
                name_value(writer, e, c, &format!("{got}[{at}]"));
            } else {
                e.line(&format!("const bool ok{c} = ({got}[{at}] & 1) != 0;"));
            }
        }
    }
}

/// Names a value: `const double c1 = …;`
fn name_value(writer: &Writer<'_>, e: &mut Emitter<'_>, c: usize, bits: &str) {
    let column = &writer.program.columns[c];
    let is_true = if column.ty == Type::Bool { " != 0" } else { "" };
    e.line(&format!(
        "const {} c{c} = value_of<{}>({bits}){is_true};",
        cpp_held(column.ty),
        stored(column)
    ));
}
