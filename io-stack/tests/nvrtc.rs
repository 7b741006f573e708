//! Device headers and kernels under NVRTC, for each architecture that we name. Registers, spills and compile times are
//! written to `target/tmp/nvrtc/*.report`. Needs python3 and NVRTC (see nvrtc.py), no GPU; without them the tests print
//! "skipped" and pass.

use std::path::Path;
use std::process::Command;

use grampus_cuda::STACK_BYTES;
use grampus_io_bench::{kernels, vector_add};
use grampus_io_stack::device_headers::{self, kernel_prelude, slow_path};

/// Compiles; returns the report, or `None` without NVRTC.
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
            grampus_test_support::missing(
                grampus_test_support::Resource::Nvrtc,
                format_args!("{name} for {arch} was not compiled"),
            );
            return None;
        }
    };
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Some(Err(said));
    }
    std::fs::write(path.with_extension("report"), &said).expect("writable");
    Some(Ok(said))
}

/// `kernels_keep_to_64_registers` compiles each kernel for sm_90 to machine code.
#[test]
fn headers_and_kernels_compile_for_every_architecture() {
    for arch in ["sm_80", "compute_90", "compute_100"] {
        match compile(arch, "bench", &kernels::unit()) {
            None => return,
            Some(Ok(_)) => {}
            Some(Err(complaint)) => panic!("{arch}: {complaint}"),
        }
    }
}

#[test]
fn kernels_keep_to_64_registers() {
    for kernel in kernels::names() {
        match compile("sm_90", &kernel, &kernels::alone(&device_headers::prelude(), &kernel)) {
            None => return,
            Some(Ok(report)) => {
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

/// The code of a kernel that only reads is the same, with and without the headers of stores before it.
#[test]
fn reading_kernels_do_not_change_with_the_headers_of_stores() {
    for kernel in ["tiles_queued", "rows_queued_unaligned", "ahead_queued"] {
        let preludes = [device_headers::prelude(), device_headers::writable_prelude()];
        let mut codes = Vec::new();
        for prelude in preludes {
            match compile("sm_90", &format!("same-{kernel}"), &kernels::alone(&prelude, kernel)) {
                None => return,
                Some(Ok(report)) => codes.push(report.lines().last().unwrap_or_default().to_owned()),
                Some(Err(complaint)) => panic!("{kernel}: {complaint}"),
            }
        }
        assert!(codes[0].starts_with("code "), "{codes:?}");
        assert_eq!(codes[0], codes[1], "{kernel}");
    }
}

#[test]
fn storing_kernels_keep_to_64_registers() {
    for arch in ["sm_90", "compute_100"] {
        match compile(arch, "vector-add", &vector_add::unit()) {
            None => return,
            Some(Ok(report)) => {
                let counts = report.split(": ").skip(1);
                let counts = counts.filter_map(|rest| rest.split_once(" registers")?.0.parse::<u32>().ok());
                let counts: Vec<u32> = counts.collect();
                assert!(arch.starts_with("compute") || counts.len() == 6, "{report}");
                assert!(counts.iter().all(|count| *count <= 64), "{report}");
                // The longest chain of calls of all kernels of this project that are not linked.
                let stack = report.split_once("calls: ").and_then(|(_, rest)| rest.split_once(" B"));
                let stack = stack.and_then(|(bytes, _)| bytes.parse::<usize>().ok());
                let fits = |bytes: usize| (1024..=STACK_BYTES).contains(&bytes);
                assert!(arch.starts_with("compute") || stack.is_some_and(fits), "{report}");
            }
            Some(Err(complaint)) => panic!("{arch}: {complaint}"),
        }
    }
}

/// As queries do it: the slow path once, kernels by themselves.
#[test]
fn kernels_and_slow_path_compile_apart() {
    let relocatable = "--relocatable-device-code=true";
    let kernel = |name: &str| (name.to_owned() + "-alone", kernels::alone(&kernel_prelude(), name));
    let units = [
        ("slow-path".to_owned(), slow_path()),
        kernel("tiles_queued"),
        kernel("tiles_mapped_cached"),
        kernel("rows_queued"),
        kernel("ahead_queued"),
    ];
    for (name, text) in units {
        for arch in ["sm_80", "sm_90"] {
            match compile_with(arch, &name, &text, &[relocatable, "--maxrregcount=64"]) {
                None => return,
                Some(Ok(_)) => {}
                Some(Err(complaint)) => panic!("{name} for {arch}: {complaint}"),
            }
        }
    }
}

#[test]
fn layout_mismatch_fails_the_compile() {
    let text = device_headers::prelude().replace(
        "GRAMPUS_OFFSETOF(grampus::SqEntry, prp1) == 24",
        "GRAMPUS_OFFSETOF(grampus::SqEntry, prp1) == 16",
    );
    match compile("compute_100", "mismatch", &text) {
        None => {}
        Some(Ok(report)) => panic!("compiled: {report}"),
        Some(Err(complaint)) => assert!(complaint.contains("SqEntry::prp1"), "{complaint}"),
    }
}
