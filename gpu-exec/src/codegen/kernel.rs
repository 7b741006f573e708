//! The text of a query's kernel: a class `Warp` whose `run` reads tiles and whose stages deal with the rows that passed.
//! What it declares is declare.rs's business, how rows are added up aggregate.rs's, how expressions are written expr.rs's; what is read
//! where was decided in plan.rs.

use std::fmt::Write as _;

use super::expr::{Emitter, arguments_of, cpp, stored};
use super::plan::{Plan, Stage};
use super::{Access, ENTRY, GPU_LANES, Grouping, Shape};
use crate::output::RunError;
use crate::paging::{PLACE_PAGES, PUBLISH_PAGES};
use crate::program::{Expr, Program, Type};

/// Longest comment about one thing.
const COMMENT_CHARS: usize = 120;

/// Writes the kernel.
pub(super) fn text(program: &Program, shape: &Shape, plan: &Plan) -> Result<String, RunError> {
    let writer = Writer { program, shape, plan };
    let mut out = String::new();
    writer.head(&mut out);
    writer.words(&mut out);
    writer.memory(&mut out);
    out.push_str("class Warp {\n");
    writer.members(&mut out);
    out.push_str(&writer.run()?);
    for at in 0..plan.stages.len() {
        out.push_str(&writer.hold(at));
        out.push_str(&writer.stage(at)?);
    }
    writer.end(&mut out);
    out.push_str("};\n\n}  // namespace\n\n");
    let _ = writeln!(out, "GRAMPUS_KERNEL({ENTRY}, QueryParameter, parameter) {{");
    out.push_str(
        "    GRAMPUS_SHARED_BY_WARP(Shared, shared);\n    Warp warp(parameter, shared);\n    warp.run();\n}\n\n",
    );
    if writer.is_paged() {
        let _ = writeln!(
            out,
            "GRAMPUS_KERNEL({PLACE_PAGES}, PageBatch, batch) {{ place_pages(batch); }}\n\
             GRAMPUS_KERNEL({PUBLISH_PAGES}, PagesCame, what) {{ publish_pages(what); }}\n"
        );
    }
    out.push_str("}  // namespace grampus\n");
    Ok(out)
}

pub(super) struct Writer<'a> {
    pub(super) program: &'a Program,
    pub(super) shape: &'a Shape,
    pub(super) plan: &'a Plan,
}

/// Text that cannot end a comment.
pub(super) fn comment(text: &str) -> String {
    let safe = |c: char| {
        if c.is_control() || c == '\\' || !c.is_ascii() {
            '?'
        } else {
            c
        }
    };
    let mut out: String = text.chars().take(COMMENT_CHARS).map(safe).collect();
    if text.chars().count() > COMMENT_CHARS {
        out.push_str(" ...");
    }
    out
}

impl Writer<'_> {
    pub(super) fn is_paged(&self) -> bool {
        self.shape.columns.iter().any(|c| c.access == Access::Paged)
    }

    // ---- tiles --------------------------------------------------------------------------------------------

    /// `const double a0 = argument<double>(head, 0);` for each argument of the expressions.
    fn load_arguments<'e>(&self, out: &mut String, exprs: impl IntoIterator<Item = &'e Expr>) {
        for a in arguments_of(exprs) {
            let ty = cpp(self.program.arguments[a]);
            let _ = writeln!(out, "        const {ty} a{a} = argument<{ty}>(head, {a});");
        }
    }

    pub(super) fn emitter(&self, indent: usize) -> Emitter<'_> {
        Emitter::new(self.program, self.shape, indent)
    }

    /// Keys and aggregates.
    fn last_expressions(&self) -> impl Iterator<Item = &Expr> {
        self.program.expressions().skip(self.program.conjuncts.len())
    }

    fn run(&self) -> Result<String, RunError> {
        let plan = self.plan;
        let mut out =
            String::from("    // False: a status is up, or the query is refused.\n    GRAMPUS_DEVICE bool run() {\n");
        let conjuncts = plan.tile_conjuncts.iter().map(|&c| &self.program.conjuncts[c]);
        let direct = plan.stages.is_empty();
        self.load_arguments(&mut out, conjuncts.chain(self.last_expressions().filter(|_| direct)));
        for &c in &plan.tile_columns {
            let _ = writeln!(
                out,
                "        {} tiles_{c}(head.io, parameter.columns[{c}]);",
                self.array(c)
            );
            if self.shape.columns[c].nullable {
                let _ = writeln!(
                    out,
                    "        ColumnArray<u8, Mapped, true> valid_tiles_{c}(head.io, parameter.valid[{c}]);"
                );
            }
        }
        out.push_str("        begin();\n        u64 row = 0;\n        u32 rows = 0, looked = 0");
        let waits = !plan.tile_conjuncts.is_empty() && plan.stages.first().is_some_and(|s| !s.queued);
        out.push_str(if waits { ", waited = 0;\n" } else { ";\n" });
        out.push_str("        Tiles<TILE_ROWS, CHUNK> tiles(head);\n        GRAMPUS_NO_UNROLL\n        while (tiles.take(row, rows)) {\n");
        if plan.grouped() {
            out.push_str("            if (is_refused(head)) return false;\n");
        }
        out.push_str("            looked += rows;\n");
        let filtered = !plan.tile_conjuncts.is_empty();
        if waits {
            // Few rows pass: without this all of them would be fetched at the end, when no tile is on its way any more.
            out.push_str(
                "            if (++waited > head.patience) {\n                waited = 0;\n                \
                 while (lane.ring_1.held > 0)\n                    if (!stage_1()) return false;\n            }\n",
            );
        }
        self.load_tiles(&mut out);
        if filtered {
            out.push_str(&self.filter_tile()?);
        } else {
            out.push_str("            const u32 pass = lanes_bits<K>(rows);\n");
        }
        let mut inner = self.emitter(4);
        inner.line("const bool active = pass >> i & 1;");
        if direct {
            self.tile_values(&mut inner);
            self.accumulate(&mut inner)?;
        } else {
            let values = self.carried_values(0, |c| format!("tile_{c}[i]"), |c| format!("valid_tile_{c}[i]"));
            inner.line(&format!(
                "if (any(active) && !hold_1(active, row + i * WARP + lane_id(){values})) return false;"
            ));
        }
        // What needs a tile's values must be unrolled: they are in registers.
        out.push_str(if direct || !plan.stages[0].carried.is_empty() {
            "            GRAMPUS_UNROLL\n            for (u32 i = 0; i < K; i++) {\n"
        } else {
            "            GRAMPUS_NO_UNROLL\n            for (u32 left = or_of_lanes(pass); left != 0; left &= left - 1) {\n                \
             const u32 i = lowest_bit(left);\n"
        });
        out.push_str(&inner.out);
        out.push_str("            }\n        }\n        return end(looked);\n    }\n\n");
        Ok(out)
    }

    fn load_tiles(&self, out: &mut String) {
        let sequential = self.plan.chunk > 1;
        for &c in &self.plan.tile_columns {
            let ty = stored(self.program.columns[c].ty);
            let _ = writeln!(out, "            {ty} tile_{c}[K];");
            let _ = writeln!(
                out,
                "            if (!tiles_{c}.tile_anywhere<K, {sequential}>(row, rows, tile_{c})) return false;"
            );
            if self.shape.columns[c].nullable {
                let _ = writeln!(out, "            u8 valid_tile_{c}[K];");
                let _ = writeln!(
                    out,
                    "            if (!valid_tiles_{c}.tile_anywhere<K>(row, rows, valid_tile_{c})) return false;"
                );
            }
        }
    }

    /// Names for the tile's values of one row.
    fn tile_values(&self, e: &mut Emitter<'_>) {
        for &c in &self.plan.tile_columns {
            let ty = self.program.columns[c].ty;
            let is_true = if ty == Type::Bool { " != 0" } else { "" };
            e.line(&format!("const {} c{c} = tile_{c}[i]{is_true};", cpp(ty)));
            if self.shape.columns[c].nullable {
                e.line(&format!("const bool ok{c} = valid_tile_{c}[i] != 0;"));
            }
        }
    }

    /// `pass`: a bit for each of the lane's values that passes.
    fn filter_tile(&self) -> Result<String, RunError> {
        let mut out = String::from("            const u32 here = lanes_bits<K>(rows);\n            u32 pass = 0;\n");
        let mut e = self.emitter(4);
        self.tile_values(&mut e);
        e.line("bool active = here >> i & 1;");
        self.narrow(&mut e, &self.plan.tile_conjuncts)?;
        e.line("pass |= (active ? 1u : 0u) << i;");
        if e.may_refuse {
            out.push_str("            bool refused = false;\n");
        }
        out.push_str("            GRAMPUS_UNROLL\n            for (u32 i = 0; i < K; i++) {\n");
        out.push_str(&e.out);
        out.push_str("            }\n");
        if e.may_refuse {
            out.push_str("            if (leaves(refused)) return false;\n");
        }
        out.push_str("            if (!any(pass != 0)) continue;\n");
        Ok(out)
    }

    /// Leaves active only where the conjuncts are true.
    fn narrow(&self, e: &mut Emitter<'_>, conjuncts: &[usize]) -> Result<(), RunError> {
        for &at in conjuncts {
            let conjunct = &self.program.conjuncts[at];
            e.line(&format!("// {}", comment(&self.program.show(conjunct).to_string())));
            let value = e.expr(conjunct)?;
            e.line(&format!("active = active && {};", value.is_true()));
        }
        Ok(())
    }

    /// What is given along to a ring: `, c0, ok0 …`.
    fn carried_values(&self, at: usize, value: impl Fn(usize) -> String, valid: impl Fn(usize) -> String) -> String {
        let mut out = String::new();
        for &c in &self.plan.stages[at].carried {
            let _ = write!(out, ", {}", value(c));
            if self.shape.columns[c].nullable {
                let _ = write!(out, ", {}", valid(c));
            }
        }
        out
    }

    /// The function that holds the active lanes' rows back for stage `at`: out of line, since unrolled loops call it.
    fn hold(&self, at: usize) -> String {
        let n = at + 1;
        let stage = &self.plan.stages[at];
        let mut out = format!(
            "    // Holds the active lanes' rows back, and goes on with them once there are enough.\n    \
             GRAMPUS_SLOW bool hold_{n}(bool active, u64 row"
        );
        for &c in &stage.carried {
            let _ = write!(out, ", {} c{c}", stored(self.program.columns[c].ty));
            if self.shape.columns[c].nullable {
                let _ = write!(out, ", u8 ok{c}");
            }
        }
        let _ = writeln!(
            out,
            ") {{\n        const u32 to = lane.ring_{n}.put(active);\n        if (active) {{"
        );
        let _ = writeln!(out, "            shared.held_{n}.row[to] = row;");
        for &c in &stage.carried {
            let _ = writeln!(out, "            shared.held_{n}.c{c}[to] = c{c};");
            if self.shape.columns[c].nullable {
                let _ = writeln!(out, "            shared.held_{n}.ok{c}[to] = ok{c};");
            }
        }
        out.push_str("        }\n");
        for &c in stage.steps.first().map_or(&[][..], |s| &s.fetch) {
            if self.shape.columns[c].access == Access::Queued {
                let _ = writeln!(out, "        if (!column_{c}.prefetch(active, row)) return false;");
            }
        }
        let _ = writeln!(
            out,
            "        return lane.ring_{n}.held < ENOUGH_{n} || stage_{n}();\n    }}\n"
        );
        out
    }

    // ---- stages -------------------------------------------------------------------------------------------

    fn stage(&self, at: usize) -> Result<String, RunError> {
        let n = at + 1;
        let stage = &self.plan.stages[at];
        let last = at + 1 == self.plan.stages.len();
        let mut out = format!(
            "    // Takes rows that were held back: the oldest, as many as there are lanes, or all.\n    \
             GRAMPUS_SLOW bool stage_{n}() {{\n"
        );
        let conjuncts = stage.steps.iter().flat_map(|s| &s.conjuncts);
        let conjuncts = conjuncts.map(|&c| &self.program.conjuncts[c]);
        self.load_arguments(&mut out, conjuncts.chain(self.last_expressions().filter(|_| last)));
        let mut e = self.emitter(2);
        self.take(&mut e, n, stage);
        let first_counter: usize = self.plan.stages[..at].iter().map(|s| s.steps.len()).sum();
        for (i, step) in stage.steps.iter().enumerate() {
            e.line(&format!("counted[{}] += active ? 1 : 0;", first_counter + i));
            self.look_for_pages(&mut e, i, &step.fetch);
            step.fetch.iter().for_each(|&c| self.fetch(&mut e, c));
            let mut of_step = self.emitter(2);
            std::mem::swap(&mut of_step.out, &mut e.out);
            self.narrow(&mut e, &step.conjuncts)?;
            if e.may_refuse {
                of_step.line("bool refused = false;");
                e.line("if (leaves(refused)) return false;");
            }
            // One block for each step, for the names in it.
            let body = std::mem::take(&mut e.out);
            e.out = of_step.out + &body;
        }
        if last {
            self.accumulate(&mut e)?;
        } else {
            let values = self.carried_values(at + 1, |c| format!("c{c}"), |c| format!("ok{c}"));
            e.line(&format!(
                "if (any(active) && !hold_{}(active, row{values})) return false;",
                n + 1
            ));
        }
        out.push_str(&e.out);
        out.push_str("        return true;\n    }\n\n");
        Ok(out)
    }

    /// Names for what the ring kept.
    fn take(&self, e: &mut Emitter<'_>, n: usize, stage: &Stage) {
        e.line("u32 at;");
        e.line("sync_warp();");
        e.line(&format!("bool active = lane.ring_{n}.take(at);"));
        e.line(&format!("const u64 row = shared.held_{n}.row[at];"));
        for &c in &stage.carried {
            let ty = self.program.columns[c].ty;
            let is_true = if ty == Type::Bool { " != 0" } else { "" };
            e.line(&format!("const {} c{c} = shared.held_{n}.c{c}[at]{is_true};", cpp(ty)));
            if self.shape.columns[c].nullable {
                e.line(&format!("const bool ok{c} = shared.held_{n}.ok{c}[at] != 0;"));
            }
        }
        e.line("sync_warp();");
    }

    /// Leaves active only rows of which all of the columns are there. All that is missing is asked for at once.
    fn look_for_pages(&self, e: &mut Emitter<'_>, step: usize, columns: &[usize]) {
        let paged = |c: &usize| self.shape.columns[*c].access == Access::Paged;
        if !columns.iter().any(paged) {
            return;
        }
        e.line(&format!("bool missed{step} = false;"));
        for &c in columns.iter().filter(|c| paged(c)) {
            let place = (0..c).filter(paged).count();
            e.line(&format!(
                "missed{step} = pages.misses({place}, active, row) || missed{step};  // c{c}"
            ));
        }
        e.line(&format!("active = active && !missed{step};"));
    }

    /// A column's values of the active lanes' rows.
    fn fetch(&self, e: &mut Emitter<'_>, c: usize) {
        let ty = self.program.columns[c].ty;
        let (in_memory, in_register) = (stored(ty), cpp(ty));
        let value = if self.shape.columns[c].access == Access::Queued {
            e.line(&format!(
                "const FetchedValue<{in_memory}> got{c} = fetch_apart<{in_memory}>(column_{c}, active, row);"
            ));
            e.line(&format!("if (!got{c}.ok) return false;"));
            format!("got{c}.value")
        } else {
            e.line(&format!("{in_memory} got{c};"));
            e.line(&format!("if (!column_{c}.fetch(active, row, got{c})) return false;"));
            format!("got{c}")
        };
        let is_true = if ty == Type::Bool { " != 0" } else { "" };
        e.line(&format!("const {in_register} c{c} = {value}{is_true};"));
        if self.shape.columns[c].nullable {
            e.line(&format!("u8 there{c};"));
            e.line(&format!("if (!valid_{c}.fetch(active, row, there{c})) return false;"));
            e.line(&format!("const bool ok{c} = there{c} != 0;"));
        }
    }

    // ---- begin and end of a launch ------------------------------------------------------------------------

    /// Functions out of line get copies, and arrays are walked by unrolled loops: else what a lane has would be in memory, not in
    /// registers.
    fn end(&self, out: &mut String) {
        let plan = self.plan;
        out.push_str(
            "    // Whether a lane found that the query cannot be answered here.\n    GRAMPUS_DEVICE bool leaves(bool refused) {\n        \
             if (!any(refused)) return false;\n        refuse(head, REFUSED_VALUE);\n        return true;\n    }\n\n",
        );
        out.push_str("    GRAMPUS_DEVICE void begin() {\n");
        if plan.own_groups > 0 {
            out.push_str("        if (lane_id() == 0) shared.own.used = 0;\n        sync_warp();\n");
        }
        out.push_str("        if ((head.flags & LAUNCH_FIRST) != 0) return;\n        Lane before;\n        resume(head, shared, before);\n        lane = before;\n    }\n\n");
        out.push_str(
            "    GRAMPUS_DEVICE bool end(u32 looked) {\n        const bool last = (head.flags & LAUNCH_LAST) != 0;\n",
        );
        for n in 1..=plan.stages.len() {
            if n == 1 {
                out.push_str("        if (last || (head.flags & LAUNCH_FLUSH) != 0) {\n");
            }
            let _ = writeln!(
                out,
                "            while (lane.ring_{n}.held > 0)\n                if (!stage_{n}()) return false;"
            );
        }
        if !plan.stages.is_empty() {
            out.push_str("        }\n");
        }
        let counters = plan.counters();
        let _ = writeln!(
            out,
            "        u64* counters = head.counters + (u64)launch_warp() * {counters};"
        );
        out.push_str("        if (lane_id() == 0) counters[0] += looked;\n");
        let _ = writeln!(
            out,
            "        GRAMPUS_UNROLL\n        for (u32 i = 0; i < {}; i++) {{\n            u32 sum = sum_of_lanes(counted[i]);\n            \
             if (lane_id() == 0) counters[1 + i] += sum;\n        }}",
            counters - 1
        );
        out.push_str(
            "        if (!last) {\n            const Lane after = lane;\n            keep(head, shared, after);\n            return true;\n        }\n",
        );
        let bytes = plan.sizes(GPU_LANES).partial_bytes;
        if bytes > 0 {
            let _ = writeln!(
                out,
                "        u64* partial = (u64*)(head.partials + (u64)launch_warp() * {bytes});"
            );
        }
        if !plan.grouped() {
            out.push_str(
                "        combine_lanes<Words>(lane.word);\n        if (lane_id() != 0) return true;\n        GRAMPUS_UNROLL\n        for (u32 i = 0; i < Words::COUNT; i++) partial[i] = lane.word[i];\n",
            );
        } else if plan.own_groups > 0 {
            out.push_str("        sync_warp();\n        copy_words_together(partial, (const u64*)&shared.own, sizeof shared.own / 8);\n");
        }
        out.push_str("        return true;\n    }\n");
        debug_assert!(plan.grouped() == (self.shape.grouping != Grouping::Ungrouped));
    }
}
