//! Random ranges of keys, for groups by code: some of a key's values lie inside, and others outside.

use grampus_gpu_exec::codegen::{CodeUnit, KeyRange, QueryKernel, TableScope};
use grampus_gpu_exec::program::{Expr, Program, TimeUnit, Type};

use super::kernel_runner::BLOCK_WARPS;
use super::random::Random;

/// Shared memory that a table may take, for warps of 32 lanes: as much as an A100 has.
const MAX_TABLE_BYTES: usize = 160 << 10;

/// Units of a timestamp in a second.
fn per_second(ty: Type) -> i64 {
    match ty {
        Type::Timestamp(TimeUnit::Millisecond) => 1_000,
        Type::Timestamp(TimeUnit::Microsecond) => 1_000_000,
        Type::Timestamp(TimeUnit::Nanosecond) => 1_000_000_000,
        _ => 1,
    }
}

/// A range among the values that `random::value` makes.
fn range(random: &mut Random, program: &Program, key: &Expr) -> KeyRange {
    let ty = program.type_of(key).expect("a valid program");
    let (first, codes) = match CodeUnit::of(program, key).expect("a valid program") {
        CodeUnit::Months { months, .. } => (
            (1900 + random.below(150) as i64) * 12 / months,
            1 + random.below(1200 / months as u64),
        ),
        CodeUnit::Span(span) => {
            let second = random.below(4_000_000_000) as i64 - 1_700_000_000;
            // Weeks begin three days before 1970-01-01.
            let begin = if span == 7 * 86_400 * per_second(ty) {
                -3 * (span / 7)
            } else {
                0
            };
            (
                (second * per_second(ty)).div_euclid(span) * span + begin,
                1 + random.below(3000),
            )
        }
        CodeUnit::One if ty == Type::Date32 => (random.below(50_000) as i64 - 25_000, 1 + random.below(20_000)),
        CodeUnit::One if matches!(ty, Type::Decimal { .. }) => (-300, 600),
        CodeUnit::One if ty == Type::Code => (random.below(3) as i64, 1 + random.below(6)),
        CodeUnit::One => (random.below(20) as i64 - 12, random.below(30)),
    };
    KeyRange {
        first,
        codes: codes as u32,
    }
}

/// A range for each key, for which there is space. `None`: there is none, or a key has no value at all.
pub(crate) fn ranges(
    random: &mut Random,
    kernel: &QueryKernel,
    program: &Program,
    scope: TableScope,
) -> Option<Vec<KeyRange>> {
    let mut ranges: Vec<KeyRange> = program.keys.iter().map(|key| range(random, program, key)).collect();
    loop {
        let fits = kernel.group_layout(scope, &ranges);
        if fits.is_ok_and(|layout| layout.block_bytes(BLOCK_WARPS, 32) <= MAX_TABLE_BYTES) {
            return Some(ranges);
        }
        let widest = ranges.iter_mut().max_by_key(|range| range.codes)?;
        if widest.codes <= 1 {
            return None;
        }
        widest.codes /= 2;
    }
}
