//! What a query has read, in words.

use grampus::ScanIo;

use crate::units;

/// The bytes, requests, row groups and rows of a query's scans, in one line.
pub(crate) fn io_line(io: &ScanIo, stopped: bool) -> String {
    if *io == ScanIo::default() {
        return "io: no ORC file was read".to_owned();
    }
    format!(
        "io: needed {}, moved {} (amplification {}), {}, {} of {} skipped, {} of {} passed{}",
        units::bytes(io.needed_bytes),
        units::bytes(io.moved_bytes),
        units::ratio(io.amplification()),
        units::counted(io.read_requests, "request"),
        units::count(io.row_groups_skipped),
        units::counted(io.row_groups_total, "row group"),
        units::count(io.rows_passed),
        units::counted(io.rows_scanned, "row"),
        if stopped { " until it was stopped" } else { "" },
    )
}

/// Bytes that a disk may read beside a statement's files, such as pages of this program.
const MAX_OTHER_DISK_BYTES: u64 = 4 << 20;

/// What disks have read for a query, if it is clearly more than what its scans moved: files are read by pages, and the
/// system may read ahead.
pub(crate) fn disk_line(io: &ScanIo, disk_bytes: u64) -> Option<String> {
    let more = disk_bytes.saturating_sub(io.moved_bytes);
    let times = disk_bytes as f64 / io.moved_bytes.max(1) as f64;
    (io.moved_bytes > 0 && more > MAX_OTHER_DISK_BYTES && times > 1.1).then(|| {
        let (read, times) = (units::bytes(disk_bytes), units::ratio(times));
        format!("disk: {read} read, in whole pages ({times} times the moved bytes)")
    })
}
