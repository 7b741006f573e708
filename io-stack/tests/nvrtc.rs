//! Every device header and kernel compiles with NVRTC for the architectures we name; registers, spills and compile times are
//! printed. Needs python3 and NVRTC (see nvrtc.py), no GPU; without them the tests say so and pass.

use std::path::Path;
use std::process::Command;

const KERNELS: &str = include_str!("cuda/kernels.cu");
const BENCHMARKS: &str = concat!(
    "static __device__ void begin_phases() {}\nstatic __device__ void end_phases(unsigned long long*) {}\n",
    include_str!("../device/bench/common.cu"),
    include_str!("../device/bench/bench.cu"),
    include_str!("../device/bench/steps.cu")
);

/// Compiles; returns the report, or `None` where NVRTC is missing.
fn compile(arch: &str, name: &str, text: &str) -> Option<Result<String, String>> {
    compile_with(arch, name, text, &[])
}

fn compile_with(arch: &str, name: &str, text: &str, options: &[&str]) -> Option<Result<String, String>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvrtc");
    std::fs::create_dir_all(&folder).expect("cargo's folder for temporary files is writable");
    let path = folder.join(format!("{name}-{arch}.cu"));
    std::fs::write(&path, text).expect("writable");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvrtc.py");
    let out = Command::new("python3")
        .arg(script)
        .arg(arch)
        .arg(&path)
        .args(options)
        .output();
    let out = match out {
        Ok(out) if out.status.code() != Some(77) => out,
        _ => {
            println!("skipped: no NVRTC ({name} for {arch} was not compiled)");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    Some(if out.status.success() { Ok(said) } else { Err(said) })
}

/// The kernels file reduced to one kernel, behind `prelude`.
fn only(prelude: String, kernel: &str) -> String {
    let start = KERNELS.find("KERNEL tile_mapped(").expect("the first kernel");
    let at = KERNELS.find(&format!("KERNEL {kernel}(")).expect("the kernel");
    let end = KERNELS[at + 1..]
        .find("\nKERNEL ")
        .map_or(KERNELS.len(), |length| at + 1 + length);
    format!("{}{}{}", prelude, &KERNELS[..start], &KERNELS[at..end])
}

#[test]
fn every_header_and_kernel_compiles() {
    for (name, kernels) in [("all", KERNELS), ("bench", BENCHMARKS)] {
        let text = grampus_io_stack::device::prelude() + kernels;
        for arch in ["sm_80", "sm_90", "compute_100"] {
            match compile(arch, name, &text) {
                None => return,
                Some(Ok(report)) => println!("{report}"),
                Some(Err(complaint)) => panic!("{arch}: {complaint}"),
            }
        }
    }
}

#[test]
fn registers_spills_and_compile_times() {
    for kernel in KERNELS
        .lines()
        .filter_map(|line| line.strip_prefix("KERNEL ")?.split('(').next())
    {
        match compile("sm_90", kernel, &only(grampus_io_stack::device::prelude(), kernel)) {
            None => return,
            Some(Ok(report)) => {
                print!("{report}");
                let registers = report
                    .split(": ")
                    .nth(1)
                    .and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
                assert!(registers.is_some_and(|count| count <= 64), "{report}");
            }
            Some(Err(complaint)) => panic!("{kernel}: {complaint}"),
        }
    }
}

/// As queries do it: the slow path once, kernels by themselves.
#[test]
fn kernels_and_slow_path_compile_apart() {
    use grampus_io_stack::device::{kernel_prelude, slow_path};
    let relocatable = "--relocatable-device-code=true";
    let kernel = |name: &str| (name.to_owned() + "-alone", only(kernel_prelude(), name));
    let units = [
        ("slow-path".to_owned(), slow_path()),
        kernel("tile_queued"),
        kernel("tile_mapped_cached"),
        kernel("rows_queued"),
        kernel("ahead_queued"),
    ];
    for (name, text) in units {
        for arch in ["sm_80", "sm_90"] {
            match compile_with(arch, &name, &text, &[relocatable, "--maxrregcount=64"]) {
                None => return,
                Some(Ok(report)) => println!("{name} for {arch}: {}", report.trim()),
                Some(Err(complaint)) => panic!("{name} for {arch}: {complaint}"),
            }
        }
    }
}

#[test]
fn a_layout_mismatch_fails_the_compile() {
    let text = grampus_io_stack::device::prelude().replace(
        "GRAMPUS_OFFSETOF(grampus::SqEntry, prp1) == 24",
        "GRAMPUS_OFFSETOF(grampus::SqEntry, prp1) == 16",
    );
    match compile("compute_100", "mismatch", &text) {
        None => {}
        Some(Ok(report)) => panic!("compiled: {report}"),
        Some(Err(complaint)) => assert!(complaint.contains("SqEntry::prp1"), "{complaint}"),
    }
}
