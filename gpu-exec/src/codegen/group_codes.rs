//! `GroupLayout`: groups as small numbers. Each key becomes a code, and the codes of all keys become the number of a
//! group by mixed radix.
//!
//! - A key's codes stand for consecutive values ([`KeyRange`]): whole numbers, days, strings' codes, or units of
//!   `date_trunc`. If the key can be NULL, one more code stands for NULL.
//! - The ranges are no part of the source: a kernel reads them from its parameter.
//!
//! **Invariant:** a kernel checks each value against its key's range. A row with a value outside takes the way of all
//! groups without codes, so a range that is too narrow costs time alone.

use super::TableScope;
use super::casts::per_day;
use super::expr::Emitter;
use super::plan::Plan;
use super::tile::whole_name;
use super::words::Words;
use super::writer::{Writer, comment};
use crate::abi::query::KeyCodes;
use crate::error::RunError;
use crate::program::{DatePart, Expr, Program, Type};

/// Groups of a table, at most. Kernels compute with 32 bits.
const MAX_GROUPS: u64 = 1 << 24;

/// What consecutive codes of a key stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeUnit {
    /// Consecutive whole numbers: integers, booleans, days, strings' codes, units of a timestamp, whole floats.
    One,
    /// Timestamps that are this number of units apart.
    Span(i64),
    /// Timestamps that are this number of months apart; the code counts from the year 0.
    Months {
        /// Months.
        months: i64,
        /// Units of a day.
        per_day: i64,
    },
}

impl CodeUnit {
    /// The unit of a key.
    ///
    /// # Errors
    /// [`RunError::Invalid`]: an expression that [`Program::check`] refuses.
    pub fn of(program: &Program, key: &Expr) -> Result<Self, RunError> {
        let Expr::Truncate { part, .. } = key else {
            return Ok(Self::One);
        };
        let Type::Timestamp(unit) = program.type_of(key)? else {
            return Ok(Self::One);
        };
        let day = per_day(unit);
        let months = |months| Self::Months { months, per_day: day };
        Ok(match part {
            DatePart::Year => months(12),
            DatePart::Quarter => months(3),
            DatePart::Month => months(1),
            DatePart::Week => Self::Span(7 * day),
            DatePart::Hour => Self::Span(day / 24),
            DatePart::Minute => Self::Span(day / 1_440),
            DatePart::Second => Self::Span(day / 86_400),
            _ => Self::Span(day),
        })
    }
}

/// Values of a key that have codes: those from `first` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRange {
    /// The value with the code 0, as a whole number. Of [`CodeUnit::Months`]: the number of the month, quarter or year.
    pub first: i64,
    /// Number of values with codes.
    pub codes: u32,
}

/// The groups of a kernel with tables by code, and the sizes of its tables.
#[derive(Debug, Clone)]
pub struct GroupLayout {
    /// Owners of the tables.
    pub scope: TableScope,
    /// By key, as kernels read it.
    pub keys: Vec<KeyCodes>,
    /// Numbers of groups are below this.
    pub groups: u32,
    /// By key: what codes stand for.
    units: Vec<(CodeUnit, Type)>,
    /// Words of a group.
    words: usize,
    /// Slots of 32 bits of a group in a block's table.
    slots: usize,
}

impl GroupLayout {
    /// The layout for these ranges, one for each key.
    pub(super) fn new(
        program: &Program,
        plan: &Plan,
        scope: TableScope,
        ranges: &[KeyRange],
    ) -> Result<Self, RunError> {
        if ranges.len() != program.keys.len() || ranges.is_empty() {
            return Err(RunError::Invalid(format!(
                "{} ranges for {} keys",
                ranges.len(),
                program.keys.len()
            )));
        }
        let mut groups = 1u64;
        let mut keys = Vec::new();
        for (key, range) in program.keys.iter().zip(ranges) {
            check_range(program.type_of(key)?, *range)?;
            keys.push(KeyCodes {
                first: range.first as u64,
                codes: range.codes,
                step: groups as u32,
            });
            groups *= u64::from(range.codes) + u64::from(program.can_be_null(key, &|c| plan.is_nullable(c)));
            if groups == 0 || groups > MAX_GROUPS {
                return Err(RunError::Invalid(format!("{groups} groups by code")));
            }
        }
        Ok(Self {
            scope,
            keys,
            groups: groups as u32,
            units: (program.keys.iter())
                .map(|key| Ok((CodeUnit::of(program, key)?, program.type_of(key)?)))
                .collect::<Result<_, RunError>>()?,
            words: plan.words.ops.len(),
            slots: slots_of(&plan.words, program),
        })
    }

    /// Bytes of a warp's table, which is kept between launches. 0: it has none.
    pub fn warp_bytes(&self, lanes: u32) -> usize {
        let table = self.groups as usize * self.words * 8;
        match self.scope {
            TableScope::Lane => table * lanes as usize,
            TableScope::Warp => table,
            TableScope::Block => 0,
        }
    }

    /// Bytes of shared memory of a block.
    pub fn block_bytes(&self, warps: u32, lanes: u32) -> usize {
        match self.scope {
            TableScope::Lane | TableScope::Warp => self.warp_bytes(lanes) * warps as usize,
            TableScope::Block => (self.groups as usize).next_multiple_of(2) * self.slots * 4,
        }
    }

    /// Number of partials that a launch leaves.
    pub fn partials(&self, blocks: u32, block_warps: u32) -> u32 {
        match self.scope {
            TableScope::Lane | TableScope::Warp => blocks * block_warps,
            TableScope::Block => blocks,
        }
    }

    /// Words of a partial, and of the merged result.
    pub fn partial_words(&self) -> usize {
        self.groups as usize * self.words
    }

    /// Appends the groups of `merged`, the words of all groups, that have rows: for each the words of its key, as in
    /// [`push_key`](Self::push_key), and its own. `rows`: the word of a group that counts its rows.
    pub(super) fn push_groups(&self, null_keys: bool, rows: usize, merged: &[u64], out: &mut Vec<u64>) {
        let found = merged.iter().skip(rows).step_by(self.words);
        let found = found.filter(|rows| **rows > 0).count();
        out.reserve(found * (self.keys.len() + usize::from(null_keys) + self.words));
        let ends = self.keys.iter().skip(1).map(|key| key.step).chain([self.groups]);
        let sizes: Vec<u32> = self.keys.iter().zip(ends).map(|(key, end)| end / key.step).collect();
        // Counts up: to divide each number of a group takes several times as long.
        let mut codes = vec![0; sizes.len()];
        for words in merged.chunks_exact(self.words).take(self.groups as usize) {
            if words[rows] > 0 {
                self.push_key(null_keys, &codes, out);
                out.extend_from_slice(words);
            }
            for (code, size) in codes.iter_mut().zip(&sizes) {
                *code += 1;
                if *code < *size {
                    break;
                }
                *code = 0;
            }
        }
    }

    /// Appends the words of a key, by the codes of its values: the values' words and, if keys can be NULL, the bits of
    /// NULLs.
    fn push_key(&self, null_keys: bool, of_values: &[u32], words: &mut Vec<u64>) {
        let mut nulls = 0;
        let keys = self.keys.iter().zip(&self.units).zip(of_values);
        for (at, ((codes, (unit, ty)), code)) in keys.enumerate() {
            if *code == codes.codes {
                nulls |= 1 << at;
                words.push(0);
            } else {
                words.push(key_word(*unit, *ty, codes.first as i64, *code));
            }
        }
        words.extend(null_keys.then_some(nulls));
    }
}

/// Kernels compute the codes of all but 64-bit integers with 32 bits.
fn check_range(ty: Type, range: KeyRange) -> Result<(), RunError> {
    let narrow = !matches!(ty, Type::Int64 | Type::Timestamp(_) | Type::Decimal { .. });
    let last = range.first.checked_add(i64::from(range.codes));
    let fits = last.is_some_and(|last| last <= i64::from(i32::MAX)) && range.first >= i64::from(i32::MIN);
    match narrow && !fits {
        true => Err(RunError::Invalid(format!("codes of {ty} for {range:?}"))),
        false => Ok(()),
    }
}

/// Slots of 32 bits of a group: one for a count, two for other words (device/block_groups.cuh).
fn slots_of(words: &Words, program: &Program) -> usize {
    let width = |word| if words.is_count(program, word) { 1 } else { 2 };
    (0..words.ops.len()).map(width).sum()
}

/// The word of a key's value, as `key_word` of device/values.cuh gives it.
fn key_word(unit: CodeUnit, ty: Type, first: i64, code: u32) -> u64 {
    let value = match unit {
        CodeUnit::One => first.wrapping_add(i64::from(code)),
        CodeUnit::Span(span) => first.wrapping_add(span.wrapping_mul(i64::from(code))),
        CodeUnit::Months { months, per_day } => {
            let month = (first + i64::from(code)) * months;
            first_day_of_month(month.div_euclid(12), month.rem_euclid(12)) * per_day
        }
    };
    match ty {
        Type::Float64 if value == 0 => 0,
        Type::Float64 => (value as f64).to_bits(),
        Type::Float32 if value == 0 => 0,
        Type::Float32 => u64::from((value as f32).to_bits()),
        Type::Code => u64::from(value as u32),
        _ => value as u64,
    }
}

/// Days from 1970-01-01 to the first of a month, which counts from 0 (`days_of` of device/dates.cuh).
fn first_day_of_month(year: i64, month: i64) -> i64 {
    let (year, month) = if month < 2 {
        (year - 1, month + 10)
    } else {
        (year, month - 2)
    };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * month + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Statements that compute `group`, the number of the active lane's group, and clear `inside` if a key has no code.
pub(super) fn number_group(writer: &Writer<'_>, e: &mut Emitter<'_>) -> Result<(), RunError> {
    e.line("u32 group = 0;");
    e.line("bool inside = active;");
    for (at, key) in writer.program.keys.iter().enumerate() {
        e.line(&format!("// {}", comment(&writer.program.show(key).to_string())));
        let codes = format!("parameter.keys[{at}]");
        let (value, code) = match (CodeUnit::of(writer.program, key)?, key) {
            (CodeUnit::Months { months, per_day }, Expr::Truncate { value, .. }) => {
                let value = e.expr(value)?;
                let months = format!("months_of_time<{per_day}ll, {months}>({})", value.value);
                (value, format!("code_of({months}, {codes}, CODED)"))
            }
            (CodeUnit::Span(span), _) => {
                let value = e.expr(key)?;
                let code = format!("code_of_unit<{span}ll>({}, {codes}, CODED)", value.value);
                (value, code)
            }
            _ => {
                let value = e.expr(key)?;
                let whole = match key {
                    Expr::Column(column) => whole_name(writer.program, *column),
                    _ => None,
                };
                // Ranges have 64 bits. A decimal that takes more has no code.
                let code = match (whole, value.is_wide()) {
                    (Some(whole), _) => format!("code_of({whole}, {codes}, CODED)"),
                    (None, true) => format!("code_of_wide({}, {codes}, CODED)", value.value),
                    (None, false) => format!("code_of({}, {codes}, CODED)", value.value),
                };
                (value, code)
            }
        };
        match value.ok {
            None => e.line(&format!("group += {} * {codes}.step;", code.replace("CODED", "inside"))),
            Some(ok) => {
                e.line(&format!("bool coded{at} = true;"));
                e.line(&format!(
                    "const u32 code{at} = {};",
                    code.replace("CODED", &format!("coded{at}"))
                ));
                e.line(&format!("group += ({ok} ? code{at} : {codes}.codes) * {codes}.step;"));
                e.line(&format!("inside = inside && (!{ok} || coded{at});"));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_begin_where_the_calendar_says() {
        let days = [
            (1970, 0, 0),
            (1969, 11, -31),
            (2000, 2, 11_017),
            (2024, 1, 19_754),
            (1600, 0, -135_140),
        ];
        for (year, month, day) in days {
            assert_eq!(first_day_of_month(year, month), day, "{year}-{month}");
        }
    }

    #[test]
    fn words_are_those_of_values() {
        let day = 86_400;
        let quarter = CodeUnit::Months {
            months: 3,
            per_day: day,
        };
        assert_eq!(key_word(quarter, Type::Int64, 1970 * 4, 1), (90 * day) as u64);
        assert_eq!(key_word(CodeUnit::Span(7), Type::Int64, -3, 2), 11);
        assert_eq!(key_word(CodeUnit::One, Type::Float64, -2, 2), 0);
        assert_eq!(key_word(CodeUnit::One, Type::Float64, -2, 1), (-1.0f64).to_bits());
        assert_eq!(key_word(CodeUnit::One, Type::Float32, 0, 3), u64::from(3f32.to_bits()));
        assert_eq!(key_word(CodeUnit::One, Type::Int8, -1, 0), u64::MAX);
    }
}
