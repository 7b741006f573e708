//! The part of a kernel's text that deals with rows that were held back: rings, and the stages that take from them, fetch columns,
//! evaluate later conjuncts and give on what is left. All of it is out of line, and what it keeps is in shared memory.

use std::fmt::Write as _;

use super::Access;
use super::expr::{Emitter, cpp, stored};
use super::kernel::Writer;
use super::plan::Stage;
use crate::output::RunError;
use crate::program::Type;

impl Writer<'_> {
    /// The function that holds the active lanes' rows back for stage `at`.
    pub(super) fn hold(&self, at: usize) -> String {
        let n = at + 1;
        let stage = &self.plan.stages[at];
        let mut out = format!(
            "// Holds the active lanes' rows back, and goes on with them once there are enough. How many are held then; STOP: leave.\n\
             GRAMPUS_SLOW u32 hold_{n}(const QueryParameter& parameter, Shared& shared, bool active, u64 row"
        );
        for &c in &stage.carried {
            let _ = write!(out, ", {} c{c}", stored(self.program.columns[c].ty));
            if self.shape.columns[c].nullable {
                let _ = write!(out, ", u8 ok{c}");
            }
        }
        let _ = writeln!(
            out,
            ") {{\n    const u32 to = shared.tally.ring_{n}.put(active);\n    if (active) {{"
        );
        let _ = writeln!(out, "        shared.held_{n}.row[to] = row;");
        for &c in &stage.carried {
            let _ = writeln!(out, "        shared.held_{n}.c{c}[to] = c{c};");
            if self.shape.columns[c].nullable {
                let _ = writeln!(out, "        shared.held_{n}.ok{c}[to] = ok{c};");
            }
        }
        out.push_str("    }\n    sync_warp();\n");
        for &c in stage.steps.first().map_or(&[][..], |s| &s.fetch) {
            if self.shape.columns[c].access == Access::Queued {
                let array = self.array(c);
                let _ = writeln!(
                    out,
                    "    if (!{array}(parameter.head.io, parameter.columns[{c}]).prefetch(active, row)) return STOP;"
                );
            }
        }
        let _ = writeln!(
            out,
            "    if (shared.tally.ring_{n}.held >= ENOUGH_{n} && !stage_{n}(parameter, shared)) return STOP;\n    \
             return shared.tally.ring_{n}.held;\n}}\n"
        );
        out
    }

    /// Empties all rings.
    pub(super) fn drain(&self) -> String {
        let mut out = String::from(
            "// Goes on with all rows that are held back.\nGRAMPUS_SLOW bool drain(const QueryParameter& parameter, Shared& shared) {\n",
        );
        for n in 1..=self.plan.stages.len() {
            let _ = writeln!(
                out,
                "    while (shared.tally.ring_{n}.held > 0)\n        if (!stage_{n}(parameter, shared)) return false;"
            );
        }
        out.push_str("    return true;\n}\n\n");
        out
    }

    pub(super) fn stage(&self, at: usize) -> Result<String, RunError> {
        let n = at + 1;
        let stage = &self.plan.stages[at];
        let last = at + 1 == self.plan.stages.len();
        let mut out = format!(
            "// Takes rows that were held back: the oldest, as many as there are lanes, or all.\n\
             GRAMPUS_SLOW bool stage_{n}(const QueryParameter& parameter, Shared& shared) {{\n    \
             const QueryHead& head = parameter.head;\n"
        );
        let conjuncts = stage.steps.iter().flat_map(|s| &s.conjuncts);
        let conjuncts = conjuncts.map(|&c| &self.program.conjuncts[c]);
        self.load_arguments(&mut out, true, conjuncts.chain(self.last_expressions().filter(|_| last)));
        let mut e = self.emitter(1);
        self.take(&mut e, n, stage);
        let first_counter: usize = self.plan.stages[..at].iter().map(|s| s.steps.len()).sum();
        for (i, step) in stage.steps.iter().enumerate() {
            e.line(&format!("tally(shared.tally.counted[{}], active);", first_counter + i));
            self.fetch(&mut e, &step.fetch);
            let mut of_step = self.emitter(1);
            std::mem::swap(&mut of_step.out, &mut e.out);
            self.narrow(&mut e, &step.conjuncts)?;
            if e.may_refuse {
                of_step.line("bool refused = false;");
                e.line("if (leaves(head, refused)) return false;");
            }
            // One block for each step, for the names in it.
            let body = std::mem::take(&mut e.out);
            e.out = of_step.out + &body;
        }
        if last {
            e.line(&format!("tally(shared.tally.counted[{}], active);", self.plan.counters() - 2));
            self.accumulate(&mut e)?;
        } else {
            let values = self.carried_values(at + 1, |c| format!("c{c}"), |c| format!("ok{c}"));
            e.line(&format!(
                "if (any(active) && hold_{}(parameter, shared, active, row{values}) == STOP) return false;",
                n + 1
            ));
        }
        out.push_str(&e.out);
        out.push_str("    return true;\n}\n\n");
        Ok(out)
    }

    /// Names for what the ring kept.
    fn take(&self, e: &mut Emitter<'_>, n: usize, stage: &Stage) {
        e.line("u32 at;");
        e.line(&format!("bool active = shared.tally.ring_{n}.take(at);"));
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

    /// Columns' values of the active lanes' rows. Those that come by loads are all found before the first one is loaded, so that the
    /// loads are under way together.
    fn fetch(&self, e: &mut Emitter<'_>, columns: &[usize]) {
        let by_loads = |c: &usize| self.shape.columns[*c].access == Access::Plain;
        let (loaded, queued): (Vec<usize>, Vec<usize>) = columns.iter().partition(|c| by_loads(c));
        for &c in &queued {
            let in_memory = stored(self.program.columns[c].ty);
            e.line(&format!(
                "const FetchedValue<{in_memory}> got{c} = fetch_apart<{in_memory}, {}>(head.io, parameter.columns[{c}], active, row);",
                self.array(c)
            ));
            e.line(&format!("if (!got{c}.ok) return false;"));
            self.name_value(e, c, &format!("got{c}.value"));
        }
        for &c in &loaded {
            let width = self.program.columns[c].ty.width();
            self.locate(e, &format!("at{c}"), &format!("columns[{c}]"), &format!("c{c}"), width);
        }
        let nullable: Vec<usize> = columns.iter().copied().filter(|&c| self.shape.columns[c].nullable).collect();
        for &c in &nullable {
            self.locate(e, &format!("there{c}"), &format!("valid[{c}]"), &format!("ok{c}"), 1);
        }
        for &c in &loaded {
            let (in_memory, aligned) = (stored(self.program.columns[c].ty), self.shape.columns[c].aligned);
            e.line(&format!(
                "const {in_memory} got{c} = value_at<{in_memory}, {aligned}>(active, at{c}.place);"
            ));
        }
        for &c in &nullable {
            e.line(&format!("const bool ok{c} = value_at<u8, true>(active, there{c}.place) != 0;"));
        }
        loaded.iter().for_each(|&c| self.name_value(e, c, &format!("got{c}")));
    }

    fn locate(&self, e: &mut Emitter<'_>, name: &str, column: &str, near: &str, width: u32) {
        let is_near = self.near_columns().iter().any(|(n, _)| n == near);
        let near = if is_near { format!("&shared.near.{near}") } else { "0".to_owned() };
        e.line(&format!(
            "const Located {name} = locate(head.io, parameter.{column}, {near}, active, row, {width});"
        ));
        e.line(&format!("if (!{name}.ok) return false;"));
    }

    /// Columns whose last extent a warp keeps at hand: the name there, and the description's.
    pub(super) fn near_columns(&self) -> Vec<(String, String)> {
        let mut near = Vec::new();
        for &c in &self.plan.near_columns {
            near.push((format!("c{c}"), format!("columns[{c}]")));
            if self.shape.columns[c].nullable {
                near.push((format!("ok{c}"), format!("valid[{c}]")));
            }
        }
        near
    }

    /// `const double c1 = …;`
    fn name_value(&self, e: &mut Emitter<'_>, c: usize, value: &str) {
        let ty = self.program.columns[c].ty;
        let is_true = if ty == Type::Bool { " != 0" } else { "" };
        e.line(&format!("const {} c{c} = {value}{is_true};", cpp(ty)));
    }
}
