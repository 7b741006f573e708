//! The I/O stack's microbenchmarks as a program of their own: `bench_io [--small] [--json FILE] [--folder DIR] [--gib
//! N] [SECTION ...]`. Exit status 1: no GPU, or a section failed.

use std::path::PathBuf;
use std::process::ExitCode;

use grampus_io_bench::{BenchOptions, run, sections};

fn main() -> ExitCode {
    let mut options = BenchOptions {
        small: false,
        sections: Vec::new(),
        folder: std::env::temp_dir(),
        bytes: 8 << 30,
    };
    let mut json = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--small" => options.small = true,
            "--json" => json = args.next().map(PathBuf::from),
            "--folder" => options.folder = args.next().map(PathBuf::from).unwrap_or_default(),
            "--gib" => options.bytes = args.next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(8) << 30,
            name if sections().any(|s| s == name) => options.sections.push(arg),
            _ => {
                eprintln!("sections: {}", sections().collect::<Vec<_>>().join(" "));
                return ExitCode::from(2);
            }
        }
    }
    let report = match run(&options, &mut |figure| println!("{figure}")) {
        Ok(report) => report,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    for kernel in &report.kernels {
        println!("registers {:<24} {}", kernel.name, kernel.registers);
    }
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(&report).unwrap_or_default();
        if let Err(e) = std::fs::write(&path, text) {
            eprintln!("{}: {e}", path.display());
        }
    }
    ExitCode::from(u8::from(report.figures.iter().any(|f| f.error.is_some())))
}
