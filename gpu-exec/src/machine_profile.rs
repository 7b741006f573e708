//! What the machine gives, in the few figures that choosing a backing needs. Measured once (`grampus device --calibrate`), or
//! taken as on the machine this was built on.

/// Rates of one machine. Bytes and events per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MachineProfile {
    /// Pushing through the pinned ring: pages in the page cache to device memory.
    pub push_bytes_per_s: f64,
    /// Kernels loading from registered memory, in order.
    pub mapped_bytes_per_s: f64,
    /// Kernels loading scattered values from registered memory.
    pub mapped_loads_per_s: f64,
    /// Registering a mapping of pages in the page cache.
    pub register_bytes_per_s: f64,
    /// Commands through the queues.
    pub commands_per_s: f64,
    /// Pages of 64 bytes gathered by threads: pages in the page cache to device memory.
    pub gathered_pages_per_s: f64,
    /// Values decoded by all threads of the CPU.
    pub decoded_values_per_s: f64,
    /// Reading a file that is not in the page cache, in large pieces.
    pub disk_bytes_per_s: f64,
}

impl Default for MachineProfile {
    /// An H200 behind PCIe 5 x16, 16 cores.
    fn default() -> Self {
        Self {
            push_bytes_per_s: 52e9,
            mapped_bytes_per_s: 51e9,
            mapped_loads_per_s: 100e6,
            register_bytes_per_s: 60e9,
            commands_per_s: 6e6,
            gathered_pages_per_s: 12e6,
            decoded_values_per_s: 2.4e9,
            disk_bytes_per_s: 3.5e9,
        }
    }
}

/// Bytes of a load over PCIe.
pub(crate) const LINK_SECTOR_BYTES: u64 = 32;

/// Of `rows` values of `width` bytes, of which a share of `selectivity` is wanted anywhere, how many pieces of `piece_bytes` hold one.
pub(crate) fn pieces_touched(rows: u64, width: u64, selectivity: f64, piece_bytes: u64) -> f64 {
    let per_piece = piece_bytes as f64 / width as f64;
    let pieces = rows as f64 / per_piece;
    pieces * (1.0 - (1.0 - selectivity.clamp(0.0, 1.0)).powf(per_piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_pieces_lie_between_the_values_wanted_and_all_pieces() {
        let sparse = pieces_touched(1_000_000, 8, 0.0003, 512);
        assert!((290.0..=300.0).contains(&sparse), "{sparse}");
        assert_eq!(pieces_touched(1_000_000, 8, 1.0, 512), 15_625.0);
        assert_eq!(pieces_touched(1_000_000, 8, 0.0, 512), 0.0);
    }
}
