//! [`RequestShape`]: how the ranges of a fetch become requests of a store.

use std::ops::Range;

use url::Url;

use crate::store::store_kind::StoreKind;

/// The costs of a store, as sizes of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestShape {
    /// Ranges within this distance are one request.
    gap_bytes: u64,
    /// Requests begin and end at multiples of this, as the store moves no less.
    align_bytes: u64,
    /// Maximum length of a request. Longer ones are split, so that the parts run concurrently.
    max_bytes: u64,
    /// Requests in flight per fetch, or groups of requests.
    pub concurrent: usize,
    /// Whether a group of requests is sent at once.
    pub is_grouped: bool,
}

impl RequestShape {
    /// A store behind a network: a round trip costs more than the bytes between near ranges.
    pub const NETWORK: Self = Self {
        gap_bytes: 1 << 20,
        align_bytes: 1,
        max_bytes: 16 << 20,
        concurrent: 8,
        is_grouped: false,
    };
    /// A drive: a command costs little more than its bytes. A queue takes a group of requests and keeps several
    /// commands in flight.
    pub const DRIVE: Self = Self {
        gap_bytes: 4096,
        align_bytes: 512,
        max_bytes: 1 << 20,
        concurrent: 4,
        is_grouped: true,
    };

    /// The shape for the store at a URL.
    pub fn of(store_url: &str) -> Self {
        let kind = Url::parse(store_url).ok().and_then(|url| StoreKind::of(&url));
        match kind {
            Some(StoreKind::Nvme) => Self::DRIVE,
            _ => Self::NETWORK,
        }
    }

    /// Requests that cover `ranges` of a file of `length` bytes: sorted, merged if near each other, split if long.
    pub fn requests(&self, ranges: &[Range<u64>], length: u64) -> Vec<Range<u64>> {
        let align = self.align_bytes;
        let aligned = ranges.iter().filter(|range| range.start < range.end).map(|range| {
            // A range beyond the file stays one, and is refused as such.
            let end = range.end.checked_next_multiple_of(align).unwrap_or(range.end);
            range.start / align * align..end.min(length.max(range.end))
        });
        let mut sorted: Vec<Range<u64>> = aligned.collect();
        sorted.sort_by_key(|range| range.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
        for range in sorted {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(self.gap_bytes) => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        let split = |range: Range<u64>| {
            let starts = (range.start..range.end).step_by(self.max_bytes as usize);
            starts.map(move |start| start..(start + self.max_bytes).min(range.end))
        };
        merged.into_iter().flat_map(split).collect()
    }

    /// The requests in groups of neighbours: at most `concurrent`, of nearly as many requests each.
    pub fn groups(&self, requests: &[Range<u64>]) -> Vec<Vec<Range<u64>>> {
        let each = requests.len().div_ceil(self.concurrent).max(1);
        requests.chunks(each).map(<[Range<u64>]>::to_vec).collect()
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of ranges that happen to have one
mod tests {
    use super::*;

    #[test]
    fn drives_move_whole_blocks_and_merge_within_a_page() {
        let drive = RequestShape::of("nvme://0000-01-00.0/");
        assert_eq!(drive, RequestShape::DRIVE);
        let requests = |ranges: &[Range<u64>]| drive.requests(ranges, 1_000_100);
        assert_eq!(requests(&[520..528, 8..16, 3000..3008]), [0..3072]);
        assert_eq!(requests(&[8..16, 6000..6008]), [0..512, 5632..6144]);
        assert_eq!(requests(&[1_000_090..1_000_100]), [999_936..1_000_100]);
        assert_eq!(requests(&[5..5]), []);
        assert_eq!(requests(&[1_000_000..2_000_000]), [999_936..2_000_000]);
        let long = drive.requests(&[0..3 << 20], 3 << 20);
        assert_eq!(long, [0..1 << 20, 1 << 20..2 << 20, 2 << 20..3 << 20]);
        assert_eq!(drive.groups(&long).len(), 3);
        let nine: Vec<_> = (0..9u64).map(|i| i * 10_000..i * 10_000 + 512).collect();
        assert_eq!(drive.groups(&nine).iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 3]);
        assert_eq!(drive.groups(&[]), Vec::<Vec<Range<u64>>>::new());
    }

    #[test]
    fn networks_merge_near_ranges_and_split_long_ones() {
        let network = RequestShape::of("s3://bucket/");
        assert_eq!(network, RequestShape::NETWORK);
        assert_eq!(network.requests(&[1000..2000, 10..20], 1 << 30), [10..2000]);
        let far = (4 << 20)..(4 << 20) + 8;
        assert_eq!(network.requests(&[10..20, far.clone()], 1 << 30), [10..20, far]);
        assert_eq!(
            network.requests(&[5..19 << 20], 1 << 30),
            [5..5 + (16 << 20), 5 + (16 << 20)..19 << 20]
        );
    }
}
