//! Conversion from the hybrid calendar, in which many Java writers count days, to the proleptic Gregorian one of Arrow.
//!
//! In the hybrid calendar (ORC v1, "CalendarKind": JULIAN_GREGORIAN) dates before 1582-10-15 are Julian. The stored
//! number of days names another date in the proleptic calendar. As ORC's Java reader does, the date is kept and the
//! number converted. Files that name no calendar are read as they are, as ORC's C++ reader does.

/// 1582-10-15, the first day of the Gregorian calendar, in days since 1970.
pub(crate) const FIRST_GREGORIAN_DAY: i64 = -141_427;
const SECONDS_PER_DAY: i64 = 86_400;

/// The day of the proleptic calendar with the same year, month and day. The 29th of February of a year that is a leap
/// year in the Julian calendar alone becomes the 1st of March.
pub(crate) fn proleptic_day(day: i64) -> i64 {
    if day >= FIRST_GREGORIAN_DAY {
        return day;
    }
    // Years begin in March, so that the leap day is the last. Day 0 is 0000-03-01 of the Julian calendar.
    let since_march = day.saturating_add(719_470);
    let cycle = since_march.div_euclid(1_461);
    let day_of_cycle = since_march.rem_euclid(1_461);
    let year_of_cycle = (day_of_cycle / 365).min(3);
    let year = cycle.saturating_mul(4).saturating_add(year_of_cycle);
    let day_of_year = day_of_cycle - 365 * year_of_cycle;
    // The same day of the same year, from 0000-03-01 of the proleptic calendar.
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year.saturating_mul(365)
        .saturating_add(leap_days)
        .saturating_add(day_of_year)
        .saturating_sub(719_468)
}

/// The second of the proleptic calendar with the same date and time of day.
pub(crate) fn proleptic_second(second: i64) -> i64 {
    if second >= FIRST_GREGORIAN_DAY * SECONDS_PER_DAY {
        return second;
    }
    let day = second.div_euclid(SECONDS_PER_DAY);
    second.saturating_add((proleptic_day(day) - day).saturating_mul(SECONDS_PER_DAY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn julian_dates_keep_year_month_and_day() {
        let day = |year, month, day| {
            let date = chrono::NaiveDate::from_ymd_opt(year, month, day).unwrap();
            date.signed_duration_since(chrono::NaiveDate::default()).num_days()
        };
        // Days of the hybrid calendar, from the Julian day numbers of the dates.
        for (hybrid, proleptic) in [
            (-719_164, day(1, 1, 1)),
            (-141_428, day(1582, 10, 4)),
            (-141_427, day(1582, 10, 15)),
            (-171_655, day(1500, 1, 1)),
            (-171_596, day(1500, 3, 1)), // the 29th of February
            (0, day(1970, 1, 1)),
        ] {
            assert_eq!(proleptic_day(hybrid), proleptic, "{hybrid}");
        }
        // The calendars agree from 200-03-01 to 300-02-28.
        assert_eq!(proleptic_day(day(250, 7, 7)), day(250, 7, 7));
        let ascending: Vec<i64> = (-800_000..-141_000).map(proleptic_day).collect();
        assert!(ascending.is_sorted());
        assert_eq!(proleptic_second(-719_164 * 86_400 + 5), day(1, 1, 1) * 86_400 + 5);
        assert_eq!(
            proleptic_second(-719_164 * 86_400 - 1),
            (day(1, 1, 1) - 1) * 86_400 + 86_399
        );
        proleptic_second(i64::MIN);
        proleptic_day(i64::MIN);
    }
}
