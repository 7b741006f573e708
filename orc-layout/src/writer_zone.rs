//! [`WriterZone`], the time zone that a stripe footer names, in the names that Java's writers use, and
//! [`EarlyOffsets`], the writer's rule for times before the zone's table.

use std::fmt;

use chrono_tz::Tz;

use crate::statistics::writer;
use crate::tail::FileTail;

/// The zone of a stripe's TIMESTAMP values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriterZone {
    /// UTC, also if the footer names no zone. The writer's wall clock is then unknown. Java's and C++'s readers assume
    /// the machine's zone, which makes the values depend on the machine.
    Utc,
    /// A zone of the time zone database.
    Region(Tz),
    /// A zone with this constant offset from UTC, in seconds.
    Fixed(i32),
    /// A name that is not known.
    Unknown(String),
}

/// A writer's offsets of a zone at times for which time zone tables have no changes, or local mean time only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EarlyOffsets {
    /// Before 1900, that of the zone's present standard time, as Java's `TimeZone` has it.
    PresentStandard,
    /// Before the zone's first change, that of its first standard time, as ORC C++ reads zone files.
    FirstStandard,
    /// As the time zone table says.
    Table,
}

impl EarlyOffsets {
    /// The rule of a file's writer. Presto takes zones from Joda-Time, whose tables begin with local mean time. Other
    /// writers than Java's are taken for users of the C++ library.
    pub fn of(tail: &FileTail) -> Self {
        match tail.writer_code {
            writer::JAVA => Self::PresentStandard,
            writer::PRESTO | writer::TRINO | writer::GO => Self::Table,
            _ => Self::FirstStandard,
        }
    }
}

/// Java's three-letter ids that are not names of the time zone database (`java.time.ZoneId.SHORT_IDS`). Its other
/// three, EST, MST and HST, are.
const SHORT_IDS: [(&str, Tz); 25] = [
    ("ACT", Tz::Australia__Darwin),
    ("AET", Tz::Australia__Sydney),
    ("AGT", Tz::America__Argentina__Buenos_Aires),
    ("ART", Tz::Africa__Cairo),
    ("AST", Tz::America__Anchorage),
    ("BET", Tz::America__Sao_Paulo),
    ("BST", Tz::Asia__Dhaka),
    ("CAT", Tz::Africa__Harare),
    ("CNT", Tz::America__St_Johns),
    ("CST", Tz::America__Chicago),
    ("CTT", Tz::Asia__Shanghai),
    ("EAT", Tz::Africa__Addis_Ababa),
    ("ECT", Tz::Europe__Paris),
    ("IET", Tz::America__Indiana__Indianapolis),
    ("IST", Tz::Asia__Kolkata),
    ("JST", Tz::Asia__Tokyo),
    ("MIT", Tz::Pacific__Apia),
    ("NET", Tz::Asia__Yerevan),
    ("NST", Tz::Pacific__Auckland),
    ("PLT", Tz::Asia__Karachi),
    ("PNT", Tz::America__Phoenix),
    ("PRT", Tz::America__Puerto_Rico),
    ("PST", Tz::America__Los_Angeles),
    ("SST", Tz::Pacific__Guadalcanal),
    ("VST", Tz::Asia__Ho_Chi_Minh),
];

impl WriterZone {
    /// The zone of a stripe footer's name.
    pub fn parse(name: &str) -> Self {
        let name = name.trim();
        if matches!(name, "" | "UTC" | "GMT" | "UT" | "Z" | "Etc/UTC" | "Etc/GMT") {
            return Self::Utc;
        }
        if let Ok(zone) = name.parse() {
            return Self::Region(zone);
        }
        if let Some((_, zone)) = SHORT_IDS.iter().find(|(id, _)| *id == name) {
            return Self::Region(*zone);
        }
        match offset(name) {
            Some(0) => Self::Utc,
            Some(seconds) => Self::Fixed(seconds),
            None => Self::Unknown(name.to_owned()),
        }
    }
}

/// The seconds of a custom id of `java.util.TimeZone` or `java.time.ZoneId`: `GMT+8`, `GMT+0530`, `UTC+05:30`,
/// `-03:30:15`.
fn offset(name: &str) -> Option<i32> {
    let prefix = ["GMT", "UTC", "UT"]
        .into_iter()
        .find_map(|prefix| name.strip_prefix(prefix));
    let offset = prefix.unwrap_or(name);
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let number = |text: &str, max: i32| {
        let is_number = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| text.parse().ok()).flatten();
        number.filter(|&number: &i32| number <= max)
    };
    let mut parts = digits.split(':');
    let (hours, minutes, seconds) = match (parts.next()?, parts.next(), parts.next(), parts.next()) {
        (hours, None, None, None) if hours.len() <= 2 => (number(hours, 23)?, 0, 0),
        (digits, None, None, None) if (3..=4).contains(&digits.len()) => {
            let (hours, minutes) = digits.split_at_checked(digits.len() - 2)?;
            (number(hours, 23)?, number(minutes, 59)?, 0)
        }
        (hours, Some(minutes), None, None) => (number(hours, 23)?, number(minutes, 59)?, 0),
        (hours, Some(minutes), Some(seconds), None) => (number(hours, 23)?, number(minutes, 59)?, number(seconds, 59)?),
        _ => return None,
    };
    Some(sign * (hours * 3600 + minutes * 60 + seconds))
}

/// The name of the zone; an offset as `+05:30`.
impl fmt::Display for WriterZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utc => f.write_str("UTC"),
            Self::Region(zone) => f.write_str(zone.name()),
            Self::Fixed(seconds) => {
                let sign = if *seconds < 0 { '-' } else { '+' };
                let (minutes, rest) = (seconds.abs() / 60, seconds.abs() % 60);
                write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)?;
                if rest > 0 { write!(f, ":{rest:02}") } else { Ok(()) }
            }
            Self::Unknown(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_the_names_of_java() {
        let fixed = |hours: i32, minutes: i32| WriterZone::Fixed(hours * 3600 + minutes * 60);
        for (name, zone) in [
            ("", WriterZone::Utc),
            ("GMT+00:00", WriterZone::Utc),
            ("GMT+05:30", fixed(5, 30)),
            ("GMT+0530", fixed(5, 30)),
            ("GMT-8", fixed(-8, 0)),
            ("UTC+10", fixed(10, 0)),
            ("UT-03:30", fixed(-3, -30)),
            ("+01:00:30", WriterZone::Fixed(3630)),
            ("IST", WriterZone::Region(Tz::Asia__Kolkata)),
            ("PST", WriterZone::Region(Tz::America__Los_Angeles)),
            ("EST", WriterZone::Region(Tz::EST)),
            ("US/Pacific", WriterZone::Region(Tz::US__Pacific)),
            ("Etc/GMT+5", WriterZone::Region(Tz::Etc__GMTPlus5)),
        ] {
            assert_eq!(WriterZone::parse(name), zone, "{name}");
        }
        for name in [
            "Nowhere/Land",
            "GMT+24",
            "GMT+5:60",
            "GMT+",
            "GMT+12345",
            "UTC+1:2:3:4",
            "+x",
            "ß",
            "GMT+ß",
        ] {
            assert_eq!(WriterZone::parse(name), WriterZone::Unknown(name.into()), "{name}");
        }
        assert_eq!(WriterZone::parse("GMT-03:30").to_string(), "-03:30");
    }
}
