//! Generated kernels compile with NVRTC; registers, spills and compile times are printed. Needs python3 and NVRTC (see
//! io-stack/tests/nvrtc.py), no GPU; without them the tests say so and pass.

mod common;

use std::path::Path;
use std::process::Command;

use common::{col, count, shape, sum, taxi};
use grampus_gpu_exec::codegen::{Access, Grouping, QueryKernel, Shape};
use grampus_gpu_exec::program::Program;

/// Compiles; returns the report, or `None` where NVRTC is missing.
fn compile(name: &str, program: &Program, shape: &Shape) -> Option<String> {
    let kernel = QueryKernel::generate(program, shape).expect("a valid program");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvrtc");
    std::fs::create_dir_all(&folder).expect("cargo's folder for temporary files is writable");
    let path = folder.join(format!("{name}.cu"));
    std::fs::write(&path, kernel.unit()).expect("writable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../io-stack/tests/nvrtc.py");
    let out = Command::new("python3").arg(script).arg("sm_90").arg(&path).output();
    let out = match out {
        Ok(out) if out.status.code() != Some(77) => out,
        _ => {
            println!("ignored: no NVRTC");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{name}: {said}");
    println!("{name}: {said}");
    Some(said)
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
        let Some(report) = compile(name, &program, &shape(&program, access, aligned, grouping)) else {
            return;
        };
        let registers = report
            .split(": ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
        assert!(registers.is_some_and(|count| count <= 64), "{report}");
    }
    let _ = (count(), sum(col(0)));
}
