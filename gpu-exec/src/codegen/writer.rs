//! `Writer`: program, shape and plan, with the phrases that several parts of a kernel's source share.

use std::fmt::Write as _;

use super::expr::{Emitter, arguments_of};
use super::plan::Plan;
use super::statements::{cpp_held, stored};
use super::{Access, Shape};
use crate::abi::query::Tail;
use crate::error::RunError;
use crate::program::{Expr, Program};

/// First words of a function that the loop over tiles calls, and that may be in another unit.
pub(super) const ENTRY_FUNCTION: &str = "GRAMPUS_ENTRY bool ";
/// Maximum length of a comment.
const COMMENT_CHARS: usize = 120;

/// A program, the shape of its columns, and the plan of its kernel.
pub(super) struct Writer<'a> {
    pub(super) program: &'a Program,
    pub(super) shape: &'a Shape,
    pub(super) plan: &'a Plan,
}

/// The text on one line, and without characters that end a comment.
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

    /// The end of the kernel's parameter.
    pub(super) fn tail(&self) -> Tail {
        Tail {
            is_paged: self.is_paged(),
            coded_keys: self.plan.scope.map_or(0, |_| self.program.keys.len()),
        }
    }

    /// Writes `const double a0 = argument<double>(head, 0);` for each argument of the expressions. Arguments that a
    /// warp caches are read from its cache.
    pub(super) fn load_arguments<'e>(
        &self,
        out: &mut String,
        at_hand: bool,
        exprs: impl IntoIterator<Item = &'e Expr>,
    ) {
        for a in arguments_of(exprs) {
            let ty = cpp_held(self.program.arguments[a]);
            let near = self.plan.near_arguments.iter().position(|&near| near == a);
            let value = match near.filter(|_| at_hand) {
                Some(at) => format!("argument_of<{ty}>(shared.near.argument[{at}])"),
                None => format!("argument<{ty}>(head, {a})"),
            };
            let _ = writeln!(out, "    const {ty} a{a} = {value};");
        }
    }

    pub(super) fn emitter(&self, indent: usize) -> Emitter<'_> {
        Emitter::new(self.program, self.shape, indent)
    }

    /// Expressions of keys and aggregates.
    pub(super) fn last_expressions(&self) -> impl Iterator<Item = &Expr> {
        self.program.expressions().skip(self.program.conjuncts.len())
    }

    /// Deactivates lanes unless all conjuncts are true.
    pub(super) fn narrow(&self, e: &mut Emitter<'_>, conjuncts: &[usize]) -> Result<(), RunError> {
        for &at in conjuncts {
            let conjunct = &self.program.conjuncts[at];
            e.line(&format!("// {}", comment(&self.program.show(conjunct).to_string())));
            let value = e.expr(conjunct)?;
            e.line(&format!("active = active && {};", value.is_true()));
        }
        Ok(())
    }

    pub(super) fn nullable(&self, columns: &[usize]) -> Vec<usize> {
        let mut nullable: Vec<usize> = columns
            .iter()
            .copied()
            .filter(|&c| self.shape.columns[c].nullable)
            .collect();
        nullable.sort_unstable();
        nullable
    }

    /// Bits of the columns (`columns`) or validity arrays (`valid`) with an extent in a warp's cache.
    pub(super) fn near_mask(&self, what: &str) -> u64 {
        let near = &self.plan.near_columns;
        match what {
            "valid" => mask_of(&self.nullable(near)).unwrap_or(0),
            _ => mask_of(near).unwrap_or(0),
        }
    }

    /// `ColumnArray<…>` of a column.
    pub(super) fn array(&self, column: usize) -> String {
        let (of, shape) = (&self.program.columns[column], &self.shape.columns[column]);
        let backing = if shape.access.by_loads() { "Mapped" } else { "Queued<>" };
        format!("ColumnArray<{}, {backing}, {}>", stored(of), shape.aligned)
    }
}

/// A bit for each column. `None`: no columns.
pub(super) fn mask_of(columns: &[usize]) -> Option<u64> {
    let mask = columns.iter().fold(0u64, |mask, &c| mask | 1 << c);
    (mask != 0).then_some(mask)
}
