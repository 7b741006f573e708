//! Stores over files larger than the cache: stores alone, and the vector add, next to reads of the same files.

use std::time::Duration;

use crate::error::BenchError;
use crate::report::Report;
use crate::setup::{Setup, wrong};
use crate::small_reads::options;
use crate::vector_add::{VectorAdd, VectorFiles, sum};

fn gb_s(bytes: u64, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e9
}

pub(crate) fn stores(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let file_bytes = setup.size(1 << 30, 4 << 20);
    // One row is left out of whole tiles, and the number of rows is odd (vector_add.cu).
    let rows = file_bytes / 8 - 1;
    let folder = tempfile::tempdir_in(&setup.options.folder)?;
    let warps = setup.blocks * 8;
    let mut stack = options(8, 32, setup.size(256 << 20, 1 << 20));
    stack.cache.sector_log2 = 9;
    stack.cache.group_log2 = setup.size(10, 4) as u32;
    stack.max_lines = 1 << stack.cache.group_log2;
    let kernels = VectorAdd::kernels(&setup.device)?;
    for kernel in ["store_tiles", "add_tiles", "add_scattered", "add_through"] {
        let files = VectorFiles::create(folder.path(), rows)?;
        let add = VectorAdd::new(&setup.device, kernels.clone(), files.storages()?, stack.clone(), rows)?;
        let warps = warps.min((add.stack.cache().lines() / 32) as u32);
        if kernel == "store_tiles" {
            let (read, _) = add.launch("read_tiles", warps)?;
            add.check_total()?;
            report.add("two columns read".to_owned(), gb_s(2 * file_bytes, read), "GB/s");
            add.stack.empty_cache()?;
        }
        // The second time, the mapping of the file has its pages.
        let times = if kernel == "store_tiles" {
            &["", ", again"][..]
        } else {
            &[""]
        };
        for again in times {
            let (stored, stats) = add.launch(kernel, warps)?;
            let (flushed, last) = add.launch("flush_stores", warps)?;
            let note = format!(
                "{} reads and {} writes, then {} writes and {} flushes in {:.1} ms",
                stats.commands - stats.writes,
                stats.writes,
                last.writes,
                last.flushes,
                flushed.as_secs_f64() * 1e3
            );
            let name = format!("{kernel}: bytes stored, flush included{again}");
            report.add(name, gb_s(file_bytes, stored + flushed), "GB/s").note(note);
        }
        let bad = match kernel {
            "store_tiles" => files.wrong_rows(|row| row)?,
            _ => files.wrong_rows(sum)?,
        };
        if bad > 0 {
            return Err(wrong(kernel, format!("{bad} of {rows} values on the disk are wrong")));
        }
    }
    Ok(())
}
