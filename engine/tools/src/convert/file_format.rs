//! [`FileFormat`]: the format of an input, by its first bytes.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::input::Fault;

/// Bytes that decide the format.
const START_BYTES: u64 = 4096;

/// UTF-8's byte order mark.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The formats of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileFormat {
    Parquet,
    Orc,
    Csv,
}

/// First bytes of other formats, each with its name and the advice.
const OTHERS: [(&[u8], &str, &str); 20] = [
    (b"PARE", "an encrypted Parquet file", "decrypt it first"),
    (b"\x1f\x8b", "a gzip archive", UNPACK),
    (b"BZh", "a bzip2 archive", UNPACK),
    (b"\xfd7zXZ\0", "an xz archive", UNPACK),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive", UNPACK),
    (b"\x04\x22\x4d\x18", "an LZ4 archive", UNPACK),
    (b"\xff\x06\0\0sNaPpY", "a Snappy archive", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", UNPACK),
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet", EXPORT),
    (b"\xd0\xcf\x11\xe0", "an Office document", EXPORT),
    (b"Obj\x01", "an Avro file", EXPORT),
    (b"ARROW1", "an Arrow file", EXPORT),
    (b"FEA1", "a Feather file", EXPORT),
    (b"RCF\x01", "an RCFile", EXPORT),
    (b"SEQ\x06", "a Hadoop sequence file", EXPORT),
    (b"SQLite format 3\0", "an SQLite database", EXPORT),
    (b"\x89HDF", "an HDF5 file", EXPORT),
    (b"%PDF", "a PDF document", EXPORT),
    (b"\xff\xfe", "text in UTF-16", ENCODE),
    (b"\xfe\xff", "text in UTF-16", ENCODE),
];

const UNPACK: &str = "unpack it first";
const EXPORT: &str = "export it as Parquet or CSV first";
const ENCODE: &str = "encode it as UTF-8 first";

impl FileFormat {
    /// The format of the file at `path`. Text of no other known format is taken for CSV.
    ///
    /// # Errors
    /// If the file cannot be read, or names the format that it seems to have.
    pub(super) fn of(path: &Path) -> Result<Self, Fault> {
        let mut start = Vec::new();
        File::open(path)?.take(START_BYTES).read_to_end(&mut start)?;
        if start.starts_with(b"PAR1") {
            return Ok(Self::Parquet);
        }
        if start.starts_with(b"ORC") {
            return Ok(Self::Orc);
        }
        if let Some((_, name, advice)) = OTHERS.iter().find(|(magic, ..)| start.starts_with(magic)) {
            return Err(format!("this is {name}, not Parquet, ORC or CSV: {advice}").into());
        }
        if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("orc")) {
            // The ORC reader's error says what is wrong with the file.
            return Ok(Self::Orc);
        }
        if start.is_empty() {
            return Err("the file is empty: a CSV file has at least a line of names".into());
        }
        if start.contains(&0) {
            return Err("this is binary data, not Parquet, ORC or CSV".into());
        }
        match markup(&start) {
            Some(name) => Err(format!("this is {name}, not Parquet, ORC or CSV: {EXPORT}").into()),
            None => Ok(Self::Csv),
        }
    }
}

/// The name of a text format that begins like this text.
fn markup(start: &[u8]) -> Option<&'static str> {
    let text = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start).trim_ascii_start();
    let (first, rest) = text.split_first()?;
    let next = rest.trim_ascii_start().first();
    // A CSV field with quotation marks inside is quoted itself. Names in brackets, `[id],[name]`, are no JSON.
    match (first, next) {
        (b'{', Some(b'"' | b'}')) => Some("JSON"),
        (b'[', Some(b'{' | b'[' | b'"' | b']' | b'-' | b'0'..=b'9')) => Some("JSON"),
        (b'<', Some(b'?' | b'!')) => Some("XML or HTML"),
        (b'<', _) if rest.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"html")) => Some("HTML"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn format_comes_from_the_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.dat");
        for (content, wanted) in [
            (&b"PAR1..."[..], FileFormat::Parquet),
            (b"ORC...", FileFormat::Orc),
            (b"a,b\n1,2\n", FileFormat::Csv),
            (b"[a],[b]\n1,2\n", FileFormat::Csv),
            (b"\"{\"\"a\"\": 1}\",2\n", FileFormat::Csv),
            (b"\xef\xbb\xbfa,b\n1,2\n", FileFormat::Csv),
        ] {
            fs::write(&path, content).unwrap();
            assert_eq!(FileFormat::of(&path).unwrap(), wanted);
        }
    }

    #[test]
    fn other_formats_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.csv");
        for (content, name) in [
            (&b"\x7fELF\0\0"[..], "binary data"),
            (b"", "empty"),
            (b"\x1f\x8b\x08", "a gzip archive"),
            (b"{\n  \"a\": 1\n}", "JSON"),
            (b"\xef\xbb\xbf [[1, 2]]", "JSON"),
            (b"<!DOCTYPE html>", "XML or HTML"),
            (b"<HTML><body>", "HTML"),
            (b"PK\x03\x04....", "a ZIP archive"),
        ] {
            fs::write(&path, content).unwrap();
            let reason = FileFormat::of(&path).unwrap_err().reason;
            assert!(reason.contains(name), "{reason}");
        }
    }
}
