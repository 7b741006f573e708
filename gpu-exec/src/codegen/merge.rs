//! `Merged`: a query's partial aggregates, one row for each group.
//!
//! The host merges the partials of warps in the order of warps, or the groups by code in the order of codes. The group
//! table follows in the order in which its groups were found.
//!
//! **Invariant:** equal words give equal results, to the bit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

use super::group_codes::GroupLayout;
use super::plan::Plan;
use super::words::Op;
use crate::error::RunError;
use crate::output::{Moments, ResultColumn, ResultValues};
use crate::program::{Function, Program, Type};

/// Results of a query's launches in device memory.
#[derive(Debug, Clone, Copy)]
pub struct WarpPartials<'a> {
    /// `QueryHead::partials`.
    pub partials: &'a [u64],
    /// `QueryHead::counters`.
    pub counters: &'a [u64],
    /// `QueryHead::group_words` of the groups that were found; empty without keys.
    pub group_words: &'a [u64],
    /// The groups by code with `GroupCodes::merged`, for kernels with such tables.
    pub coded: Option<(&'a GroupLayout, &'a [u64])>,
}

/// A query's partial aggregates, each group once.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// Number of groups. 1 without keys.
    pub groups: usize,
    /// By position in [`Program::keys`].
    pub keys: Vec<ResultColumn>,
    /// By position in [`Program::aggregates`].
    pub aggregates: Vec<ResultColumn>,
    /// Rows looked at.
    pub rows: u64,
    /// Rows that passed.
    pub passed: u64,
    /// By column: number of values that were read.
    pub values_read: Vec<u64>,
}

/// Merges the results of a query's launches.
pub(super) fn merge(program: &Program, plan: &Plan, from: &WarpPartials<'_>) -> Result<Merged, RunError> {
    let counters = plan.counters();
    if from.counters.is_empty() || !from.counters.len().is_multiple_of(counters) {
        return wrong("counters");
    }
    let counted = |at: usize| -> u64 { from.counters.iter().skip(at).step_by(counters).sum() };
    let passed = counted(counters - 1);
    let warps = from.counters.len() / counters;
    let mut groups = Groups::new(plan);
    let each = plan.sizes(super::GPU_LANES).partial_bytes / 8;
    if from.partials.len() < warps * each {
        return wrong("partials");
    }
    if !plan.grouped() {
        groups.ungrouped(&from.partials[..warps * each]);
    } else {
        if plan.own_groups > 0 {
            for partial in from.partials[..warps * each].chunks_exact(each) {
                groups.of_warp(partial)?;
            }
        }
        if let Some((layout, merged)) = from.coded {
            groups.of_codes(layout, merged)?;
        }
        groups.of_table(from.group_words)?;
    }
    let column = |of: &dyn Fn(usize) -> Result<ResultColumn, RunError>, count: usize| (0..count).map(of).collect();
    let keys: Result<Vec<_>, _> = column(&|at| groups.key_column(program, at), program.keys.len());
    let aggregates: Result<Vec<_>, _> = column(
        &|at| groups.aggregate_column(program, at, passed),
        program.aggregates.len(),
    );
    Ok(Merged {
        groups: groups.count(),
        keys: keys?,
        aggregates: aggregates?,
        rows: counted(0),
        passed,
        values_read: plan.counter_of.iter().map(|c| c.map_or(0, counted)).collect(),
    })
}

fn wrong<T>(what: &str) -> Result<T, RunError> {
    Err(RunError::Invalid(format!("the {what} are not what the kernel leaves")))
}

/// Groups that a thread makes values of at a time.
const GROUPS_OF_PART: usize = 1 << 17;

/// Groups in the order of their first appearance.
struct Groups<'a> {
    plan: &'a Plan,
    /// By group: the words of its key, then a word for each operation of its aggregates, as in
    /// `QueryHead::group_words`. Borrowed: the group table has all groups.
    rows: Cow<'a, [u64]>,
    /// Groups of the warps' own tables, by key.
    found: HashMap<Vec<u64>, usize>,
}

impl<'a> Groups<'a> {
    fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            rows: Cow::Borrowed(&[]),
            found: HashMap::new(),
        }
    }

    /// Words of a group.
    fn stride(&self) -> usize {
        self.plan.key_words + self.plan.words.ops.len()
    }

    fn count(&self) -> usize {
        self.rows.len() / self.stride()
    }

    fn ungrouped(&mut self, partials: &[u64]) {
        let mut sum = vec![0; self.plan.words.ops.len()];
        for words in partials.chunks_exact(self.plan.words.ops.len()) {
            combine(&self.plan.words.ops, &mut sum, words);
        }
        self.rows = Cow::Owned(sum);
    }

    /// Adds words to the group of the key. False: there is no such group yet.
    fn add_to_known(&mut self, key: &[u64], words: &[u64]) -> bool {
        let Some(&at) = self.found.get(key) else { return false };
        let at = at * self.stride() + key.len();
        combine(
            &self.plan.words.ops,
            &mut self.rows.to_mut()[at..at + words.len()],
            words,
        );
        true
    }

    /// Adds a warp's `OwnGroups` (device/groups.cuh): the number of groups, their keys, their words.
    fn of_warp(&mut self, partial: &[u64]) -> Result<(), RunError> {
        let (groups, keys, count) = (self.plan.own_groups, self.plan.key_words, self.plan.words.ops.len());
        let used = partial[0] as usize;
        if used > groups {
            return wrong("warps' groups");
        }
        let (key, words) = partial[1..].split_at(groups * keys);
        for at in 0..used {
            let (key, words) = (&key[at * keys..][..keys], &words[at * count..][..count]);
            if !self.add_to_known(key, words) {
                self.found.insert(key.to_vec(), self.count());
                let rows = self.rows.to_mut();
                rows.extend_from_slice(key);
                rows.extend_from_slice(words);
            }
        }
        Ok(())
    }

    /// Adds the groups by code that have rows. Their keys are in no other table: a kernel gives a key its code wherever
    /// it meets it.
    fn of_codes(&mut self, layout: &GroupLayout, merged: &[u64]) -> Result<(), RunError> {
        match self.plan.words.rows {
            Some(rows) if merged.len() >= layout.partial_words() => {
                layout.push_groups(self.plan.null_keys, rows, merged, self.rows.to_mut());
                Ok(())
            }
            _ => wrong("groups by code"),
        }
    }

    /// Adds the group table's groups, of which each has a key of its own.
    fn of_table(&mut self, groups: &'a [u64]) -> Result<(), RunError> {
        let (keys, stride) = (self.plan.key_words, self.stride());
        if !groups.len().is_multiple_of(stride) {
            return wrong("groups");
        }
        if self.rows.is_empty() {
            self.rows = Cow::Borrowed(groups);
            return Ok(());
        }
        for group in groups.chunks_exact(stride) {
            if !self.add_to_known(&group[..keys], &group[keys..]) {
                self.rows.to_mut().extend_from_slice(group);
            }
        }
        Ok(())
    }

    /// A value of each group, from the words of its key and its aggregates. Millions of groups are divided among
    /// threads.
    fn of_each<T: Copy + Default + Send>(&self, value: impl Fn(&[u64], &[u64]) -> T + Sync) -> Vec<T> {
        let (stride, keys) = (self.stride(), self.plan.key_words);
        let mut values = vec![T::default(); self.count()];
        let parts = values
            .chunks_mut(GROUPS_OF_PART)
            .zip(self.rows.chunks(GROUPS_OF_PART * stride));
        // Asking the system for its cores takes longer than few groups do.
        let threads = match parts.len() {
            ..=1 => 1,
            parts => parts.min(std::thread::available_parallelism().map_or(1, NonZero::get)),
        };
        let parts = Mutex::new(parts);
        let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
        let work = || {
            while let Some((values, rows)) = next() {
                for (into, row) in values.iter_mut().zip(rows.chunks_exact(stride)) {
                    let (key, words) = row.split_at(keys);
                    *into = value(key, words);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                // Without this thread, the others do its part.
                let _ = std::thread::Builder::new().spawn_scoped(scope, work);
            }
            work();
        });
        values
    }

    fn key_column(&self, program: &Program, at: usize) -> Result<ResultColumn, RunError> {
        let ty = program.type_of(&program.keys[at])?;
        let there = |key: &[u64]| key[key.len() - 1] >> at & 1 == 0;
        Ok(ResultColumn {
            ty,
            values: self.values(ty, |key, _| bits(ty, key[at])),
            valid: match self.plan.null_keys {
                true => some_missing(self.of_each(|key, _| there(key))),
                false => None,
            },
        })
    }

    fn aggregate_column(&self, program: &Program, at: usize, passed: u64) -> Result<ResultColumn, RunError> {
        let aggregate = &program.aggregates[at];
        let ty = program.type_of_aggregate(aggregate)?;
        let first = self.plan.words.first_of[at];
        let marked = self.plan.words.seen.filter(|_| self.plan.words.has_seen_bit[at]);
        if aggregate.function == Function::Moments {
            return Ok(ResultColumn {
                ty,
                values: ResultValues::Moments(self.of_each(|_, words| moments(&words[first..]))),
                valid: None,
            });
        }
        let count = self.plan.words.count_of[at];
        // A group exists because of a row. Without keys there is a group even if no row passed.
        let has_row = self.plan.grouped() || passed > 0;
        let always_there = aggregate.function == Function::Count || (has_row && count.is_none() && marked.is_none());
        let there = |words: &[u64]| match (count, marked) {
            _ if always_there => true,
            (Some(count), _) if words[count] == 0 => false,
            (_, Some(word)) => words[word] >> at & 1 == 1,
            (_, None) => has_row,
        };
        let value = |_: &[u64], words: &[u64]| match aggregate.function {
            _ if !there(words) => Bits::Int(0),
            Function::Sum if self.plan.words.ops[first] == Op::AddWide => {
                Bits::Wide(u128::from(words[first]) as i128 | i128::from(words[first + 1] as i64) << 64)
            }
            Function::Sum if ty == Type::Float64 => Bits::Float(f64::from_bits(words[first])),
            Function::BitAnd => Bits::Int(!words[first] as i64),
            Function::Sum | Function::Count | Function::BitOr | Function::BitXor | Function::Moments => {
                Bits::Int(words[first] as i64)
            }
            Function::Max => of_order(ty, (words[first] ^ 1 << 63) as i64),
            Function::Min => of_order(ty, (!words[first] ^ 1 << 63) as i64),
        };
        Ok(ResultColumn {
            ty,
            values: self.values(ty, value),
            valid: match always_there {
                true => None,
                false => some_missing(self.of_each(|_, words| there(words))),
            },
        })
    }

    /// Values of a type. Missing values are zero.
    fn values(&self, ty: Type, value: impl Fn(&[u64], &[u64]) -> Bits + Sync) -> ResultValues {
        let int = |value: Bits| match value {
            Bits::Int(v) => i128::from(v),
            Bits::Wide(v) => v,
            Bits::Float(_) => 0,
        };
        let float = |value: Bits| if let Bits::Float(v) = value { v } else { 0.0 };
        match ty {
            Type::Float32 | Type::Float64 => ResultValues::Float(self.of_each(|key, words| float(value(key, words)))),
            Type::Decimal { .. } => ResultValues::Decimal(self.of_each(|key, words| int(value(key, words)))),
            _ => ResultValues::Int(self.of_each(|key, words| int(value(key, words)) as i64)),
        }
    }
}

/// Whether each value is there; `None`: all are.
fn some_missing(valid: Vec<bool>) -> Option<Vec<bool>> {
    (!valid.iter().all(|&valid| valid)).then_some(valid)
}

/// Combines words as `combine` of device/groups.cuh does.
fn combine(ops: &[Op], into: &mut [u64], from: &[u64]) {
    for (at, op) in ops.iter().enumerate() {
        match op {
            Op::Add => into[at] = into[at].wrapping_add(from[at]),
            Op::AddFloat => into[at] = (f64::from_bits(into[at]) + f64::from_bits(from[at])).to_bits(),
            Op::AddWide => {
                let wide = |words: &[u64]| u128::from(words[at]) | u128::from(words[at + 1]) << 64;
                let sum = wide(into).wrapping_add(wide(from));
                into[at] = sum as u64;
                into[at + 1] = (sum >> 64) as u64;
            }
            Op::Moments => {
                let merged = moments(&into[at..]).merge(moments(&from[at..]));
                into[at] = merged.count;
                into[at + 1] = merged.mean.to_bits();
                into[at + 2] = merged.squares.to_bits();
            }
            Op::WideHigh | Op::MomentsRest => {}
            Op::Xor => into[at] ^= from[at],
            Op::Max => into[at] = into[at].max(from[at]),
            Op::Or => into[at] |= from[at],
        }
    }
}

/// The moments that begin with the first word.
fn moments(words: &[u64]) -> Moments {
    Moments {
        count: words[0],
        mean: f64::from_bits(words[1]),
        squares: f64::from_bits(words[2]),
    }
}

/// One value.
enum Bits {
    Int(i64),
    Float(f64),
    Wide(i128),
}

/// Value of a key's word.
fn bits(ty: Type, word: u64) -> Bits {
    match ty {
        Type::Float64 => Bits::Float(f64::from_bits(word)),
        Type::Float32 => Bits::Float(f64::from(f32::from_bits(word as u32))),
        Type::Decimal { .. } => Bits::Wide(i128::from(word as i64)),
        Type::Code => Bits::Int(i64::from(word as u32)),
        _ => Bits::Int(word as i64),
    }
}

/// Inverse of `order_of` (device/values.cuh).
fn of_order(ty: Type, order: i64) -> Bits {
    match ty {
        Type::Float64 => Bits::Float(f64::from_bits((order ^ ((order >> 63) as u64 >> 1) as i64) as u64)),
        Type::Float32 => {
            let order = order as i32;
            Bits::Float(f64::from(f32::from_bits(
                (order ^ ((order >> 31) as u32 >> 1) as i32) as u32,
            )))
        }
        Type::Decimal { .. } => Bits::Wide(i128::from(order)),
        _ => Bits::Int(order),
    }
}
