//! Seeds from files of other writers: small files of the corpus (`$GRAMPUS_SHARED`, or `shared` beside the project),
//! and files that `peer_files.py` makes with pyarrow and pyorc (`$GRAMPUS_PYTHON`, or `python3`). A note says what the
//! machine lacks.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use grampus_orc_layout::metadata_reader::{read_stripe, read_tail};
use grampus_orc_layout::proto::column_encoding::Kind as Encoding;
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::schema::TypeKind;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::{LayoutError, Result};

use crate::rle::{MAX_ROWS, PRESENT, VERSION_1};

/// Files above this size would be cut by the fuzzer's limit of an input.
const MAX_FILE_BYTES: u64 = 64 << 10;
/// Streams of a column above this size are left out: short ones mutate better.
const MAX_STREAM_BYTES: usize = 4 << 10;

struct Memory(Bytes);

impl ByteSource for Memory {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let inside = range.start <= range.end && range.end <= self.0.len() as u64;
        inside
            .then(|| self.0.slice(range.start as usize..range.end as usize))
            .ok_or_else(|| LayoutError::io_without_source(&"seed.orc".into(), range, "beyond the end of the file"))
    }
}

/// Files by name.
pub fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("GRAMPUS_SHARED").map_or(beside, PathBuf::from);
    let corpus = shared.join("data/orc");
    if !corpus.is_dir() {
        eprintln!("no seeds: {} is not there", corpus.display());
    }
    read_folder(&corpus, &mut files);
    let made = std::env::temp_dir().join(format!("grampus-seeds-{}", std::process::id()));
    let python = std::env::var("GRAMPUS_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer_files.py");
    let ran = std::fs::create_dir_all(&made).and_then(|()| Command::new(python).arg(script).arg(&made).status());
    if !ran.as_ref().is_ok_and(|status| status.success()) {
        eprintln!("no seeds of pyarrow and pyorc: {ran:?}");
    }
    read_folder(&made, &mut files);
    let _ = std::fs::remove_dir_all(made);
    files
}

/// Adds the ORC files below a folder, in the order of their names.
fn read_folder(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            read_folder(&path, files);
            continue;
        }
        let small = path.metadata().is_ok_and(|data| data.len() <= MAX_FILE_BYTES);
        if small && path.extension().is_some_and(|extension| extension == "orc") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.extend(std::fs::read(&path).map(|bytes| (name, bytes)));
        }
    }
}

/// Streams of integer, byte and boolean columns in uncompressed files, as inputs of the target `rle`.
pub fn streams() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, bytes) in files() {
        let file = Memory(bytes.into());
        let Ok(tail) = read_tail(&name.as_str().into(), file.0.len() as u64, &file) else {
            continue;
        };
        if tail.compression.is_some() {
            continue;
        }
        let tail = Arc::new(tail);
        for stripe in 0..tail.stripes.len().min(2) {
            let Ok(layout) = read_stripe(&tail, &file, stripe) else {
                continue;
            };
            for &column in tail.schema.fields() {
                let input = number(tail.schema.column(column).kind)
                    .and_then(|number| column_streams(&file, &layout, column, number));
                seeds.extend(input.map(|input| (format!("{name}-{stripe}-{column}"), input)));
            }
        }
    }
    seeds
}

/// The number of the type in an input of the target `rle`.
fn number(kind: TypeKind) -> Option<u8> {
    match kind {
        TypeKind::Long => Some(0),
        TypeKind::Int => Some(1),
        TypeKind::Short => Some(2),
        TypeKind::Byte => Some(3),
        TypeKind::Boolean => Some(4),
        _ => None,
    }
}

/// The input of the target `rle` with a column's streams. An input divides its bytes in 64ths, so zeros fill the
/// streams up.
fn column_streams(file: &Memory, stripe: &StripeLayout, column: u32, number: u8) -> Option<Vec<u8>> {
    let stream = |kind| {
        let stream = stripe.stream(column, kind)?;
        file.read(stream.range()).ok()
    };
    let (present, data) = (stream(Kind::Present).unwrap_or_default(), stream(Kind::Data)?);
    if present.len() + data.len() > MAX_STREAM_BYTES {
        return None;
    }
    let shares = |unit: usize| present.len().div_ceil(unit) + data.len().div_ceil(unit);
    let unit = (1..=MAX_STREAM_BYTES).find(|&unit| shares(unit) <= 64)?;
    let share = present.len().div_ceil(unit);
    let version_1 = stripe.encodings.get(column as usize)?.kind == Encoding::Direct;
    let flags = if version_1 { VERSION_1 } else { 0 } | if share > 0 { PRESENT } else { 0 };
    let [low, high] = (stripe.info.rows.min(MAX_ROWS - 1) as u16).to_le_bytes();
    let mut input = vec![number, flags, low, high, share as u8, 0, 3, 2];
    let start = input.len();
    input.extend_from_slice(&present);
    input.resize(start + share * unit, 0);
    input.extend_from_slice(&data);
    input.resize(start + 64 * unit, 0);
    Some(input)
}
