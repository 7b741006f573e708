//! `--io` and `bench sql` on files that are not in the page cache.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::Stdio;

use grampus_test_support::cold_files::{drop_pages, folder};

const ROWS: u64 = 1_000_000;

/// Four columns at about 5,000 trips: most pages of the four have one.
const QUERY: &str = "SELECT sum(total_amount - extra - tolls_amount - mta_tax) FROM 'trips/*.orc'
                     WHERE trip_distance >= 20";

/// Standard error of the program.
fn noted(folder: &Path, arguments: &[&str]) -> String {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder.join("trips")).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn disk_reads_are_told_where_pages_are_more_than_what_was_moved() {
    let Some(folder) = folder() else { return };
    let folder = folder.path();
    let rows = ROWS.to_string();
    noted(
        folder,
        &[
            "taxi",
            "generate",
            "--rows",
            &rows,
            "--columns",
            "six",
            "--out",
            "trips",
            "--quiet",
        ],
    );
    // The counter of the process includes pages of the program itself, which this run loads.
    noted(folder, &["-c", QUERY]);
    files(folder).iter().for_each(|file| drop_pages(file));
    let cold = noted(folder, &["--io", "-c", QUERY]);
    let line = cold.lines().find(|line| line.starts_with("disk: "));
    let line = line.unwrap_or_else(|| panic!("{cold}"));
    assert!(
        line.contains(" read, in whole pages (") && line.ends_with(" times the moved bytes)"),
        "{line}"
    );
    let warm = noted(folder, &["--io", "-c", QUERY]);
    assert!(warm.starts_with("io: needed ") && !warm.contains("disk: "), "{warm}");

    files(folder).iter().for_each(|file| drop_pages(file));
    noted(
        folder,
        &["bench", "sql", "--json", "cold.json", "--runs", "1", "-c", QUERY],
    );
    let report = std::fs::read_to_string(folder.join("cold.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let number = |name: &str| report["statements"][0][name].as_u64().unwrap();
    let (column, disk) = (ROWS * 8, number("first_disk_bytes"));
    assert!(number("first_moved_bytes") >= column);
    // Five columns are read at most, and ehail_fee is none of them.
    let whole: u64 = files(folder).iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!((2 * column..whole).contains(&disk), "{disk} of {whole} bytes");
}
