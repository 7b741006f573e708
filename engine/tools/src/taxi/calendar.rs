//! [`Calendar`]: the order of the rows of a table, and the hour of each run of rows.
//!
//! Years of different sizes follow each other, and so do the months of a year. A month has up to four segments:
//! 1. yellow trips;
//! 2. yellow trips of the vendor with incomplete reports;
//! 3. green trips;
//! 4. green trips of that vendor.
//!
//! Within a segment, hour follows hour. Rows come in runs of [`RUN_ROWS`]. The trips of a run start in one hour of the
//! week.
//!
//! In a table of the real size, ten runs fall into each hour. A smaller table is a sample of hours, not of trips. Its
//! pages therefore cluster as the real table's do.

use std::ops::Range;

use super::rng::Rng;

/// Rows that share an hour and a random generator.
pub(super) const RUN_ROWS: u64 = 2048;

/// The first year; trips of later years follow in order.
pub(super) const FIRST_YEAR: i32 = 2009;

/// Real trips per year, millions, 2009–2021.
const YEAR_TRIPS: [u32; 13] = [171, 169, 177, 171, 172, 181, 165, 148, 125, 112, 91, 26, 32];

/// Trips per month in an ordinary year, per mille.
const MONTH_SHARE: [u32; 12] = [83, 78, 90, 87, 87, 84, 80, 78, 81, 88, 82, 82];
/// [`MONTH_SHARE`] of 2020, with a spring without passengers.
const MONTH_SHARE_2020: [u32; 12] = [250, 245, 120, 10, 15, 25, 35, 45, 60, 70, 65, 60];
/// [`MONTH_SHARE`] of 2021.
const MONTH_SHARE_2021: [u32; 12] = [44, 44, 62, 70, 81, 92, 91, 90, 96, 112, 112, 106];

/// Green trips among a month's trips, per mille, 2013 (from August) – 2021.
const GREEN_SHARE: [u32; 9] = [17, 87, 110, 105, 92, 78, 66, 65, 33];

/// Trips by hour of the week, Sunday first: counts in a sample of 260,000 yellow trips, January 2018 – February 2020.
const TRAFFIC: [[u32; 24]; 7] = [
    [
        1820, 1604, 1147, 818, 606, 255, 358, 499, 786, 1169, 1469, 1761, 1917, 1859, 1932, 1840, 1816, 1783, 1963,
        1663, 1489, 1384, 1228, 940,
    ],
    [
        603, 351, 207, 181, 201, 380, 939, 1497, 1851, 1799, 1661, 1742, 1769, 1845, 2021, 1991, 1865, 2204, 2465,
        2169, 1998, 1948, 1614, 1076,
    ],
    [
        673, 353, 214, 158, 173, 394, 928, 1712, 2042, 1902, 1757, 1823, 1929, 1878, 2154, 2072, 1854, 2214, 2515,
        2506, 2334, 2353, 1936, 1337,
    ],
    [
        824, 457, 272, 212, 187, 365, 991, 1641, 2043, 1966, 1952, 1904, 2014, 1957, 2166, 2103, 1912, 2217, 2628,
        2456, 2389, 2269, 2219, 1612,
    ],
    [
        942, 518, 321, 208, 215, 379, 978, 1883, 2186, 1905, 1913, 1929, 2019, 1919, 2225, 2155, 1984, 2268, 2616,
        2528, 2392, 2504, 2215, 1883,
    ],
    [
        1240, 721, 493, 319, 280, 412, 934, 1663, 2009, 1878, 1828, 1875, 2030, 2063, 2219, 2096, 1973, 2250, 2582,
        2609, 2136, 2167, 2194, 2038,
    ],
    [
        1847, 1448, 1145, 826, 518, 271, 423, 650, 905, 1412, 1665, 1789, 2026, 2060, 1982, 2069, 1992, 2162, 2311,
        2209, 1867, 1829, 2070, 1980,
    ],
];

/// Days from 1970-01-01 to 2009-01-01, a Thursday.
const FIRST_DAY: i64 = 14_245;
/// The weekday of [`FIRST_DAY`]; 0 is Sunday.
const FIRST_WEEKDAY: i64 = 4;

/// A calendar month.
pub(super) struct Month {
    pub(super) year: i32,
    /// 1–12.
    pub(super) month: u32,
    /// Local time of its first second, seconds since 1970.
    pub(super) start_s: i64,
    /// Trips before the end of each of its hours, in units of [`TRAFFIC`].
    cumulative: Vec<u64>,
}

/// Rows of one month that were reported together.
pub(super) struct Segment {
    pub(super) rows: Range<u64>,
    /// Index into [`Calendar::months`].
    pub(super) month: usize,
    pub(super) green: bool,
    /// False for the vendor with incomplete reports: passenger count, rate code, payment type, flag and congestion
    /// surcharge are empty.
    pub(super) complete: bool,
}

/// An hour of one week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hour {
    /// Its first second, local time, since 1970.
    pub(super) start_s: i64,
    /// 0 Sunday – 6 Saturday.
    pub(super) weekday: usize,
    /// 0–23.
    pub(super) hour: usize,
}

/// The order of all rows of a table.
pub(super) struct Calendar {
    pub(super) rows: u64,
    pub(super) months: Vec<Month>,
    /// Segments in ascending order, without gaps. None is empty.
    pub(super) segments: Vec<Segment>,
}

impl Calendar {
    /// Divides `rows` among years, months and parts of months.
    pub(super) fn new(rows: u64) -> Self {
        let months = months();
        let weights: Vec<u64> = months.iter().map(month_weight).collect();
        let total: u64 = weights.iter().sum();
        let mut segments = Vec::new();
        let (mut before, mut first_row) = (0, 0);
        for (index, (month, weight)) in months.iter().zip(&weights).enumerate() {
            before += weight;
            let end = share(rows, before, total);
            split_month(index, month, first_row..end, &mut segments);
            first_row = end;
        }
        Self { rows, months, segments }
    }

    /// The index of the segment that has `row`.
    pub(super) fn segment_of(&self, row: u64) -> usize {
        self.segments.partition_point(|s| s.rows.end <= row)
    }

    /// An hour for the rows `rows` of `segment`, at their place in the month. Busy hours are more frequent than quiet
    /// hours.
    pub(super) fn hour(&self, segment: &Segment, rows: &Range<u64>, rng: &mut Rng) -> Hour {
        let month = &self.months[segment.month];
        let length = (segment.rows.end - segment.rows.start) as f64;
        let from = (rows.start - segment.rows.start) as f64 / length;
        let to = (rows.end - segment.rows.start) as f64 / length;
        let at = from + (to - from) * rng.unit();
        let trips = *month.cumulative.last().unwrap_or(&1);
        let mark = (at * trips as f64) as u64;
        let hour = month.cumulative.partition_point(|&c| c <= mark);
        let hour = hour.min(month.cumulative.len() - 1) as i64;
        let start_s = month.start_s + hour * 3600;
        Hour {
            start_s,
            weekday: (start_s.div_euclid(86_400) - FIRST_DAY + FIRST_WEEKDAY).rem_euclid(7) as usize,
            hour: (hour % 24) as usize,
        }
    }
}

/// `n · part / whole`, rounded down.
fn share(n: u64, part: u64, whole: u64) -> u64 {
    (u128::from(n) * u128::from(part) / u128::from(whole)) as u64
}

fn month_weight(month: &Month) -> u64 {
    let shares = match month.year {
        2020 => &MONTH_SHARE_2020,
        2021 => &MONTH_SHARE_2021,
        _ => &MONTH_SHARE,
    };
    let year = YEAR_TRIPS[(month.year - FIRST_YEAR) as usize];
    u64::from(year) * u64::from(shares[month.month as usize - 1])
}

/// Appends the segments of a month.
fn split_month(index: usize, month: &Month, rows: Range<u64>, segments: &mut Vec<Segment>) {
    let n = rows.end - rows.start;
    let green = share(n, green_share(month), 1000);
    let yellow_part = share(n - green, incomplete_share(month, false), 1000);
    let green_part = share(green, incomplete_share(month, true), 1000);
    let mut first = rows.start;
    let parts = [
        (n - green - yellow_part, false, true),
        (yellow_part, false, false),
        (green - green_part, true, true),
        (green_part, true, false),
    ];
    for (count, green, complete) in parts {
        if count > 0 {
            segments.push(Segment {
                rows: first..first + count,
                month: index,
                green,
                complete,
            });
            first += count;
        }
    }
}

fn green_share(month: &Month) -> u64 {
    if (month.year, month.month) < (2013, 8) {
        return 0;
    }
    u64::from(GREEN_SHARE[(month.year - 2013) as usize])
}

/// Trips of the vendor with incomplete reports, per mille. The first such trips are of July 2019. In months with few
/// passengers their share is large.
fn incomplete_share(month: &Month, green: bool) -> u64 {
    match (month.year, month.month, green) {
        (2019, 7.., false) => 6,
        (2019, 7.., true) => 100,
        (2020, _, true) => 300,
        (2021, _, true) => 350,
        (2020, 1 | 2, false) => 9,
        (2020, 3, false) => 13,
        (2020, 5, false) => 165,
        (2020, 4 | 6, false) => 85,
        (2020, _, false) => 70,
        (2021, _, false) => 58,
        _ => 0,
    }
}

/// All months of the years that trips come from.
fn months() -> Vec<Month> {
    let mut months = Vec::with_capacity(YEAR_TRIPS.len() * 12);
    let mut day = FIRST_DAY;
    for year in FIRST_YEAR..FIRST_YEAR + YEAR_TRIPS.len() as i32 {
        let leap = year % 4 == 0; // no century falls into these years
        for month in 1..=12 {
            let days = match month {
                2 if leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            months.push(Month {
                year,
                month,
                start_s: day * 86_400,
                cumulative: cumulative_traffic(day, days),
            });
            day += days;
        }
    }
    months
}

fn cumulative_traffic(first_day: i64, days: i64) -> Vec<u64> {
    let mut sum = 0;
    let mut cumulative = Vec::with_capacity(days as usize * 24);
    for day in first_day..first_day + days {
        for trips in TRAFFIC[(day - FIRST_DAY + FIRST_WEEKDAY).rem_euclid(7) as usize] {
            sum += u64::from(trips);
            cumulative.push(sum);
        }
    }
    cumulative
}

/// The mean of `value(weekday, hour)` over trips.
pub(super) fn mean_over_week(value: impl Fn(usize, usize) -> f64) -> f64 {
    let (mut sum, mut trips) = (0.0, 0.0);
    for (weekday, hours) in TRAFFIC.iter().enumerate() {
        for (hour, &count) in hours.iter().enumerate() {
            sum += f64::from(count) * value(weekday, hour);
            trips += f64::from(count);
        }
    }
    sum / trips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_start_at_calendar_dates() {
        let months = months();
        let find = |year, month| months.iter().find(|m| (m.year, m.month) == (year, month)).unwrap();
        assert_eq!(find(2009, 1).start_s, 1_230_768_000);
        assert_eq!(find(2020, 3).start_s, 1_583_020_800);
        assert_eq!(find(2021, 12).start_s, 1_638_316_800);
        assert_eq!(find(2020, 2).cumulative.len(), 29 * 24);
    }

    #[test]
    fn segments_cover_all_rows_without_gaps() {
        for rows in [0, 1, 7, 1000, 1_740_000_000] {
            let calendar = Calendar::new(rows);
            let mut next = 0;
            for s in &calendar.segments {
                assert_eq!(s.rows.start, next);
                assert!(s.rows.end > next);
                next = s.rows.end;
            }
            assert_eq!(next, rows);
        }
    }

    #[test]
    fn segments_have_the_shares_of_the_real_table() {
        let calendar = Calendar::new(100_000_000);
        let rows = |pick: &dyn Fn(&Segment) -> bool| -> f64 {
            let picked = calendar.segments.iter().filter(|s| pick(s));
            picked.map(|s| s.rows.end - s.rows.start).sum::<u64>() as f64 / 1e8
        };
        let green = rows(&|s| s.green);
        assert!((green - 0.045).abs() < 0.002, "{green}");
        let incomplete = rows(&|s| !s.complete);
        assert!((incomplete - 0.0026).abs() < 0.0005, "{incomplete}");
        let in_2009 = rows(&|s| calendar.months[s.month].year == 2009);
        assert!((in_2009 - 171.0 / 1740.0).abs() < 0.001, "{in_2009}");
    }

    #[test]
    fn run_falls_into_its_part_of_the_month() {
        let calendar = Calendar::new(1_740_000_000);
        let segment = &calendar.segments[0];
        let middle = segment.rows.end / 2;
        let hour = calendar.hour(segment, &(middle..middle + RUN_ROWS), &mut Rng::new(1, 1, 1));
        let day = (hour.start_s - calendar.months[0].start_s) / 86_400;
        assert!((14..=16).contains(&day), "{day}");
        // 2009-01-01 was a Thursday.
        let first = calendar.hour(segment, &(0..1), &mut Rng::new(1, 1, 1));
        assert_eq!((first.weekday, first.hour), (4, 0));
    }
}
