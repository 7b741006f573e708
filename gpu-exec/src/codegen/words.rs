//! `Words`: the 8-byte words of a group's aggregates, and how two of each are combined.

use super::Grouping;
use crate::error::RunError;
use crate::program::{Aggregate, Function, Program, Type};

/// Operations that combine words of an aggregate. Names and meaning are those of device/aggregates.cuh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    AddFloat,
    AddWide,
    WideHigh,
    Max,
    Or,
    Xor,
    Moments,
    MomentsRest,
}

/// The words of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    /// By word.
    pub ops: Vec<Op>,
    /// First word of each aggregate.
    pub first_of: Vec<usize>,
    /// The word with a bit for each aggregate that has seen a value. `None`: no aggregate needs one.
    pub seen: Option<usize>,
    /// By aggregate: whether it has a bit in `seen`.
    pub has_seen_bit: Vec<bool>,
    /// By aggregate: the word that counts its values, for groups by code. It takes the place of a bit.
    pub count_of: Vec<Option<usize>>,
    /// The word that counts a group's rows, for groups by code: zero if there is no such group.
    pub rows: Option<usize>,
}

impl Words {
    pub(super) fn new(
        program: &Program,
        grouping: Grouping,
        nullable: &dyn Fn(usize) -> bool,
    ) -> Result<Self, RunError> {
        let mut words = Self {
            ops: Vec::new(),
            first_of: Vec::new(),
            seen: None,
            has_seen_bit: Vec::new(),
            count_of: vec![None; program.aggregates.len()],
            rows: None,
        };
        for aggregate in &program.aggregates {
            words.first_of.push(words.ops.len());
            let argument = aggregate.argument.as_ref().map(|e| program.type_of(e)).transpose()?;
            match (aggregate.function, argument) {
                (Function::Count, _) => words.ops.push(Op::Add),
                (Function::Sum, Some(Type::Decimal { .. })) => words.ops.extend([Op::AddWide, Op::WideHigh]),
                (Function::Sum, Some(Type::Float32 | Type::Float64)) => words.ops.push(Op::AddFloat),
                (Function::Sum, _) => words.ops.push(Op::Add),
                (Function::Min | Function::Max, _) => words.ops.push(Op::Max),
                // An AND of bits is kept as the OR of their complements, so that zero is the start value.
                (Function::BitAnd | Function::BitOr, _) => words.ops.push(Op::Or),
                (Function::BitXor, _) => words.ops.push(Op::Xor),
                (Function::Moments, _) => words.ops.extend([Op::Moments, Op::MomentsRest, Op::MomentsRest]),
            }
        }
        let is_coded = matches!(grouping, Grouping::Coded(_));
        if is_coded {
            words.find_counts(program, nullable);
        }
        words.has_seen_bit = (program.aggregates.iter().zip(&words.count_of))
            .map(|(a, count)| count.is_none() && may_see_nothing(program, a, nullable))
            .collect();
        if words.has_seen_bit.contains(&true) {
            words.seen = Some(words.ops.len());
            words.ops.push(Op::Or);
        }
        if is_coded && words.rows.is_none() {
            words.rows = Some(words.ops.len());
            words.ops.push(Op::Add);
        }
        if words.ops.is_empty() {
            words.ops.push(Op::Or); // arrays need a word
        }
        Ok(words)
    }

    /// Finds counts among the aggregates that serve others: fewer words are more groups in shared memory.
    fn find_counts(&mut self, program: &Program, nullable: &dyn Fn(usize) -> bool) {
        let is_count = |a: &Aggregate| a.function == Function::Count;
        let all = &program.aggregates;
        for (at, aggregate) in all.iter().enumerate().filter(|(_, a)| !is_count(a)) {
            let counts =
                |a: &Aggregate| is_count(a) && a.argument == aggregate.argument && a.filter == aggregate.filter;
            self.count_of[at] = all.iter().position(counts).map(|count| self.first_of[count]);
        }
        let counts_rows = |a: &Aggregate| {
            let can_be_null = a.argument.as_ref().is_some_and(|e| program.can_be_null(e, nullable));
            is_count(a) && a.filter.is_none() && !can_be_null
        };
        self.rows = all.iter().position(counts_rows).map(|count| self.first_of[count]);
    }

    /// By word: whether each row adds 0 or 1.
    pub(super) fn is_count(&self, program: &Program, word: usize) -> bool {
        let counts = |(at, a): (usize, &Aggregate)| a.function == Function::Count && self.first_of[at] == word;
        self.rows == Some(word) || program.aggregates.iter().enumerate().any(counts)
    }
}

/// Whether an aggregate is NULL in a group with rows, because it may see none of their values.
fn may_see_nothing(program: &Program, aggregate: &Aggregate, nullable: &dyn Fn(usize) -> bool) -> bool {
    let argument = aggregate.argument.as_ref();
    !matches!(aggregate.function, Function::Count | Function::Moments)
        && (aggregate.filter.is_some() || argument.is_some_and(|e| program.can_be_null(e, nullable)))
}
