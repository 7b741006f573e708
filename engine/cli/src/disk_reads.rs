//! Bytes that disks have read for this process, by the system's count.

/// Bytes that disks have read for this process since it began, ahead of what it asked for too. `None`: the system does
/// not say.
pub(crate) fn bytes() -> Option<u64> {
    let counters = std::fs::read_to_string("/proc/self/io").ok()?;
    let read = counters.lines().find_map(|line| line.strip_prefix("read_bytes:"));
    read?.trim().parse().ok()
}

/// Bytes read since the count was `before`.
pub(crate) fn bytes_since(before: Option<u64>) -> Option<u64> {
    Some(bytes()?.saturating_sub(before?))
}
