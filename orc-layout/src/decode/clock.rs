//! Time zones of writers: [`Clock`], all changes of a zone in advance, and [`WallClock`], a zone's offset at any
//! instant. TIMESTAMP values count seconds by the wall clock of the writer's zone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{Datelike, Offset, TimeZone};
use chrono_tz::{OffsetComponents, OffsetName, Tz};

use crate::stripe::StripeLayout;
use crate::writer_zone::{EarlyOffsets, WriterZone};

/// 2015-01-01 00:00:00 UTC in seconds since 1970.
pub(super) const EPOCH_SECONDS: i64 = 1_420_070_400;

/// Start of the time in which all changes of a zone are found: 1900-01-01. The end is 2100-01-01.
const CHANGES_FROM: i64 = -2_208_988_800;
const CHANGES_TO: i64 = 4_102_444_800;

/// Time zone of a TIMESTAMP column's seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Zero of the stored seconds, in seconds since 1970.
    pub epoch: i64,
    /// Changes of the offset from 1900 to 2100, ascending; the last entry only marks the end. `None`: UTC.
    pub changes: Option<Arc<[ClockChange]>>,
}

/// A change of a zone's offset from UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockChange {
    /// Second since 1970 of the change.
    pub from: i64,
    /// Seconds by which the zone is ahead of UTC from the change on.
    pub offset: i64,
}

impl Clock {
    /// The clock of a stripe's TIMESTAMP columns, or (`instant`) of its TIMESTAMP_INSTANT columns. `None`: the zone is
    /// not known.
    pub fn of(stripe: &StripeLayout, instant: bool) -> Option<Self> {
        let zone = if instant {
            &WriterZone::Utc
        } else {
            &stripe.writer_timezone
        };
        let clock = WallClock::of(zone, stripe.early_offsets)?;
        Some(Self {
            epoch: clock.epoch(),
            changes: (!clock.is_utc()).then(|| changes_of(clock.zone)),
        })
    }
}

/// A zone whose offset can be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Zone {
    /// By the time zone database, but for early times.
    Region(Tz, EarlyOffsets),
    /// A constant offset in seconds.
    Fixed(i32),
}

/// All changes of a zone's offset. Found once per process, because the search looks at hundreds of thousands of
/// instants.
fn changes_of(zone: Zone) -> Arc<[ClockChange]> {
    static KNOWN: Mutex<Option<HashMap<Zone, Arc<[ClockChange]>>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known
        .entry(zone)
        .or_insert_with(|| WallClock::new(zone).changes().into())
        .clone()
}

/// The time before a zone's table, in which a writer has its own offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EarlySpan {
    /// Second since 1970 at which the span ends.
    until: i64,
    offset: i64,
}

/// 1800-01-01, before all changes of all zones, and 2038-01-01, after all that happen once.
const TABLES_FROM: i64 = -5_364_662_400;
const TABLES_TO: i64 = 2_145_916_800;
const DAY: i64 = 86_400;

impl EarlySpan {
    /// The span of a zone; `None`: the table holds at any time. Found once per process.
    fn of(zone: Zone) -> Option<Self> {
        static KNOWN: Mutex<Option<HashMap<Zone, Option<EarlySpan>>>> = Mutex::new(None);
        let Zone::Region(tz, rule) = zone else { return None };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        *known.get_or_insert_default().entry(zone).or_insert_with(|| match rule {
            EarlyOffsets::PresentStandard => Some(Self {
                until: CHANGES_FROM,
                offset: present_standard(tz)?,
            }),
            EarlyOffsets::FirstStandard => Self::before_first_change(tz),
            EarlyOffsets::Table => None,
        })
    }

    /// The time before the first change of offset or name. Its offset is that of the first standard time after it.
    fn before_first_change(zone: Tz) -> Option<Self> {
        let first = table_entry(zone, TABLES_FROM)?;
        let is_first = |seconds: &i64| table_entry(zone, *seconds).as_ref() == Some(&first);
        const STEP: i64 = 30 * DAY;
        let mut after = (TABLES_FROM..TABLES_TO)
            .step_by(STEP as usize)
            .find(|at| !is_first(at))?;
        let mut before = after - STEP;
        while after - before > 1 {
            let middle = before + (after - before) / 2;
            match is_first(&middle) {
                true => before = middle,
                false => after = middle,
            }
        }
        let mut later = (after..TABLES_TO).step_by(DAY as usize);
        let standard = later.find_map(|at| table_entry(zone, at).filter(|entry| entry.daylight == 0));
        Some(Self {
            until: after,
            offset: standard.unwrap_or(first).offset,
        })
    }
}

/// What a zone's table says of an instant.
#[derive(Debug, PartialEq, Eq)]
struct TableEntry {
    offset: i64,
    /// The part of the offset that is daylight-saving time.
    daylight: i64,
    name: Option<String>,
}

fn table_entry(zone: Tz, seconds: i64) -> Option<TableEntry> {
    let instant = chrono::DateTime::from_timestamp(seconds, 0)?.naive_utc();
    let found = zone.offset_from_utc_datetime(&instant);
    Some(TableEntry {
        offset: i64::from(found.fix().local_minus_utc()),
        daylight: found.dst_offset().num_seconds(),
        name: found.abbreviation().map(str::to_owned),
    })
}

/// The standard time of the table's last years without rules: the least offset of them. Java counts time that is moved
/// backwards in winter, as in Dublin, as standard time.
fn present_standard(zone: Tz) -> Option<i64> {
    let last_years = (TABLES_TO - 3 * 365 * DAY..TABLES_TO).step_by(7 * DAY as usize);
    last_years.filter_map(|at| Some(table_entry(zone, at)?.offset)).min()
}

/// A zone's offset from UTC at any instant, cached by spans of time in which it does not change.
pub(super) struct WallClock {
    zone: Zone,
    early: Option<EarlySpan>,
    /// Cache slots by the low bits of a span's number: the span's number and its offset.
    known: Vec<(i64, i64)>,
}

/// Last year for which the zone tables are used. They end with 2100 and have no summer time after this year, although
/// the rules go on.
const LAST_TABLE_YEAR: i32 = 2087;

/// The latest year up to [`LAST_TABLE_YEAR`] whose days fall on the same weekdays: any 28 years contain one.
fn equivalent_year(year: i32) -> i32 {
    let calendar = |year: i32| {
        let first = chrono::NaiveDate::from_ymd_opt(year, 1, 1);
        first.map(|first| (first.weekday(), first.leap_year()))
    };
    let wanted = calendar(year);
    let mut years = (LAST_TABLE_YEAR - 27..LAST_TABLE_YEAR).rev();
    years.find(|&year| calendar(year) == wanted).unwrap_or(LAST_TABLE_YEAR)
}

/// A span is 2^14 seconds, 4.5 hours: no zone changes its offset twice in that time.
const SPAN_BITS: u32 = 14;
const SPANS: usize = 4096;

impl WallClock {
    fn new(zone: Zone) -> Self {
        Self {
            zone,
            early: EarlySpan::of(zone),
            known: Vec::new(),
        }
    }

    /// The clock of a writer's zone; `None` if the zone is not known.
    pub(super) fn of(zone: &WriterZone, early: EarlyOffsets) -> Option<Self> {
        Some(Self::new(match zone {
            WriterZone::Utc => Zone::Fixed(0),
            WriterZone::Region(zone) => Zone::Region(*zone, early),
            WriterZone::Fixed(seconds) => Zone::Fixed(*seconds),
            WriterZone::Unknown(_) => return None,
        }))
    }

    pub(super) fn is_utc(&self) -> bool {
        use chrono_tz::Tz::{Etc__UTC, GMT, UTC};
        matches!(self.zone, Zone::Fixed(0) | Zone::Region(UTC | GMT | Etc__UTC, _))
    }

    /// Midnight of 2015-01-01 by this clock, in seconds since 1970.
    pub(super) fn epoch(&self) -> i64 {
        let zone = match self.zone {
            Zone::Region(zone, _) => zone,
            Zone::Fixed(seconds) => return EPOCH_SECONDS - i64::from(seconds),
        };
        match zone.with_ymd_and_hms(2015, 1, 1, 0, 0, 0) {
            chrono::LocalResult::Single(at) | chrono::LocalResult::Ambiguous(at, _) => at.timestamp(),
            chrono::LocalResult::None => EPOCH_SECONDS,
        }
    }

    /// Seconds to add to an instant for its wall-clock time.
    pub(super) fn offset(&mut self, seconds: i64) -> Option<i64> {
        let span = seconds >> SPAN_BITS;
        if self.known.is_empty() {
            self.known = vec![(i64::MIN, 0); SPANS];
        }
        let slot = span as usize % SPANS;
        if self.known[slot].0 == span {
            return Some(self.known[slot].1);
        }
        let exact = self.offset_at(seconds)?;
        let start = span << SPAN_BITS;
        let end = start + (1 << SPAN_BITS) - 1;
        if self.offset_at(start) == Some(exact) && self.offset_at(end) == Some(exact) {
            self.known[slot] = (span, exact);
        }
        Some(exact)
    }

    /// All changes: a span whose ends have different offsets contains one.
    fn changes(&self) -> Vec<ClockChange> {
        let offset = |seconds: i64| self.offset_at(seconds).unwrap_or(0);
        let mut last = ClockChange {
            from: CHANGES_FROM,
            offset: offset(CHANGES_FROM),
        };
        let mut changes = vec![last];
        let mut before = CHANGES_FROM;
        while before < CHANGES_TO {
            let after = CHANGES_TO.min(before + (1 << SPAN_BITS));
            let changed = offset(after);
            if changed != last.offset {
                let (mut low, mut high) = (before, after);
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if offset(middle) == last.offset {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                last = ClockChange {
                    from: high,
                    offset: changed,
                };
                changes.push(last);
            }
            before = after;
        }
        changes.push(ClockChange {
            from: CHANGES_TO,
            offset: 0,
        });
        changes
    }

    fn offset_at(&self, seconds: i64) -> Option<i64> {
        let zone = match self.zone {
            Zone::Region(zone, _) => zone,
            Zone::Fixed(offset) => return Some(i64::from(offset)),
        };
        if let Some(early) = self.early.filter(|early| seconds < early.until) {
            return Some(early.offset);
        }
        let mut instant = chrono::DateTime::from_timestamp(seconds, 0)?.naive_utc();
        if instant.year() > LAST_TABLE_YEAR {
            instant = instant.with_year(equivalent_year(instant.year()))?;
        }
        Some(i64::from(
            zone.offset_from_utc_datetime(&instant).fix().local_minus_utc(),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clocks_agree_with_the_zone_table() {
        for zone in [
            Tz::US__Pacific,
            Tz::Asia__Kolkata,
            Tz::Europe__Amsterdam,
            Tz::Australia__Lord_Howe,
        ] {
            let mut clock = WallClock::new(Zone::Region(zone, EarlyOffsets::Table));
            for k in -200_000i64..200_000 {
                let seconds = k * 17_737 + 5;
                assert_eq!(clock.offset(seconds), clock.offset_at(seconds), "{zone} {seconds}");
                assert_eq!(clock.offset(seconds + 1), clock.offset_at(seconds + 1));
            }
        }
        assert_eq!(
            WallClock::new(Zone::Region(Tz::US__Pacific, EarlyOffsets::Table)).epoch(),
            EPOCH_SECONDS + 8 * 3600
        );
    }

    #[test]
    fn summer_times_continue_after_the_zone_table_ends() {
        let clock = WallClock::new(Zone::Region(Tz::US__Pacific, EarlyOffsets::Table));
        let at = |year, month, day| {
            let noon = chrono::NaiveDate::from_ymd_opt(year, month, day)
                .unwrap()
                .and_hms_opt(12, 0, 0);
            clock.offset_at(noon.unwrap().and_utc().timestamp()).unwrap() / 3600
        };
        for year in 2030..2500 {
            assert_eq!(
                [at(year, 1, 31), at(year, 2, 28), at(year, 6, 30), at(year, 12, 31)],
                [-8, -8, -7, -8],
                "{year}"
            );
        }
        // The second Sunday in March 2150 is the eighth.
        assert_eq!([at(2150, 3, 7), at(2150, 3, 8)], [-8, -7]);
    }

    #[test]
    fn clock_finds_all_changes() {
        for zone in [Tz::US__Pacific, Tz::Australia__Lord_Howe, Tz::Etc__GMTMinus8] {
            let zone = Zone::Region(zone, EarlyOffsets::Table);
            let (clock, changes) = (WallClock::new(zone), changes_of(zone));
            assert!(changes.windows(2).all(|pair| pair[0].from < pair[1].from));
            let by_changes = |seconds: i64| {
                let after = changes.partition_point(|change| change.from <= seconds);
                changes[after - 1].offset
            };
            for change in &changes[1..changes.len() - 1] {
                for seconds in [change.from - 1, change.from, change.from + 1] {
                    assert_eq!(
                        Some(by_changes(seconds)),
                        clock.offset_at(seconds),
                        "{zone:?} {seconds}"
                    );
                }
            }
            for k in 0..300_000 {
                let seconds = CHANGES_FROM + k * 21_013;
                assert_eq!(
                    Some(by_changes(seconds)),
                    clock.offset_at(seconds),
                    "{zone:?} {seconds}"
                );
            }
        }
        assert_eq!(changes_of(Zone::Fixed(19_800)).len(), 2);
        assert_eq!(WallClock::new(Zone::Fixed(19_800)).epoch(), EPOCH_SECONDS - 19_800);
        // The zone changes twice a year from 1967 on, and sometimes before.
        assert!((270..330).contains(&changes_of(Zone::Region(Tz::US__Pacific, EarlyOffsets::Table)).len()));
        assert_eq!(
            changes_of(Zone::Region(Tz::Etc__GMTMinus8, EarlyOffsets::Table)).len(),
            2
        );
    }

    /// The offsets are those of `java.util.TimeZone.getOffset` and of the zone files' first entries.
    #[test]
    fn early_offsets_are_the_writers() {
        let offset = |zone: Tz, rule, seconds| WallClock::new(Zone::Region(zone, rule)).offset(seconds).unwrap();
        let (java, cpp, table) = (
            EarlyOffsets::PresentStandard,
            EarlyOffsets::FirstStandard,
            EarlyOffsets::Table,
        );
        let in_1800 = TABLES_FROM;
        let in_1880 = -2_840_140_800;
        let in_1900 = CHANGES_FROM;
        for (zone, seconds, java_offset, cpp_offset, table_offset) in [
            // Local mean time is 8:05:43 until 1901.
            (Tz::Asia__Shanghai, in_1800, 28_800, 28_800, 29_143),
            (Tz::Asia__Shanghai, in_1900 - 1, 28_800, 28_800, 29_143),
            (Tz::Asia__Shanghai, in_1900, 29_143, 28_800, 29_143),
            (Tz::Europe__London, in_1800, 0, 0, -75),
            (Tz::Europe__London, in_1880, 0, 0, 0),
            (Tz::America__Los_Angeles, in_1800, -28_800, -28_800, -28_378),
            // Calcutta's local time is 5:53:20, Madras's 5:21:10 from 1870, and India's 5:30 today.
            (Tz::Asia__Kolkata, in_1800, 19_800, 21_200, 21_208),
            (Tz::Asia__Kolkata, in_1880, 19_800, 19_270, 19_270),
            // Winter time is 0, and by law summer time is the standard.
            (Tz::Europe__Dublin, in_1800, 0, -1_521, -1_521),
            (Tz::Africa__Casablanca, in_1800, 0, 0, -1_820),
            (Tz::Etc__GMTMinus8, in_1800, 28_800, 28_800, 28_800),
        ] {
            let found = [java, cpp, table].map(|rule| offset(zone, rule, seconds));
            assert_eq!(found, [java_offset, cpp_offset, table_offset], "{zone} {seconds}");
        }
        // The device's list of changes follows the writer's rule too.
        let first = |rule| changes_of(Zone::Region(Tz::Asia__Shanghai, rule))[0].offset;
        assert_eq!([first(java), first(cpp)], [29_143, 28_800]);
        WallClock::new(Zone::Region(Tz::Asia__Shanghai, cpp)).offset(i64::MIN);
    }
}
