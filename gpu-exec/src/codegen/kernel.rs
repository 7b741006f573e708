//! `KernelSource`: the complete source of a query's kernel, from declarations to entry point.
//!
//! The function `run` reads tiles, filters them, and adds the rows to their groups or holds them for the stages.

use std::fmt::Write as _;
use std::ops::Range;

use super::plan::Plan;
use super::tile::{Named, declare_tiles, load_tiles, tile_values};
use super::writer::{ENTRY_FUNCTION, Writer};
use super::{ENTRY, GPU_LANES, Grouping, Shape};
use super::{aggregate, coded, declarations, stage};
use crate::error::RunError;
use crate::program::Program;

/// A kernel's source, in parts that can be compiled at the same time.
#[derive(Debug, Clone)]
pub(super) struct KernelSource {
    whole: String,
    /// Range of the stages' functions in `whole`.
    stages: Range<usize>,
}

/// Closes the namespaces that `declarations::head` opens.
const END: &str = "}  // namespace query\n}  // namespace grampus\n";

impl KernelSource {
    /// Writes the kernel. Functions stand before their callers.
    pub(super) fn new(program: &Program, shape: &Shape, plan: &Plan) -> Result<Self, RunError> {
        let writer = &Writer { program, shape, plan };
        let mut whole = String::new();
        declarations::head(writer, &mut whole);
        declarations::words(writer, &mut whole);
        declarations::memory(writer, &mut whole);
        if let Some(scope) = plan.scope {
            whole.push_str(&coded::declaration(scope));
        }
        let declared = whole.len();
        for at in (0..plan.stages.len()).rev() {
            whole.push_str(&stage::stage_function(writer, at)?);
            whole.push_str(&stage::send_function(writer, at));
        }
        if !plan.stages.is_empty() {
            whole.push_str(&stage::drain_function(writer));
        }
        if plan.scope.is_some() {
            whole.push_str(&coded::rows_function(writer)?);
        }
        let stages = declared..whole.len();
        if let Some(scope) = plan.scope {
            whole.push_str(&coded::run(writer)?);
            whole.push_str(&coded::entries(scope));
        } else {
            whole.push_str(&begin(writer));
            whole.push_str(&end(writer));
            whole.push_str(&run(writer)?);
            let _ = writeln!(whole, "GRAMPUS_KERNEL({ENTRY}, QueryParameter, parameter) {{");
            whole.push_str("    GRAMPUS_SHARED_BY_WARP(Shared, shared);\n    run(parameter, shared);\n}\n\n");
        }
        whole.push_str(END);
        Ok(Self { whole, stages })
    }

    pub(super) fn whole(&self) -> &str {
        &self.whole
    }

    /// Sources of two units: the loop over tiles, and the functions that the loop calls by address.
    pub(super) fn parts(&self) -> Vec<String> {
        let (declared, stages) = (&self.whole[..self.stages.start], &self.whole[self.stages.clone()]);
        if stages.is_empty() {
            return vec![self.whole.clone()];
        }
        let functions = stages.lines().filter(|line| line.starts_with(ENTRY_FUNCTION));
        let prototypes: String = functions.map(|line| line.replace(" {", ";\n")).collect();
        vec![
            format!("{declared}{prototypes}\n{}", &self.whole[self.stages.end..]),
            format!("{declared}{stages}{END}"),
        ]
    }
}

/// The loop over tiles of a kernel whose groups have no codes. It must not spill: local memory goes through L2, behind
/// the column loads.
///
/// Therefore the loop calls out-of-line functions by address (`far_call`), and a warp's other state lies in shared
/// memory.
fn run(writer: &Writer<'_>) -> Result<String, RunError> {
    let plan = writer.plan;
    let mut out = String::from(
        "// False: a status is up, or the query is refused.\n\
         GRAMPUS_DEVICE bool run(const QueryParameter& parameter, Shared& shared) {\n    \
         const QueryHead& head = parameter.head;\n",
    );
    let conjuncts = plan.tile_conjuncts.iter().map(|&c| &writer.program.conjuncts[c]);
    let direct = plan.stages.is_empty();
    writer.load_arguments(
        &mut out,
        false,
        conjuncts.chain(writer.last_expressions().filter(|_| direct)),
    );
    declare_tiles(writer, &mut out);
    out.push_str(if direct {
        "    Lane lane = {};\n    begin(parameter, shared, lane);\n    u32 passed = 0;\n"
    } else {
        "    begin(parameter, shared);\n"
    });
    let waits = plan.stages.first().is_some_and(|s| !s.queued);
    if waits {
        out.push_str("    u32 due = ~0u;  // tiles that rows held back still wait\n");
    }
    out.push_str(
        "    u64 row = 0;\n    u32 rows = 0, looked = 0;\n    Tiles<TILE_ROWS, CHUNK> tiles(head);\n    \
        GRAMPUS_NO_UNROLL\n    while (tiles.take(row, rows)) {\n        looked += rows;\n",
    );
    if waits {
        // Without this, the few rows that pass would all be fetched at the end, when no tile is in flight any more.
        out.push_str("        if (due-- == 0 && !far_call(&drain)(parameter, shared)) return false;\n");
    }
    load_tiles(writer, &mut out, 2);
    if plan.grouped() {
        // The check is a load too, so it stands behind the tile's loads.
        out.push_str("        if (is_refused(head)) return false;\n");
    }
    if plan.tile_conjuncts.is_empty() {
        out.push_str("        const u32 pass = lanes_bits<K>(rows);\n");
    } else {
        out.push_str(&filter_tile(writer)?);
    }
    if direct {
        accumulate_tile(writer, &mut out)?;
        out.push_str("    }\n    return end(parameter, shared, lane, looked, passed);\n}\n\n");
    } else {
        hold_tile(writer, &mut out, waits);
        out.push_str("    }\n    return end(parameter, shared, looked);\n}\n\n");
    }
    Ok(out)
}

/// Adds a tile's rows. The loop is unrolled, because accumulators and the tile's values are in registers.
fn accumulate_tile(writer: &Writer<'_>, out: &mut String) -> Result<(), RunError> {
    out.push_str("        passed += count_bits(pass);\n");
    let mut inner = writer.emitter(3);
    inner.line("const bool active = pass >> i & 1;");
    tile_values(writer, &mut inner, Named::ByIndex);
    aggregate::accumulate(writer, &mut inner)?;
    out.push_str("        GRAMPUS_UNROLL\n        for (u32 i = 0; i < K; i++) {\n");
    out.push_str(&inner.statements.out);
    out.push_str("        }\n");
    Ok(())
}

/// Holds the rows that passed, one row of each lane after another: they are few.
fn hold_tile(writer: &Writer<'_>, out: &mut String, waits: bool) {
    out.push_str(
        "        GRAMPUS_NO_UNROLL\n        \
         for (u32 left = or_of_lanes(pass); left != 0; left &= left - 1) {\n            \
         const u32 i = lowest_bit(left);\n            const bool active = pass >> i & 1;\n",
    );
    let mut e = writer.emitter(3);
    stage::hold(
        writer,
        &mut e,
        0,
        "row + i * WARP + lane_id()",
        &|c| format!("pick(tile_{c}, i)"),
        &|c| format!("valid_tile_{c} >> i & 1"),
    );
    out.push_str(&e.statements.out);
    out.push_str("        }\n");
    if waits {
        out.push_str("        if (shared.tally.ring_1.held > 0 && due > head.patience) due = head.patience;\n");
    }
}

/// Computes `pass`: a bit for each of the lane's values that passes.
fn filter_tile(writer: &Writer<'_>) -> Result<String, RunError> {
    let mut out = String::new();
    let mut e = writer.emitter(3);
    writer.narrow(&mut e, &writer.plan.tile_conjuncts)?;
    let mut values = writer.emitter(3);
    tile_values(writer, &mut values, Named::ByIndex);
    if e.statements.may_refuse {
        out.push_str("        const u32 here = lanes_bits<K>(rows);\n        bool refused = false;\n");
        values.line("bool active = here >> i & 1;");
    } else {
        values.line("bool active = true;");
    }
    e.line("if (active) pass |= 1u << i;");
    out.push_str("        u32 pass = 0;\n        GRAMPUS_UNROLL\n        for (u32 i = 0; i < K; i++) {\n");
    out.push_str(&values.statements.out);
    out.push_str(&e.statements.out);
    out.push_str("        }\n");
    out.push_str(if e.statements.may_refuse {
        "        if (leaves(head, refused)) return false;\n"
    } else {
        // Values beyond the last row are zero, and the filter may pass them.
        "        if (rows < TILE_ROWS) pass &= lanes_bits<K>(rows);\n"
    });
    out.push_str("        if (!any(pass != 0)) continue;\n");
    Ok(out)
}

/// Begins a launch: restores a warp's state from the previous launch, or starts from zero, and fills its cache for
/// stages.
fn begin(writer: &Writer<'_>) -> String {
    let plan = writer.plan;
    let staged = !plan.stages.is_empty();
    let lane = if staged { "" } else { ", Lane& lane" };
    let mut out = format!(
        "GRAMPUS_DEVICE void begin(const QueryParameter& parameter, Shared& shared{lane}) {{\n    \
         const QueryHead& head = parameter.head;\n"
    );
    if plan.own_groups > 0 {
        out.push_str("    if (lane_id() == 0) shared.own.used = 0;\n    sync_warp();\n");
    }
    if !staged {
        // The function fills a copy: a variable with an address would be in memory, not in registers.
        out.push_str(
            "    if ((head.flags & LAUNCH_FIRST) != 0) return;\n    Lane before;\n    \
            resume(head, (u64*)&shared, words_in<Shared>(), (u64*)&before, words_in<Lane>());\n    \
            lane = before;\n}\n\n",
        );
        return out;
    }
    out.push_str("    begin_warp(head, (u64*)&shared, words_in<Shared>(), (u64*)&shared.tally, words_in<Tally>());\n");
    for what in ["columns", "valid"] {
        let mask = writer.near_mask(what);
        if mask != 0 {
            let _ = writeln!(
                out,
                "    fill_near(parameter.{what}, {mask:#x}ull, shared.near.{what});"
            );
        }
    }
    if plan.near_stripe {
        out.push_str("    if (lane_id() == 0) shared.near.stripe = NearStripe{0, 0, 0};\n");
    }
    for (at, a) in plan.near_arguments.iter().enumerate() {
        let _ = writeln!(
            out,
            "    if (lane_id() == 0) shared.near.argument[{at}] = load_constant(&head.arguments[{a}]);"
        );
    }
    out.push_str("    sync_warp();\n}\n\n");
    out
}

fn end(writer: &Writer<'_>) -> String {
    let plan = writer.plan;
    let bytes = plan.sizes(GPU_LANES).partial_bytes;
    debug_assert!(plan.grouped() == (writer.shape.grouping != Grouping::Ungrouped));
    if !plan.stages.is_empty() {
        let partial = match (plan.grouped(), plan.own_groups > 0) {
            (false, _) => "shared.tally.word, Words::COUNT",
            (true, true) => "(const u64*)&shared.own, sizeof shared.own / 8",
            (true, false) => "0, 0",
        };
        return format!(
            "GRAMPUS_DEVICE bool end(const QueryParameter& parameter, Shared& shared, u32 looked) {{\n    \
             const QueryHead& head = parameter.head;\n    \
             if ((head.flags & (LAUNCH_LAST | LAUNCH_FLUSH)) != 0 && \
             !far_call(&drain)(parameter, shared)) return false;\n    \
             sync_warp();\n    \
             end_warp(head, (const u64*)&shared, words_in<Shared>(), shared.tally.counted, \
             STEPS, looked, {partial}, {bytes});\n    \
             return true;\n}}\n\n"
        );
    }
    let mut out = String::from(
        "GRAMPUS_DEVICE bool end(const QueryParameter& parameter, Shared& shared, Lane& lane, \
         u32 looked, u32 passed) {\n    \
         const QueryHead& head = parameter.head;\n    u64* counters = head.counters + (u64)launch_warp() * 2;\n    \
         passed = sum_of_lanes(passed);\n    if (lane_id() == 0) {\n        counters[0] += looked;\n        \
         counters[1] += passed;\n    }\n    \
         if ((head.flags & LAUNCH_LAST) == 0) {\n        const Lane after = lane;\n        \
         keep(head, (const u64*)&shared, words_in<Shared>(), (const u64*)&after, words_in<Lane>());\n        \
         return true;\n    }\n",
    );
    if bytes > 0 {
        let _ = writeln!(
            out,
            "    u64* partial = (u64*)(head.partials + (u64)launch_warp() * {bytes});"
        );
    }
    if plan.own_groups > 0 {
        out.push_str(
            "    sync_warp();\n    copy_words_together(partial, (const u64*)&shared.own, sizeof shared.own / 8);\n",
        );
    } else if !plan.grouped() {
        out.push_str(
            "    combine_lanes<Words>(lane.word);\n    if (lane_id() != 0) return true;\n    \
            GRAMPUS_UNROLL\n    for (u32 i = 0; i < Words::COUNT; i++) partial[i] = lane.word[i];\n",
        );
    }
    out.push_str("    return true;\n}\n\n");
    out
}
