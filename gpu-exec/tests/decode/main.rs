//! The decoding kernel by hand-made streams: the examples of the ORC specification, every kind of run at every width, any range of rows,
//! and streams that make no sense. What orc-layout's decoder makes of files is compared in the engine's tests.

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;

use common::random::Random;
use common::streams::{self, Coded, Column};
use grampus_gpu_exec::codegen::{GPU_LANES, HOST_LANES};
use grampus_gpu_exec::decode::standalone::{Rows, decode};
use grampus_gpu_exec::decode::{ENTRY, translation_unit};
use grampus_gpu_exec::input::Decoded;
use grampus_gpu_exec::input::encoded_column::{Change, Clock, Runs, Values};
use grampus_gpu_exec::kernel_cache::KernelCache;
use grampus_gpu_exec::program::{TimeUnit, Type};
use grampus_io_stack::cuda::{self, Device, Module};

const TIME: Type = Type::Timestamp(TimeUnit::Nanosecond);
const PIECE_BYTES: usize = 1 << 22;

/// Something to decode on: warps of one lane, of 32 in lockstep, and a GPU where there is one.
struct Machine {
    device: Device,
    module: Arc<Module>,
    lanes: u32,
}

fn machines() -> Vec<Machine> {
    let mut machines = Vec::new();
    match cuda::host_compiler() {
        Ok(_) => {
            let device = Device::host(2, 1 << 30);
            let modules = KernelCache::new(&device, None).expect("there is a compiler");
            let module = modules.decoding().unwrap_or_else(|e| panic!("{e}")).module;
            machines.push(Machine {
                device: device.clone(),
                module,
                lanes: HOST_LANES,
            });
            let text = format!(
                "{}{}{}",
                include_str!("../../../io-stack/tests/cpp/lanes.h"),
                translation_unit(),
                include_str!("../../../io-stack/tests/cpp/lanes_end.h")
            );
            let compiled = cuda::compile_for(&device, &text, ENTRY).unwrap_or_else(|e| panic!("{e}"));
            let module = Arc::new(Module::load(&device, &compiled.cubin).expect("loads"));
            machines.push(Machine {
                device,
                module,
                lanes: GPU_LANES,
            });
        }
        Err(e) => println!("skipped: no C++ compiler ({e})"),
    }
    match cuda::compiler_version().and_then(|_| Device::open(0)) {
        Ok(device) => {
            let modules = KernelCache::new(&device, None).expect("there is NVRTC");
            let loaded = modules.decoding().unwrap_or_else(|e| panic!("{e}"));
            println!("on a GPU; compiled in {:?}", loaded.took);
            machines.push(Machine {
                module: loaded.module,
                device,
                lanes: GPU_LANES,
            });
        }
        Err(e) => println!("skipped: no GPU ({e})"),
    }
    machines
}

impl Machine {
    fn decode(&self, column: &Column, rows: std::ops::Range<u64>, batch_bytes: usize) -> Option<Decoded> {
        let what = Rows {
            encoded: &column.encoded,
            ty: column.ty,
            rows,
            codes: &column.numbers,
            nullable: column.nullable,
            batch_bytes,
        };
        decode(&self.device, &self.module, &what, &column.file).unwrap_or_else(|e| panic!("{} lanes: {e}", self.lanes))
    }

    /// Decodes rows and compares.
    fn check(&self, column: &Column, rows: std::ops::Range<u64>, batch_bytes: usize, what: &str) {
        let found = self.decode(column, rows.clone(), batch_bytes);
        let wanted = column.expected(&rows);
        assert!(
            found.as_ref() == Some(&wanted),
            "{what}, rows {rows:?}, {} lanes: {}",
            self.lanes,
            streams::difference(found.as_ref(), &wanted, column.ty.width() as usize)
        );
    }
}

/// Whole, and at a few ranges, in large pieces and in small ones.
fn check_ranges(machine: &Machine, column: &Column, random: &mut Random, what: &str) {
    let rows = column.rows();
    machine.check(column, 0..rows, PIECE_BYTES, what);
    for _ in 0..4 {
        let (a, b) = (random.below(rows + 1), random.below(rows + 1));
        machine.check(column, a.min(b)..a.max(b), PIECE_BYTES, what);
    }
    let first = random.below(rows);
    machine.check(column, first..first + 1, PIECE_BYTES, what);
    // No piece holds less than a row group.
    let most = column.largest_group_bytes();
    machine.check(column, 0..rows, most, what);
}

#[test]
fn the_examples_of_the_specification() {
    let zigzag = |v: i64| (v >> 1) ^ -(v & 1);
    let v2: &[(&[u8], Vec<i64>)] = &[
        (&[0x0a, 0x27, 0x10], vec![zigzag(10_000); 5]),
        (
            &[0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef],
            [23713, 43806, 57005, 48879].map(zigzag).to_vec(),
        ),
        (
            &[
                0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46, 0x50, 0x5a, 0x64,
                0x6e, 0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
            ],
            [2030, 2000, 2020, 1_000_000]
                .into_iter()
                .chain((2040..=2190).step_by(10))
                .collect(),
        ),
        // The first prime is stored unsigned there: as a signed base it is half of it.
        (
            &[0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46],
            [2, 3, 5, 7, 11, 13, 17, 19, 23, 29].map(|v| v - 1).to_vec(),
        ),
    ];
    let v1: &[(&[u8], Vec<i64>)] = &[
        (&[0x61, 0x00, 0x07], vec![zigzag(7); 100]),
        (&[0x61, 0xff, 0x64], (0..100).map(|k| zigzag(100) - k).collect()),
        (
            &[0xfb, 0x02, 0x03, 0x06, 0x07, 0x0b],
            [2, 3, 6, 7, 11].map(zigzag).to_vec(),
        ),
    ];
    let bytes: &[(&[u8], Vec<i64>)] = &[(&[0x61, 0x00], vec![0; 100]), (&[0xfe, 0x44, 0x45], vec![0x44, 0x45])];
    let bits: &[(&[u8], Vec<i64>)] = &[(&[0xff, 0x80], vec![1, 0, 0, 0, 0, 0, 0, 0])];
    let all = [
        (v2, Values::Integers(Runs::V2), Type::Int64),
        (v1, Values::Integers(Runs::V1), Type::Int64),
        (bytes, Values::Bytes, Type::Int8),
        (bits, Values::Booleans, Type::Bool),
    ];
    for machine in machines() {
        for (examples, values, ty) in &all {
            for (bytes, wanted) in *examples {
                let data = Coded::of_bytes(bytes, wanted.clone());
                let column = Column::new(values.clone(), *ty, None, data, None, wanted.len() as u64);
                machine.check(&column, 0..wanted.len() as u64, PIECE_BYTES, &format!("{bytes:02x?}"));
            }
        }
        // Unsigned, as a dictionary's indexes: the direct run, and the primes.
        let codes: [(&[u8], Vec<i64>); 2] = [
            (v2[1].0, vec![23713, 43806, 57005, 48879]),
            (v2[3].0, vec![2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
        ];
        for (bytes, indexes) in codes {
            let rows = indexes.len() as u64;
            let mut column = Column::new(
                Values::Codes(Runs::V2, 1 << 16),
                Type::Code,
                None,
                Coded::of_bytes(bytes, indexes),
                None,
                rows,
            );
            column.use_numbers((0..1 << 16).map(|k| k * 7 + 3).collect());
            machine.check(&column, 0..rows, PIECE_BYTES, "indexes");
        }
    }
}

/// Every way to code a column, at random.
fn columns(random: &mut Random, seed: u64) -> Vec<(String, Column)> {
    let mut columns = Vec::new();
    let group_rows = [7, 64, 100, 1000][random.below(4) as usize];
    let rows = 1 + random.below(3000);
    for nulls in [false, true] {
        let present = nulls.then(|| streams::bits(random, rows));
        let count = present.as_ref().map_or(rows, |p| p.values.iter().sum::<i64>() as u64);
        let mut add = |name: &str, values: Values, ty: Type, data: Coded, fraction: Option<Coded>| {
            let column = Column::new(values, ty, present.clone(), data, fraction, group_rows);
            columns.push((
                format!("seed {seed}: {name}, nulls {nulls}, groups of {group_rows}"),
                column,
            ));
        };
        for (runs, name) in [(Runs::V1, "version 1"), (Runs::V2, "version 2")] {
            for (ty, bits) in [
                (Type::Int16, 16),
                (Type::Int32, 32),
                (Type::Date32, 32),
                (Type::Int64, 64),
            ] {
                let data = streams::integers(random, runs, count, bits, true);
                add(name, Values::Integers(runs), ty, data, None);
            }
            let data = streams::integers(random, runs, count, 10, false);
            add("codes", Values::Codes(runs, 1 << 10), Type::Code, data, None);
            let (seconds, nanos) = streams::times(random, runs, count);
            let clock = streams::clock(random);
            add("times", Values::Timestamps(runs, clock), TIME, seconds, Some(nanos));
        }
        add("bytes", Values::Bytes, Type::Int8, streams::bytes(random, count), None);
        add(
            "booleans",
            Values::Booleans,
            Type::Bool,
            streams::bits(random, count),
            None,
        );
        add(
            "doubles",
            Values::Raw,
            Type::Float64,
            streams::raw(random, count, 8),
            None,
        );
        add(
            "floats",
            Values::Raw,
            Type::Float32,
            streams::raw(random, count, 4),
            None,
        );
    }
    columns
}

#[test]
fn any_rows_of_any_column() {
    for machine in machines() {
        // Fibers are slow.
        let seeds = if machine.device.is_host() && machine.lanes > 1 {
            4
        } else {
            12
        };
        for seed in 1..=seeds {
            let mut random = Random(seed);
            for (name, column) in columns(&mut random, seed) {
                check_ranges(&machine, &column, &mut random, &name);
            }
        }
    }
}

#[test]
fn every_run_of_version_2_at_every_width() {
    for machine in machines() {
        for code in 0..32 {
            let mut random = Random(code as u64 + 77);
            for data in streams::runs_of_width(&mut random, code) {
                let rows = data.values.len() as u64;
                let column = Column::new(Values::Integers(Runs::V2), Type::Int64, None, data, None, 50);
                machine.check(&column, 0..rows, PIECE_BYTES, &format!("width code {code}"));
                let first = random.below(rows);
                machine.check(&column, first..rows, PIECE_BYTES, &format!("width code {code}"));
            }
        }
    }
}

/// Times before 1970, around the ends of what nanoseconds count, and by a zone whose clock changes.
#[test]
fn times_by_the_rules_of_writers() {
    let epoch = 1_420_070_400;
    let zone: Arc<[Change]> = [(-2_000_000_000, 3600), (0, -28_800), (100, -25_200), (4_000_000_000, 0)]
        .map(|(from, offset)| Change { from, offset })
        .into();
    // Seconds since 1970, nanoseconds as stored, and what they are by UTC and by the zone; None: an error.
    let cases: &[(i64, i64, Option<i64>, Option<i64>)] = &[
        (0, 0, Some(0), Some(-28_800_000_000_000)),
        (
            99,
            5 << 3,
            Some(99_000_000_005),
            Some((99 - 28_800) * 1_000_000_000 + 5),
        ),
        (
            100,
            0x0a,
            Some(100_000_001_000),
            Some((100 - 25_200) * 1_000_000_000 + 1000),
        ),
        // A second that was rounded up, and one with too small a fraction for that.
        (-1, 999_000_000 << 3, Some(-1_001_000_000), Some(3_598_999_000_000)),
        (-1, 999_999 << 3, Some(-999_000_001), Some(3_599_000_999_999)),
        (9_223_372_036, 854_775_807 << 3, Some(i64::MAX), None),
        (9_223_372_036, 854_775_808 << 3, None, None),
        (9_223_372_037, 0, None, None),
        (-9_223_372_036, 145_224_192 << 3, Some(i64::MIN), None),
        (-9_223_372_036, 145_224_191 << 3, None, None),
        (0, 1_000_000_000 << 3, None, None),
        (0, (10_000_000 << 3) | 7, None, None),
        (0, -8, None, None),
        (i64::MAX - epoch, 0, None, None),
        (i64::MIN + epoch, 0, None, None),
        (-2_000_000_001, 0, Some(-2_000_000_001_000_000_000), None),
        (4_000_000_000, 0, Some(4_000_000_000_000_000_000), None),
    ];
    for machine in machines() {
        for &(seconds, nanos, by_utc, by_zone) in cases {
            for (zone, wanted) in [(None, by_utc), (Some(zone.clone()), by_zone)] {
                let stored = seconds.wrapping_sub(epoch);
                let clock = Clock { epoch, zone };
                let column = Column::new(
                    Values::Timestamps(Runs::V1, clock),
                    TIME,
                    None,
                    streams::literals(&[stored], true),
                    Some(streams::literals(&[nanos], false)),
                    1,
                );
                let found = machine.decode(&column, 0..1, PIECE_BYTES);
                let found = found.map(|d| i64::from_le_bytes(d.values.try_into().expect("one value")));
                assert_eq!(found, wanted, "{seconds} s, {nanos:#x} stored, {} lanes", machine.lanes);
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_an_error() {
    let integers = |bytes: &[u8], runs, ty, rows: usize| {
        Column::new(
            Values::Integers(runs),
            ty,
            None,
            Coded::of_bytes(bytes, vec![0; rows]),
            None,
            rows as u64,
        )
    };
    let nulls = {
        let present = Coded::of_bytes(&[0xff, 0x80], vec![1, 0, 0, 0, 0, 0, 0, 0]);
        let data = Coded::of_bytes(&[0xff, 0x02], vec![1]);
        let mut column = Column::new(Values::Integers(Runs::V1), Type::Int64, Some(present), data, None, 8);
        column.nullable = false;
        column
    };
    let mut too_large = Column::new(
        Values::Codes(Runs::V1, 4),
        Type::Code,
        None,
        Coded::of_bytes(&[0xff, 0x04], vec![4]),
        None,
        1,
    );
    too_large.use_numbers(vec![5, 6, 7, 8]);
    let cases = [
        ("no bytes", integers(&[], Runs::V2, Type::Int64, 1)),
        (
            "a header without a body",
            integers(&[0x5e, 0x03, 0x5c], Runs::V2, Type::Int64, 4),
        ),
        (
            "fewer values than rows",
            integers(&[0x0a, 0x27, 0x10], Runs::V2, Type::Int64, 6),
        ),
        ("an endless varint", integers(&[0xff; 40], Runs::V1, Type::Int64, 1)),
        (
            "eleven bytes of varint",
            integers(
                &[0xff, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1],
                Runs::V1,
                Type::Int64,
                1,
            ),
        ),
        // Eight values of one bit, one patch of one bit with a gap of 9.
        (
            "a patch beyond its run",
            integers(&[0x80, 7, 0x00, 0x61, 0x00, 0xff, 0x98], Runs::V2, Type::Int64, 8),
        ),
        (
            "a patch of more than 64 bits",
            integers(
                &[0x80, 0, 0x1f, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                Runs::V2,
                Type::Int64,
                1,
            ),
        ),
        (
            "a value of 17 bits",
            integers(&[0xff, 0x80, 0x80, 0x04], Runs::V1, Type::Int16, 1),
        ),
        ("an index beyond the dictionary", too_large),
        ("a missing value where there must be one", nulls),
    ];
    for machine in machines() {
        for (name, column) in &cases {
            let rows = column.rows();
            assert_eq!(
                machine.decode(column, 0..rows, PIECE_BYTES),
                None,
                "{name}, {} lanes",
                machine.lanes
            );
        }
    }
}

/// Any byte may be anything: the kernel ends, and writes nowhere else (which [`decode`] looks at); the widths agree on what comes out.
#[test]
fn damaged_streams_end_in_values_or_in_an_error() {
    let machines = machines();
    let (mut errors, mut values) = (0, 0);
    for seed in 100..130 {
        let mut random = Random(seed);
        for (name, mut column) in columns(&mut random, seed) {
            let len = column.file.len() as u64;
            for _ in 0..1 + random.below(4) {
                let at = random.below(len) as usize;
                column.file[at] = random.below(256) as u8;
            }
            let (a, b) = (random.below(column.rows() + 1), random.below(column.rows() + 1));
            let rows = a.min(b)..a.max(b);
            let found: Vec<_> = machines
                .iter()
                .map(|m| m.decode(&column, rows.clone(), PIECE_BYTES))
                .collect();
            match found.first() {
                Some(None) => errors += 1,
                Some(Some(_)) => values += 1,
                None => {}
            }
            assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{name}, rows {rows:?}");
        }
    }
    println!("{errors} errors, {values} decoded");
    assert!(
        machines.is_empty() || (errors > 50 && values > 50),
        "{errors} errors, {values} decoded"
    );
}

/// Compiles the device code with address and undefined-behaviour checks and feeds it anything; `None` where that cannot be compiled.
fn anything(name: &str, before: &str, after: &str, seeds: &str) -> Option<String> {
    let (compiler, _) = match cuda::host_compiler() {
        Ok(found) => found,
        Err(e) => {
            println!("skipped: no C++ compiler ({e})");
            return None;
        }
    };
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join(format!("{name}.cc")), folder.join(name));
    let text = format!(
        "{before}{}{after}{}",
        translation_unit(),
        include_str!("../cpp/decode_anything.cc")
    );
    std::fs::write(&source, text).expect("cargo's folder for temporary files is writable");
    let mut command = std::process::Command::new(compiler);
    command.args([
        "-std=c++17",
        "-O1",
        "-g",
        "-w",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-o",
    ]);
    let out = command
        .arg(&program)
        .arg(&source)
        .output()
        .expect("the compiler starts");
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("asan") || said.contains("ubsan"), "{said}");
        println!("skipped: no sanitizers");
        return None;
    }
    let out = std::process::Command::new(&program)
        .args(["1", seeds])
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    println!("{name}: {said}");
    Some(said)
}

#[test]
fn anything_is_read_inside_its_bytes_by_one_lane() {
    if let Some(said) = anything("decode_anything", "", "", "20000") {
        assert!(!said.starts_with("0 decoded") && !said.contains(" 0 errors"), "{said}");
    }
}

#[test]
fn anything_is_read_inside_its_bytes_by_32_lanes() {
    let (before, after) = (
        include_str!("../../../io-stack/tests/cpp/lanes.h"),
        include_str!("../../../io-stack/tests/cpp/lanes_end.h"),
    );
    if let Some(said) = anything("decode_anything_lanes", before, after, "300") {
        assert!(!said.starts_with("0 decoded") && !said.contains(" 0 errors"), "{said}");
    }
}
