//! Integers, codes, and floats that are whole numbers, in as few bytes of device memory as their values need: what is
//! resident, and what happens to a value beyond the bounds that were known.

#[path = "temporary_table/mod.rs"]
mod temporary_table;

use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use grampus_gpu_exec::input::{Decode, Decoded, FileVersion, Input, Placement, Segment, Stripe};
use grampus_gpu_exec::output::{Output, ResultValues};
use grampus_gpu_exec::program::{Aggregate, BinaryOp, Column, Expr, Function, Program, Type, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, Request, RuntimeOptions};
use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedEntry, EncodedStream, EncodedValues, RunLength};
use temporary_table::gpu;

const ROWS: u64 = 5000;
const GROUP_ROWS: u64 = 1000;

/// Numbers of a stripe: integers are stored in runs of version 1, floats as they are.
#[derive(Debug)]
struct Numbers {
    ty: Type,
    values: Vec<i64>,
    encoded: EncodedColumn,
    codes: Arc<[u32]>,
    decoded: AtomicUsize,
}

impl Decode for Numbers {
    fn decode(
        &self,
        _: usize,
        _: usize,
        rows: Range<u64>,
    ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>> {
        self.decoded.fetch_add(1, Ordering::Relaxed);
        let values = &self.values[rows.start as usize..rows.end as usize];
        Ok(Decoded {
            values: values.iter().flat_map(|value| bytes_of(self.ty, *value)).collect(),
            valid: None,
        })
    }

    fn encoded(&self, _: usize, _: usize) -> Option<Arc<EncodedColumn>> {
        Some(Arc::new(self.encoded.clone()))
    }

    fn dictionary_codes(&self, _: usize, _: usize) -> Result<Arc<[u32]>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.codes.clone())
    }
}

/// A number as a value of a type. `HALF` stands for a half, `MINUS_ZERO` for -0.
fn bytes_of(ty: Type, number: i64) -> Vec<u8> {
    let float = match number {
        HALF => 0.5,
        MINUS_ZERO => -0.0,
        _ => number as f64,
    };
    match ty {
        Type::Float64 => float.to_le_bytes().to_vec(),
        Type::Float32 => (float as f32).to_le_bytes().to_vec(),
        _ => number.to_le_bytes()[..ty.width() as usize].to_vec(),
    }
}

const HALF: i64 = i64::MAX;
const MINUS_ZERO: i64 = i64::MIN;

/// How a file stores a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Encoded, and the CPU decodes it.
    ForCpu,
    /// Encoded, and the device decodes it.
    ForDevice,
    Raw,
}

/// A file with one column of numbers, and what is said of their bounds.
struct Table {
    _folder: tempfile::TempDir,
    numbers: Arc<Numbers>,
    input: Arc<Input>,
}

/// A byte run for each group of 100 values: literals as varints.
fn literals(values: &[i64], signed: bool) -> (Vec<u8>, Vec<EncodedEntry>) {
    let (mut bytes, mut entries) = (Vec::new(), Vec::new());
    for group in values.chunks(GROUP_ROWS as usize) {
        let at = bytes.len() as u64;
        for run in group.chunks(100) {
            bytes.push((256 - run.len()) as u8);
            for value in run {
                let mut rest = if signed {
                    (value << 1 ^ value >> 63) as u64
                } else {
                    *value as u64
                };
                while rest > 127 {
                    bytes.push(rest as u8 | 128);
                    rest >>= 7;
                }
                bytes.push(rest as u8);
            }
        }
        let end = bytes.len() as u64;
        entries.push(EncodedEntry { at, skip: 0, end });
    }
    (bytes, entries)
}

/// Floats as they are.
fn raw(ty: Type, values: &[i64]) -> (Vec<u8>, Vec<EncodedEntry>) {
    let (mut bytes, mut entries) = (Vec::new(), Vec::new());
    for group in values.chunks(GROUP_ROWS as usize) {
        let at = bytes.len() as u64;
        bytes.extend(group.iter().flat_map(|value| bytes_of(ty, *value)));
        let end = bytes.len() as u64;
        entries.push(EncodedEntry { at, skip: 0, end });
    }
    (bytes, entries)
}

fn is_float(ty: Type) -> bool {
    matches!(ty, Type::Float32 | Type::Float64)
}

impl Table {
    /// Values of a type; of codes, `values` are the entries of a dictionary, whose codes are three times their number.
    fn new(ty: Type, values: Vec<i64>, form: Form, bounds: Option<(i64, i64)>) -> Self {
        let is_code = ty == Type::Code;
        let (bytes, entries) = match is_float(ty) {
            true => raw(ty, &values),
            false => literals(&values, !is_code),
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("numbers");
        std::fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
        let entry_count = match is_code {
            true => values.iter().max().map_or(0, |most| *most as u32 + 1),
            false => 0,
        };
        let encoded = EncodedColumn {
            values: match ty {
                Type::Code => EncodedValues::Dictionary(RunLength::V1, entry_count),
                _ if is_float(ty) => EncodedValues::Floats,
                _ => EncodedValues::Integers(RunLength::V1),
            },
            group_rows: GROUP_ROWS,
            present: None,
            data: EncodedStream {
                offset: 0,
                length: bytes.len() as u64,
                entries,
                chunks: None,
            },
            secondary: None,
        };
        let values = match is_code {
            true => values.iter().map(|entry| 3 * entry).collect(),
            false => values,
        };
        let numbers = Arc::new(Numbers {
            ty,
            values,
            encoded,
            codes: (0..entry_count).map(|entry| 3 * entry).collect(),
            decoded: AtomicUsize::new(0),
        });
        let stripe = Stripe {
            file: 0,
            index: 0,
            rows: ROWS,
            group_rows: GROUP_ROWS,
            compression: None,
            selected: std::iter::once(0..ROWS).collect(),
            columns: vec![match form {
                Form::Raw => Placement::Direct(vec![Segment {
                    first_row: 0,
                    rows: ROWS,
                    offset: 0,
                }]),
                _ => Placement::Decoded {
                    stored_bytes: bytes.len() as u64,
                    on_device: form == Form::ForDevice,
                    chunk_bytes: None,
                },
            }],
        };
        let input = Input {
            files: vec![FileVersion::of(&path).unwrap()],
            stripes: vec![stripe],
            column_ids: vec![1],
            dictionary: u64::from(is_code),
            value_ranges: Vec::new(),
            value_bounds: vec![bounds],
            decoder: numbers.clone(),
        };
        Self {
            _folder: folder,
            numbers,
            input: Arc::new(input),
        }
    }

    /// Rows with a value, and for each of `wanted`, how many rows have it.
    fn counts(&self, gpu: &Gpu, wanted: &[i64], backing: BackingChoice) -> Vec<i64> {
        let count = |filter| Aggregate {
            function: Function::Count,
            argument: None,
            filter,
        };
        let equals = |at: usize| Expr::Binary {
            op: BinaryOp::Eq,
            left: Box::new(Expr::Column(0)),
            right: Box::new(Expr::Argument(at)),
        };
        let program = Program {
            columns: vec![Column::new("number", self.numbers.ty, false)],
            arguments: vec![self.numbers.ty; wanted.len()],
            conjuncts: Vec::new(),
            keys: Vec::new(),
            aggregates: std::iter::once(None)
                .chain((0..wanted.len()).map(|at| Some(equals(at))))
                .map(count)
                .collect(),
        };
        let argument = |value: &i64| match is_float(self.numbers.ty) {
            true => Value::Float(*value as f64),
            false => Value::Int(*value),
        };
        let arguments: Vec<Value> = wanted.iter().map(argument).collect();
        let output = gpu.run(Request {
            program: &program,
            arguments: &arguments,
            input: &self.input,
            backing,
            decompression: Decompression::default(),
            selectivity: 1.0,
            waits_for_memory: true,
            cancel: &Arc::new(AtomicBool::new(false)),
        });
        counts(&output.unwrap_or_else(|e| panic!("{e}")))
    }

    /// Compares an answer with the values, twice, and returns the resident bytes of a value.
    fn check(&self, gpu: &Gpu) -> f64 {
        let values = &self.numbers.values;
        let (first, last) = (values[0], values[ROWS as usize - 1]);
        let of = |wanted: i64| values.iter().filter(|value| **value == wanted).count() as i64;
        let zeros = of(0) + of(MINUS_ZERO);
        let last = if [HALF, MINUS_ZERO].contains(&last) { 2 } else { last };
        let expected = [ROWS as i64, if first == 0 { zeros } else { of(first) }, of(last), of(1)];
        for backing in [BackingChoice::Auto, BackingChoice::All(Backing::Resident)] {
            assert_eq!(self.counts(gpu, &[first, last, 1], backing), expected, "{backing:?}");
        }
        gpu.resident_bytes() as f64 / ROWS as f64
    }
}

fn counts(output: &Output) -> Vec<i64> {
    let count = |column: &grampus_gpu_exec::output::ResultColumn| match &column.values {
        ResultValues::Int(values) => values[0],
        other => panic!("{other:?} is no count"),
    };
    output.aggregates.iter().map(count).collect()
}

/// Values from 0 to `most`, of which the last is `last`.
fn numbers(most: i64, last: i64) -> Vec<i64> {
    let mut values: Vec<i64> = (0..ROWS as i64).map(|row| row * 7 % (most + 1)).collect();
    values[ROWS as usize - 1] = last;
    values
}

/// Forms of a column of a type.
fn forms(ty: Type) -> &'static [Form] {
    match is_float(ty) {
        true => &[Form::ForCpu, Form::ForDevice, Form::Raw],
        false => &[Form::ForCpu, Form::ForDevice],
    }
}

#[test]
fn values_take_as_many_bytes_as_their_bounds_need() {
    for (ty, values, bounds, bytes) in [
        (Type::Int64, numbers(200, 200), Some((0, 200)), 1.0),
        (Type::Int64, numbers(100, -100), Some((-100, 100)), 1.0),
        (Type::Int64, numbers(4000, 60_000), Some((0, 60_000)), 2.0),
        (Type::Int32, numbers(4000, -1), Some((-1, 4000)), 2.0),
        (Type::Int64, numbers(4000, 1 << 33), Some((0, 1 << 33)), 8.0),
        (Type::Int64, numbers(200, 200), None, 8.0),
        (Type::Code, numbers(80, 80), Some((0, 240)), 1.0),
        (Type::Float64, numbers(200, 200), Some((0, 200)), 1.0),
        (Type::Float64, numbers(4000, -1), Some((-1, 4000)), 2.0),
        (Type::Float64, numbers(4000, 70_000), Some((0, 70_000)), 8.0),
        (Type::Float64, numbers(200, HALF), None, 8.0),
        (Type::Float32, numbers(100, -100), Some((-100, 100)), 1.0),
    ] {
        for form in forms(ty) {
            let table = Table::new(ty, values.clone(), *form, bounds);
            let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
                return;
            };
            assert_eq!(table.check(&gpu), bytes, "{ty}, {bounds:?}, {form:?}");
            let by_cpu = table.numbers.decoded.load(Ordering::Relaxed) > 0;
            assert_eq!(by_cpu, *form == Form::ForCpu);
        }
    }
}

/// Without a row index the device cannot decode, and copies floats as they are.
#[test]
fn floats_in_row_groups_of_any_size_are_not_the_cpus_to_decode() {
    let mut table = Table::new(Type::Float64, numbers(200, 200), Form::Raw, Some((0, 200)));
    Arc::make_mut(&mut table.input).stripes[0].group_rows = 1 << 20;
    let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
        return;
    };
    assert_eq!(table.check(&gpu), 8.0);
    assert_eq!(table.numbers.decoded.load(Ordering::Relaxed), 0);
}

/// Statistics that are wrong, and a dictionary that grows, cost another attempt, and no answer.
#[test]
fn values_beyond_their_bounds_are_loaded_again() {
    for (ty, values, bounds, bytes) in [
        (Type::Int64, numbers(200, 300), Some((0, 200)), 8.0),
        (Type::Int64, numbers(200, -1), Some((0, 200)), 8.0),
        (Type::Int32, numbers(4000, 70_000), Some((0, 4000)), 4.0),
        (Type::Code, numbers(200, 200), Some((0, 100)), 2.0),
        (Type::Float64, numbers(200, 300), Some((0, 200)), 8.0),
        (Type::Float64, numbers(200, HALF), Some((0, 200)), 8.0),
        (Type::Float32, numbers(200, MINUS_ZERO), Some((0, 200)), 4.0),
    ] {
        for form in forms(ty) {
            let table = Table::new(ty, values.clone(), *form, bounds);
            let Some(gpu) = gpu(None, RuntimeOptions::default()) else {
                return;
            };
            let resident = table.check(&gpu);
            assert!(resident >= bytes, "{resident} bytes of {ty}, {bounds:?}");
            // Later queries find the wider layout, and load nothing.
            let loads = table.numbers.decoded.load(Ordering::Relaxed);
            table.check(&gpu);
            assert_eq!(table.numbers.decoded.load(Ordering::Relaxed), loads);
            assert_eq!(gpu.resident_bytes() as f64 / ROWS as f64, resident);
        }
    }
}
