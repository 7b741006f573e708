//! Quantities as text for people: bytes, rows, durations, ratios, counts.

use std::time::Duration;

use grampus::MemoryLimit;

/// Smallest memory limit. Less is a size without its unit.
const MIN_MEMORY_LIMIT_BYTES: usize = 64 << 10;

/// Bytes from text such as `1000`, `512m`, `4g`, `1.5GiB`. Letters are powers of 1024, in upper or lower case.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, String> {
    let expected = || "expected a size such as 512m, 4g or 1.5GiB".to_owned();
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(digits);
    let shift = match unit {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(expected()),
    };
    let bytes = number.trim().parse::<f64>().map_err(|_| expected())? * (1_u64 << shift) as f64;
    if !bytes.is_finite() || bytes < 1.0 || bytes >= usize::MAX as f64 {
        return Err(expected());
    }
    Ok(bytes as usize)
}

/// A memory limit from text: a number of bytes as [`parse_bytes`] reads it, or `0` or `none` for no limit.
pub(crate) fn parse_memory_limit(text: &str) -> Result<MemoryLimit, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "0" | "none" => Ok(MemoryLimit::Unlimited),
        size => match parse_bytes(size) {
            Ok(bytes) if bytes < MIN_MEMORY_LIMIT_BYTES => Err(format!(
                "{bytes} bytes are too few for any query: write a unit, as in 512m or 4g, or none for no limit"
            )),
            Ok(bytes) => Ok(MemoryLimit::Bytes(bytes)),
            Err(expected) => Err(format!("{expected}, or none for no limit")),
        },
    }
}

/// Rows from text such as `100000`, `500k`, `3m`, `1.1b`. Letters are powers of 1000.
pub(crate) fn parse_rows(text: &str) -> Result<u64, String> {
    let expected = || "expected a number of rows such as 20000, 500k or 3m".to_owned();
    let lower = text.trim().replace('_', "").to_ascii_lowercase();
    let (number, scale) = match lower.char_indices().next_back() {
        Some((at, 'k')) => (&lower[..at], 1e3),
        Some((at, 'm')) => (&lower[..at], 1e6),
        Some((at, 'b' | 'g')) => (&lower[..at], 1e9),
        _ => (lower.as_str(), 1.0),
    };
    let rows = number.trim().parse::<f64>().map_err(|_| expected())? * scale;
    if !(1.0..1e15).contains(&rows) {
        return Err(expected());
    }
    Ok(rows.round() as u64)
}

/// Bytes for people, three digits and a unit: `0 B`, `812 B`, `3.40 KiB`, `23.0 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        return format!("{count} B");
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// A number with three significant digits. All digits before the point are kept.
fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A ratio for people: with two decimals below 99.95, otherwise whole and with its thousands apart.
pub(crate) fn ratio(value: f64) -> String {
    if value < 99.95 {
        format!("{value:.2}")
    } else {
        count(value.round() as u64)
    }
}

/// A duration for people: `0.8 ms`, `12 ms`, `0.34 s`, `12.3 s`, `2 min 5 s`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 0.00995 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 0.0995 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 9.95 {
        format!("{seconds:.2} s")
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else {
        let whole = seconds.round() as u64;
        format!("{} min {} s", whole / 60, whole % 60)
    }
}

/// A count with its thousands apart: `1,234,567`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 row`, `2 rows`, `1,234 rows`.
pub(crate) fn counted(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(value))
}

/// A number of at least 1.
pub(crate) fn parse_count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a number of at least 1".to_owned()),
        Ok(count) => Ok(count),
    }
}

/// The character between fields of CSV.
pub(crate) fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        b"\\t" | b"tab" => Ok(b'\t'),
        _ => Err("expected one ASCII character, or \\t for a tab".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        assert_eq!(parse_bytes("1000"), Ok(1000));
        assert_eq!(parse_bytes("512m"), Ok(512 << 20));
        assert_eq!(parse_bytes("4GiB"), Ok(4 << 30));
        assert_eq!(parse_bytes("1.5 kb"), Ok(1536));
        for wrong in ["", "m", "4 potatoes", "-1g", "0", "nan", "inf", "1e300"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn row_counts_are_parsed() {
        assert_eq!(parse_rows("20_000"), Ok(20_000));
        assert_eq!(parse_rows("1.5k"), Ok(1500));
        assert_eq!(parse_rows("3M"), Ok(3_000_000));
        for wrong in ["", "k", "0", "-3m", "many"] {
            assert!(parse_rows(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn quantities_are_formatted() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(1000), "0.98 KiB");
        assert_eq!(bytes(3 << 20), "3.00 MiB");
        assert_eq!(ratio(1.049), "1.05");
        assert_eq!(ratio(5671.35), "5,671");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(0, "row"), "0 rows");
        assert_eq!(duration(Duration::from_micros(840)), "0.8 ms");
        assert_eq!(duration(Duration::from_millis(34)), "34 ms");
        assert_eq!(duration(Duration::from_millis(1234)), "1.23 s");
        assert_eq!(duration(Duration::from_secs(125)), "2 min 5 s");
    }
}
