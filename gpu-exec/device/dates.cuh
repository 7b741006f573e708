// Fields of dates and times, and truncation to them: proleptic Gregorian calendar, no zones, no leap seconds, times
// before 1970 rounded down. For days and times outside chrono's calendar arrow has no answer: these refuse.
#pragma once
#include "values.cuh"

namespace grampus {

// Days from 1970-01-01 of chrono's last date, 262142-12-31, and of the day after its first, -262143-01-01.
constexpr i64 FIRST_DAY = -96465292;
constexpr i64 LAST_DAY = 95026236;

// Days from 1970-01-01 back to 1900-03-01 and to 1901-01-01, and the days from each on in which every fourth year is a
// leap year: up to 2100-02-28 and 2099-12-31.
constexpr i32 FROM_MARCH_1900 = 25508, DAYS_FROM_MARCH_1900 = 73049;
constexpr i32 FROM_1901 = 25202, DAYS_FROM_1901 = 72684;

// The remainder of a division that rounds down; `b` is positive.
GRAMPUS_DEVICE i64 floor_remainder(i64 a, i64 b) {
    i64 rest = a % b;
    return rest < 0 ? rest + b : rest;
}

struct Civil {
    i32 year, month, day;
};

// Both directions by eras of 400 years that begin in March (Howard Hinnant, "chrono-Compatible Low-Level Date
// Algorithms").
GRAMPUS_DEVICE Civil civil_of(i32 days) {
    Civil c;
    u32 n = (u32)days + FROM_MARCH_1900;
    if (n < DAYS_FROM_MARCH_1900) {
        // The same within one period of 4 years, without the exceptions of centuries.
        u32 year = (4 * n + 3) / 1461, doy = n - 1461 * year / 4, mp = (5 * doy + 2) / 153;
        c.day = (i32)(doy - (153 * mp + 2) / 5 + 1);
        c.month = (i32)(mp < 10 ? mp + 3 : mp - 9);
        c.year = (i32)year + 1900 + (c.month <= 2 ? 1 : 0);
        return c;
    }
    i32 z = days + 719468;
    i32 era = (z >= 0 ? z : z - 146096) / 146097;
    u32 doe = (u32)(z - era * 146097);
    u32 yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    u32 doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    u32 mp = (5 * doy + 2) / 153;
    c.day = (i32)(doy - (153 * mp + 2) / 5 + 1);
    c.month = (i32)(mp < 10 ? mp + 3 : mp - 9);
    c.year = (i32)yoe + era * 400 + (c.month <= 2 ? 1 : 0);
    return c;
}
GRAMPUS_DEVICE i32 days_of(i32 year, i32 month, i32 day) {
    year -= month <= 2 ? 1 : 0;
    i32 era = (year >= 0 ? year : year - 399) / 400;
    u32 yoe = (u32)(year - era * 400);
    u32 doy = (153 * (u32)(month > 2 ? month - 3 : month + 9) + 2) / 5 + (u32)day - 1;
    return era * 146097 + (i32)(yoe * 365 + yoe / 4 - yoe / 100 + doy) - 719468;
}

// The day; refuses if it lies outside the calendar.
GRAMPUS_DEVICE i32 calendar_day(i64 days, bool& refused) {
    bool good = days >= FIRST_DAY && days <= LAST_DAY;
    refused |= !good;
    return good ? (i32)days : 0;
}
// The number of whole days before a time, in units of which a day has PER_DAY, rounded down. One unsigned division: a
// signed one would have to correct its result.
template <i64 PER_DAY>
GRAMPUS_DEVICE i64 days_before(i64 time) {
    constexpr i64 DAYS = 0x7FFFFFFFFFFFFFFF / PER_DAY;  // from the first time that is a multiple of days
    u64 above = (u64)time + (u64)(DAYS * PER_DAY);
    return time < -DAYS * PER_DAY ? -DAYS - 1 : (i64)(above / (u64)PER_DAY) - DAYS;
}
// The day of a time in units of which a day has PER_DAY.
template <i64 PER_DAY>
GRAMPUS_DEVICE i32 day_of_time(i64 time, bool& refused) {
    return calendar_day(days_before<PER_DAY>(time), refused);
}
template <i64 PER_DAY>
GRAMPUS_DEVICE i32 second_of_time(i64 time) {
    return (i32)(floor_remainder(time, PER_DAY) / (PER_DAY / 86400));
}

// ---- fields of a day ------------------------------------------------------------------------------------

GRAMPUS_DEVICE i32 year_of(i32 day) {
    u32 n = (u32)day + FROM_1901;
    return n < DAYS_FROM_1901 ? (i32)((4 * n + 3) / 1461) + 1901 : civil_of(day).year;
}
GRAMPUS_DEVICE i32 month_of(i32 day) { return civil_of(day).month; }
GRAMPUS_DEVICE i32 quarter_of(i32 day) { return (civil_of(day).month + 2) / 3; }
GRAMPUS_DEVICE i32 day_of_month(i32 day) { return civil_of(day).day; }
GRAMPUS_DEVICE i32 day_of_year(i32 day) { return day - days_of(civil_of(day).year, 1, 1) + 1; }
// 0 = Sunday; 1970-01-01 was a Thursday.
GRAMPUS_DEVICE i32 day_of_week(i32 day) { return (i32)floor_remainder((i64)day + 4, 7); }
// 0 = Monday.
GRAMPUS_DEVICE i32 day_from_monday(i32 day) { return (i32)floor_remainder((i64)day + 3, 7); }
// ISO 8601: a week belongs to the year of its Thursday.
GRAMPUS_DEVICE i32 week_of(i32 day) { return (day_of_year(day - day_from_monday(day) + 3) - 1) / 7 + 1; }

// Months since the year 0 of a time's day, divided by MONTHS; the least number if the day lies before that year or
// outside the calendar.
template <i64 PER_DAY, i32 MONTHS>
GRAMPUS_DEVICE i32 months_of_time(i64 time) {
    i64 day = days_before<PER_DAY>(time);
    bool good = day >= FIRST_DAY && day <= LAST_DAY;
    Civil c = civil_of(good ? (i32)day : 0);
    good = good && c.year >= 0;
    return good ? (c.year * 12 + c.month - 1) / MONTHS : (i32)0x80000000;
}

// ---- the first day of ... -------------------------------------------------------------------------------

GRAMPUS_DEVICE i32 first_of_year(i32 day) { return days_of(civil_of(day).year, 1, 1); }
GRAMPUS_DEVICE i32 first_of_quarter(i32 day) {
    Civil c = civil_of(day);
    return days_of(c.year, (c.month - 1) / 3 * 3 + 1, 1);
}
GRAMPUS_DEVICE i32 first_of_month(i32 day) { return day - civil_of(day).day + 1; }
GRAMPUS_DEVICE i32 first_of_week(i32 day) { return day - day_from_monday(day); }

// ---- times ------------------------------------------------------------------------------------------------

// a * b; refuses if the product does not fit. `b` is positive.
GRAMPUS_DEVICE i64 scale_up(i64 a, i64 b, bool& refused) {
    constexpr i64 MOST = 0x7FFFFFFFFFFFFFFF;
    bool good = a <= MOST / b && a >= (-MOST - 1) / b;
    refused |= !good;
    return good ? a * b : 0;
}
// The greatest multiple of `unit` not above the time. Wraps at the beginning of time.
GRAMPUS_DEVICE i64 truncate_to(i64 time, i64 unit) { return subtract(time, floor_remainder(time, unit)); }

// A time with its day truncated to `first`. DataFusion truncates to weeks and longer units through nanoseconds, and
// these must fit.
template <i64 PER_DAY>
GRAMPUS_DEVICE i64 time_of_day(i64 time, i32 first, bool& refused) {
    constexpr i64 NS = 86400000000000 / PER_DAY;
    scale_up(time, NS, refused);
    scale_up(scale_up(first, PER_DAY, refused), NS, refused);
    return (i64)first * PER_DAY;
}

}  // namespace grampus
