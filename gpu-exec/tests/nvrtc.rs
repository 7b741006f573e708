//! Generated kernels compile with NVRTC. The tests print registers, spills and compile times.
//!
//! The tests need python3 and NVRTC (see io-stack/tests/nvrtc.py), but no GPU. Without these they print a message and
//! pass.

mod common;

use std::path::Path;
use std::process::Command;

use common::random::{self, Random};
use common::{aggregate, binary, col, column, count, dollars_per_mile, paged_shape, shape, sum, taxi, without_nulls};
use grampus_cuda::STACK_BYTES;
use grampus_gpu_exec::codegen::{Access, ENTRY, Grouping, QueryKernel, Shape, TableScope, slow_path};
use grampus_gpu_exec::decompress::ChunkKernel;
use grampus_gpu_exec::program::{BinaryOp, DatePart, Expr, Function, MathFunction, Program, TimeUnit, Type};

/// Compiles a kernel and returns the report. `None`: NVRTC is missing.
fn compile(name: &str, program: &Program, shape: &Shape) -> Option<String> {
    let kernel = QueryKernel::generate(program, shape).expect("a valid program");
    // As in kernel_cache.rs, a kernel's units are linked with each other and with the slow path.
    let mut said = String::new();
    for unit in &kernel.units_to_link() {
        let part = if unit.contains(&format!("GRAMPUS_KERNEL({ENTRY},")) {
            ""
        } else {
            "_stages"
        };
        said += &compile_unit(&format!("{name}{part}"), unit)?;
    }
    let calls = stack_bytes(&said, 1);
    assert!(
        calls + SLOW_PATH_STACK_BYTES <= STACK_BYTES,
        "{calls} bytes of stack: {said}"
    );
    Some(said)
}

fn compile_unit(name: &str, unit: &str) -> Option<String> {
    compile_unit_for("sm_90", name, unit, true)
}

/// `is_linked`: the unit is one of several, as those of a query's kernel are.
fn compile_unit_for(arch: &str, name: &str, unit: &str, is_linked: bool) -> Option<String> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvrtc");
    std::fs::create_dir_all(&folder).expect("cargo's folder for temporary files is writable");
    let path = folder.join(format!("{name}-{arch}.cu"));
    std::fs::write(&path, unit).expect("writable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../io-stack/tests/nvrtc.py");
    let mut command = Command::new("python3");
    command.arg(script).arg(arch).arg(&path).arg("--maxrregcount=64");
    let out = command
        .args(is_linked.then_some("--relocatable-device-code=true"))
        .output();
    let out = match out {
        Ok(out) if out.status.code() != Some(77) => out,
        _ => {
            grampus_test_support::missing(
                grampus_test_support::Resource::Nvrtc,
                "neither in GRAMPUS_NVRTC_PATH nor installed",
            );
            return None;
        }
    };
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{name}: {said}");
    println!("{name}: {said}");
    Some(said)
}

/// Registers of the kernel that needs most.
fn registers(report: &str) -> Option<u32> {
    let counts = report
        .split(" registers")
        .filter_map(|before| before.rsplit(' ').next()?.parse().ok());
    counts.max()
}

/// Bytes that a loop over tiles with groups by code stores to local memory, at most: around calls out of line.
const MAX_SPILLED_BYTES: u32 = 192;

/// Stored bytes of the kernel that spills most.
fn spilled_bytes(report: &str) -> u32 {
    let counts = report
        .split(" B spill stores")
        .filter_map(|before| before.rsplit(' ').next()?.parse().ok());
    counts.max().unwrap_or(0)
}

#[test]
fn decoding_kernel_does_not_spill() {
    let Some(report) = compile_unit("decode", &grampus_gpu_exec::decode::translation_unit()) else {
        return;
    };
    assert!(registers(&report).is_some_and(|count| count <= 64), "{report}");
    assert!(report.contains(" 0 B spill stores, 0 B spill loads"), "{report}");
}

#[test]
fn decompression_kernels_do_not_spill() {
    for kernel in ChunkKernel::ALL {
        // Four blocks of 256 threads fit, or of 128.
        let registers = 65_536 / (4 * kernel.block_threads());
        does_not_spill(kernel.entry(), &kernel.translation_unit(), (1, registers));
    }
}

#[test]
fn kernels_around_nvcomp_do_not_spill() {
    let unit = grampus_gpu_exec::decompress::library_translation_unit();
    does_not_spill("library_chunks", &unit, (2, 64));
}

fn does_not_spill(name: &str, unit: &str, (kernels, most_registers): (usize, u32)) {
    for arch in ["sm_80", "sm_90"] {
        let Some(report) = compile_unit_for(arch, name, unit, false) else {
            return;
        };
        assert!(
            registers(&report).is_some_and(|count| count <= most_registers),
            "{report}"
        );
        let without_spills = report.matches(" 0 B spill stores, 0 B spill loads").count();
        assert_eq!(without_spills, kernels, "{report}");
    }
}

/// Bytes of stack, at most, of the slow path's calls. A kernel calls it by address and has the rest.
const SLOW_PATH_STACK_BYTES: usize = 1536;

/// Bytes of stack, summed over units, of "calls: N B of stack, M B before calls out".
fn stack_bytes(report: &str, which: usize) -> usize {
    let numbers = report.split("calls: ").skip(1).map(|rest| rest.split(", ").nth(which));
    let bytes = |text: Option<&str>| text.and_then(|text| text.split(' ').next()?.parse::<usize>().ok());
    numbers.map(|text| bytes(text).expect("a number of bytes")).sum()
}

#[test]
fn slow_path_has_the_stack_that_kernels_leave_it() {
    compile_unit("slow_path", &slow_path(false));
    if let Some(report) = compile_unit("slow_path_queued", &slow_path(true)) {
        let bytes = stack_bytes(&report, 0);
        assert!((1024..=SLOW_PATH_STACK_BYTES).contains(&bytes), "{report}");
    }
}

#[test]
fn registers_spills_and_compile_times() {
    let grouped = |mut program: Program| {
        program.keys = vec![col(1)];
        program
    };
    let unfiltered = |mut program: Program| {
        program.conjuncts.clear();
        program
    };
    let kernels = [
        ("q0", taxi(0), true, Access::Plain, Grouping::Ungrouped),
        ("q0_unaligned", taxi(0), false, Access::Plain, Grouping::Ungrouped),
        ("q0_queued", taxi(0), false, Access::Queued, Grouping::Ungrouped),
        ("q5", taxi(5), true, Access::Plain, Grouping::Ungrouped),
        ("q5_unaligned", taxi(5), false, Access::Plain, Grouping::Ungrouped),
        ("q5_queued", taxi(5), false, Access::Queued, Grouping::Ungrouped),
        ("q5_sql", dollars_per_mile(), true, Access::Plain, Grouping::Ungrouped),
        (
            "q5_sql_queued",
            dollars_per_mile(),
            false,
            Access::Queued,
            Grouping::Ungrouped,
        ),
        (
            "q5_sql_paged",
            dollars_per_mile(),
            true,
            Access::Paged,
            Grouping::Ungrouped,
        ),
        ("q5_paged", taxi(5), true, Access::Paged, Grouping::Ungrouped),
        (
            "grouped_paged",
            grouped(taxi(2)),
            true,
            Access::Paged,
            Grouping::Private,
        ),
        (
            "sum5_unfiltered",
            unfiltered(taxi(5)),
            true,
            Access::Plain,
            Grouping::Ungrouped,
        ),
        ("grouped_own", grouped(taxi(2)), true, Access::Plain, Grouping::Private),
        ("grouped_all", grouped(taxi(2)), true, Access::Plain, Grouping::Global),
        (
            "grouped_unfiltered",
            grouped(unfiltered(taxi(2))),
            true,
            Access::Plain,
            Grouping::Private,
        ),
    ];
    for (name, program, aligned, access, grouping) in kernels {
        let shape = match access {
            Access::Paged => paged_shape(&program, aligned, grouping),
            _ => shape(&program, access, aligned, grouping),
        };
        let Some(report) = compile(name, &program, &without_nulls(shape)) else {
            return;
        };
        assert!(registers(&report).is_some_and(|count| count <= 64), "{report}");
    }
}

/// Every operator and every function once, for both widths of floats.
#[test]
fn every_operator_compiles() {
    let of = |ty: Type, c: usize| {
        let binary = |op| common::binary(op, col(c), col(c));
        let mut exprs: Vec<Expr> = [BinaryOp::Add, BinaryOp::Divide, BinaryOp::Modulo].map(binary).to_vec();
        let boxed = || Box::new(col(c));
        exprs.push(Expr::Negate(boxed()));
        if matches!(ty, Type::Float32 | Type::Float64) {
            let functions = [
                MathFunction::Floor,
                MathFunction::Ceil,
                MathFunction::Abs,
                MathFunction::Sqrt,
            ];
            exprs.extend(functions.map(|function| Expr::Math {
                function,
                value: boxed(),
            }));
        }
        let to = [Type::Int8, Type::Int64, Type::Float32];
        exprs.extend(to.map(|to| Expr::Cast { value: boxed(), to }));
        exprs
    };
    let types = [Type::Int16, Type::Int32, Type::Int64, Type::Float32, Type::Float64];
    let mut exprs: Vec<Expr> = types.iter().enumerate().flat_map(|(c, &ty)| of(ty, c)).collect();
    let time = Type::Timestamp(TimeUnit::Microsecond);
    let parts = [
        DatePart::Year,
        DatePart::Quarter,
        DatePart::Month,
        DatePart::Week,
        DatePart::Day,
        DatePart::Hour,
    ];
    exprs.extend(parts.map(|part| Expr::Extract {
        part,
        value: Box::new(col(5)),
    }));
    exprs.extend(parts.map(|part| Expr::Truncate {
        part,
        value: Box::new(col(5)),
    }));
    let decimal = Type::Decimal { precision: 9, scale: 2 };
    let columns = types.into_iter().chain([time, decimal]);
    let mut program = Program {
        columns: columns.map(|ty| column("c", ty, true)).collect(),
        arguments: vec![],
        conjuncts: vec![],
        keys: vec![],
        aggregates: exprs.into_iter().map(|e| aggregate(Function::Max, Some(e))).collect(),
    };
    program.aggregates.push(sum(col(6)));
    assert!(program.aggregates.len() <= 64);
    for grouping in [Grouping::Ungrouped, Grouping::Private, Grouping::Global] {
        if grouping != Grouping::Ungrouped {
            program.keys = vec![col(3), col(4)];
            program.aggregates = vec![
                count(),
                sum(col(6)),
                sum(col(4)),
                aggregate(Function::Min, Some(col(3))),
            ];
        }
        if compile("everything", &program, &shape(&program, Access::Plain, false, grouping)).is_none() {
            return;
        }
    }
}

/// Every operator on decimals of 16 bytes, and the aggregates whose words no atomics combine.
#[test]
fn decimals_of_38_digits_and_moments_compile() {
    let decimal = |precision, scale| Type::Decimal { precision, scale };
    let product = || binary(BinaryOp::Multiply, col(0), col(1));
    let mut exprs = vec![
        binary(BinaryOp::Multiply, product(), product()),
        binary(BinaryOp::Multiply, product(), col(0)),
        binary(BinaryOp::Add, product(), product()),
        Expr::Negate(Box::new(product())),
        binary(BinaryOp::Lt, product(), product()),
    ];
    for to in [
        Type::Float64,
        Type::Int32,
        decimal(38, 8),
        decimal(38, 0),
        decimal(9, 2),
    ] {
        let value = Box::new(product());
        exprs.extend([
            Expr::Cast {
                value: value.clone(),
                to,
            },
            Expr::TryCast { value, to },
        ]);
    }
    let of = |e: Expr, program: &Program| match program.type_of(&e) {
        Ok(Type::Decimal { .. }) => sum(e),
        _ => aggregate(Function::Max, Some(e)),
    };
    let mut program = Program {
        columns: vec![
            column("a", decimal(18, 2), true),
            column("b", decimal(18, 2), false),
            column("x", Type::Float64, true),
        ],
        arguments: vec![],
        conjuncts: vec![],
        keys: vec![],
        aggregates: vec![],
    };
    program.aggregates = exprs.into_iter().map(|e| of(e, &program)).collect();
    program.aggregates.push(aggregate(Function::Moments, Some(col(2))));
    for grouping in [
        Grouping::Ungrouped,
        Grouping::Private,
        Grouping::Coded(TableScope::Warp),
    ] {
        if grouping != Grouping::Ungrouped {
            program.keys = vec![col(1)];
            program.aggregates.drain(..program.aggregates.len().saturating_sub(2));
        }
        if compile("decimals", &program, &shape(&program, Access::Plain, true, grouping)).is_none() {
            return;
        }
    }
}

/// Templates nest as deep as there are words of aggregates.
#[test]
fn maximum_number_of_aggregates_compiles() {
    let mut program = taxi(1);
    program.columns[1].ty = Type::Decimal {
        precision: 18,
        scale: 2,
    };
    program.aggregates = vec![sum(col(1)); 64];
    for keys in [vec![], vec![col(0)]] {
        let grouping = if keys.is_empty() {
            Grouping::Ungrouped
        } else {
            Grouping::Private
        };
        program.keys = keys;
        let shape = shape(&program, Access::Plain, true, grouping);
        if compile("most_aggregates", &program, &shape).is_none() {
            return;
        }
    }
}

#[test]
fn random_programs_compile() {
    for seed in 1..=6 {
        let mut random = Random(seed);
        let program = random::program(&mut random, seed % 2 == 0);
        let grouping = match (program.keys.len(), seed % 2) {
            (0, _) => Grouping::Ungrouped,
            (_, 0) => Grouping::Private,
            _ => Grouping::Global,
        };
        let access = if seed % 3 == 0 { Access::Queued } else { Access::Plain };
        if compile(
            &format!("random{seed}"),
            &program,
            &shape(&program, access, false, grouping),
        )
        .is_none()
        {
            return;
        }
    }
}

/// The queries t1 to t4 of queries/, dense, with groups by code.
fn taxi_groups() -> [(&'static str, Program); 4] {
    let microseconds = Type::Timestamp(TimeUnit::Microsecond);
    let passengers = || column("passenger_count", Type::Float64, true);
    let program = |columns: Vec<grampus_gpu_exec::program::Column>, keys: Vec<Expr>, aggregates| Program {
        columns,
        arguments: vec![],
        conjuncts: vec![],
        keys,
        aggregates,
    };
    let year = Expr::Extract {
        part: DatePart::Year,
        value: Box::new(col(1)),
    };
    let miles = Expr::Cast {
        value: Box::new(Expr::Math {
            function: MathFunction::Floor,
            value: Box::new(col(2)),
        }),
        to: Type::Int32,
    };
    let (pickup, distance) = (
        column("pickup_datetime", microseconds, true),
        column("trip_distance", Type::Float64, false),
    );
    [
        (
            "t1",
            program(vec![column("cab_type", Type::Code, true)], vec![col(0)], vec![count()]),
        ),
        (
            "t2",
            program(
                vec![passengers(), column("total_amount", Type::Float64, false)],
                vec![col(0)],
                vec![aggregate(Function::Count, Some(col(1))), sum(col(1))],
            ),
        ),
        (
            "t3",
            program(
                vec![passengers(), pickup.clone()],
                vec![col(0), year.clone()],
                vec![count()],
            ),
        ),
        (
            "t4",
            program(
                vec![passengers(), pickup, distance],
                vec![col(0), year, miles],
                vec![count()],
            ),
        ),
    ]
}

#[test]
fn groups_by_code_spill_little() {
    for arch in ["sm_80", "sm_90"] {
        for (name, program) in taxi_groups() {
            for scope in [TableScope::Lane, TableScope::Warp, TableScope::Block] {
                let shape = shape(&program, Access::Plain, true, Grouping::Coded(scope));
                let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
                for unit in kernel.units_to_link() {
                    let is_loop = unit.contains("merge_groups<Words>(parameter");
                    let name = format!("{name}_{scope:?}{}", if is_loop { "" } else { "_strange" });
                    let Some(report) = compile_unit_for(arch, &name, &unit, true) else {
                        return;
                    };
                    assert!(registers(&report).is_none_or(|count| count <= 64), "{report}");
                    assert!(
                        !is_loop || spilled_bytes(&report) <= MAX_SPILLED_BYTES,
                        "{name}: {report}"
                    );
                }
            }
        }
    }
}
