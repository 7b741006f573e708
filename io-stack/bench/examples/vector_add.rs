//! Adds up two files into a third one on the GPU, each larger than the GPU's cache, and compares every sum on the disk:
//! `vector_add [--host] [--mib N] [--cache-mib N] [--folder DIR]`. `--host`: threads of the CPU in a GPU's place, and
//! smaller files. Exit status 1: a sum is wrong, or there is no GPU.

use std::process::ExitCode;

use grampus_cuda::Device;
use grampus_io_bench::BenchError;
use grampus_io_bench::vector_add::{VectorAdd, VectorFiles, sum};
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::stack::StackOptions;

fn run(host: bool, file_mib: u64, cache_mib: u64, folder: &std::path::Path) -> Result<u64, BenchError> {
    let device = match host {
        true => Device::host(4, 4 << 30),
        false => Device::open(0)?,
    };
    let options = StackOptions {
        cache: CacheOptions {
            bytes: cache_mib << 20,
            sector_log2: 9,
            group_log2: 6,
        },
        max_lines: 64,
        ..StackOptions::default()
    };
    let mut wrong = 0;
    let kernels = VectorAdd::kernels(&device)?;
    for kernel in ["add_tiles", "add_scattered", "add_through"] {
        // Three misses for each row, which host threads answer one after the other.
        let all = (file_mib << 20) / 8 - 1;
        let rows = if host && kernel == "add_scattered" {
            all.min(16_383)
        } else {
            all
        };
        let files = VectorFiles::create(folder, rows)?;
        let add = VectorAdd::new(&device, kernels.clone(), files.storages()?, options.clone(), rows)?;
        let warps = if host {
            16
        } else {
            (add.stack.cache().lines() / 32).min(1024) as u32
        };
        let (stored, stats) = add.launch(kernel, warps)?;
        let (flushed, last) = add.launch("flush_stores", warps.min(64))?;
        let bad = files.wrong_rows(sum)?;
        println!(
            "{kernel}: {rows} rows through {} lines of cache: {:.0} ms, flush {:.0} ms, {} writes, {} evictions, \
             {bad} wrong sums",
            add.stack.cache().lines(),
            stored.as_secs_f64() * 1e3,
            flushed.as_secs_f64() * 1e3,
            stats.writes + last.writes,
            stats.evictions,
        );
        wrong += bad;
    }
    Ok(wrong)
}

fn main() -> ExitCode {
    let (mut host, mut file_mib, mut cache_mib, mut folder) = (false, None, None, std::env::temp_dir());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|n| n.parse::<u64>().ok()).filter(|n| *n > 0);
        match arg.as_str() {
            "--host" => host = true,
            "--mib" => file_mib = number(),
            "--cache-mib" => cache_mib = number(),
            "--folder" => folder = args.next().map(Into::into).unwrap_or_default(),
            _ => {
                eprintln!("vector_add [--host] [--mib N] [--cache-mib N] [--folder DIR]");
                return ExitCode::from(2);
            }
        }
    }
    let (file_mib, cache_mib) = (
        file_mib.unwrap_or(if host { 4 } else { 1024 }),
        cache_mib.unwrap_or(if host { 2 } else { 256 }),
    );
    let result = tempfile::tempdir_in(&folder)
        .map_err(BenchError::from)
        .and_then(|folder| run(host, file_mib, cache_mib, folder.path()));
    match result {
        Ok(wrong) => ExitCode::from(u8::from(wrong > 0)),
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
