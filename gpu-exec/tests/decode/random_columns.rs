//! Random columns: one for each way to encode a column.

use grampus_gpu_exec::program::{TimeUnit, Type};
use grampus_orc_layout::encoded_column::{EncodedValues, RunLength};

use crate::common::random::Random;
use crate::streams::{self, CodedStream, Column};

pub(crate) const TIME: Type = Type::Timestamp(TimeUnit::Nanosecond);

/// Columns of every encoding.
pub(crate) fn random_columns(random: &mut Random, seed: u64) -> Vec<(String, Column)> {
    let mut columns = Vec::new();
    let group_rows = [7, 64, 100, 1000][random.below(4) as usize];
    let rows = 1 + random.below(3000);
    for nulls in [false, true] {
        // Row groups that are decoded side by side share no byte of validity.
        let group_rows = if nulls { 8 * group_rows } else { group_rows };
        let present = nulls.then(|| streams::bits(random, rows));
        let count = present.as_ref().map_or(rows, |p| p.values.iter().sum::<i64>() as u64);
        let mut add =
            |name: &str, values: EncodedValues, ty: Type, data: CodedStream, secondary: Option<CodedStream>| {
                let column = Column::new(values, ty, present.clone(), data, secondary, group_rows);
                let name = format!("seed {seed}: {name}, nulls {nulls}, groups of {group_rows}");
                let narrow = column.within(column.bounds());
                if narrow.stored != column.stored {
                    columns.push((format!("{name}, in {} bytes", narrow.stored.bytes()), narrow));
                }
                columns.push((name, column));
            };
        for (runs, name) in [(RunLength::V1, "version 1"), (RunLength::V2, "version 2")] {
            for (ty, bits) in [
                (Type::Int16, 16),
                (Type::Int32, 32),
                (Type::Date32, 32),
                (Type::Int64, 64),
                (Type::Int64, 7),
                (Type::Int32, 12),
                (Type::Date32, 15),
                (Type::Int64, 30),
            ] {
                let data = streams::integers(random, runs, count, bits, true);
                add(name, EncodedValues::Integers(runs), ty, data, None);
            }
            let data = streams::integers(random, runs, count, 10, false);
            add(
                "codes",
                EncodedValues::Dictionary(runs, 1 << 10),
                Type::Code,
                data,
                None,
            );
            let (seconds, nanos) = streams::times(random, runs, count);
            let clock = streams::clock(random);
            add(
                "times",
                EncodedValues::Timestamps(runs, clock),
                TIME,
                seconds,
                Some(nanos),
            );
            let scale = random.below(19) as i8;
            let (unscaled, scales) = streams::decimals(random, runs, count, scale);
            let ty = Type::Decimal { precision: 18, scale };
            add(
                "decimals",
                EncodedValues::Decimals(runs, scale),
                ty,
                unscaled,
                Some(scales),
            );
        }
        add(
            "bytes",
            EncodedValues::Bytes,
            Type::Int8,
            streams::bytes(random, count),
            None,
        );
        add(
            "booleans",
            EncodedValues::Booleans,
            Type::Bool,
            streams::bits(random, count),
            None,
        );
        for (ty, width) in [(Type::Float64, 8), (Type::Float32, 4)] {
            let most = [6, 255, 60_000][random.below(3) as usize];
            let least = if random.below(2) == 0 { 0 } else { -(most / 2) };
            let mut number = || (least + random.below((most - least / 2) as u64) as i64) as f64;
            let numbers: Vec<f64> = (0..count).map(|_| number()).collect();
            add(
                "whole floats",
                EncodedValues::Floats,
                ty,
                streams::floats(&numbers, width),
                None,
            );
        }
        add(
            "doubles",
            EncodedValues::Floats,
            Type::Float64,
            streams::raw(random, count, 8),
            None,
        );
        add(
            "floats",
            EncodedValues::Floats,
            Type::Float32,
            streams::raw(random, count, 4),
            None,
        );
    }
    columns
}
