//! `Table`: files of six columns of doubles, and the answers by a plain loop over the files. Streams begin at odd
//! bytes, as in ORC files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grampus_gpu_exec::input::{Decode, Decoded, FileVersion, Input, Placement, Segment, Stripe};

pub(crate) const COLUMNS: usize = 6;
/// Rows of a stripe: 64 MiB of six columns.
const STRIPE_ROWS: u64 = 1_398_101;
/// log of the first column's median and its spread: 0.03 % of rows are at least 30, and 0.47 % at least 20.
const MEDIAN_LOG: f64 = 1.7334;
const SPREAD_LOG: f64 = 0.4860;

/// The files, and the places of all columns in them.
pub(crate) struct Table {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) input: Input,
    pub(crate) rows: u64,
}

/// A decoder that is never called: all columns are raw.
#[derive(Debug)]
struct NoDecoder;

impl Decode for NoDecoder {
    fn decode(
        &self,
        _: usize,
        _: usize,
        _: std::ops::Range<u64>,
    ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>> {
        Err("all columns are raw".into())
    }
}

fn random(state: u64) -> u64 {
    let mut z = state
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(0x1234_5678_9ABC_DEF1);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A multiple of 1/64, so that sums are exact in any order.
fn value(column: usize, row: u64) -> f64 {
    let bits = random(row * COLUMNS as u64 + column as u64);
    if column > 0 {
        return (bits % 6400) as f64 / 64.0;
    }
    let (a, b) = ((bits >> 32) as f64 + 0.5, (bits & 0xFFFF_FFFF) as f64);
    let unit = 2f64.powi(-32);
    let normal = (-2.0 * (a * unit).ln()).sqrt() * (std::f64::consts::TAU * b * unit).cos();
    ((MEDIAN_LOG + SPREAD_LOG * normal).exp() * 64.0).round() / 64.0
}

/// Offsets of the columns in a file's stripes of `STRIPE_ROWS` rows: streams one after another with odd gaps.
fn layout(rows: u64, file: usize) -> Vec<(u64, [u64; COLUMNS])> {
    let mut at = 3 + 2 * file as u64;
    let mut left = rows;
    let mut stripes = Vec::new();
    while left > 0 {
        let count = left.min(STRIPE_ROWS);
        let offsets = std::array::from_fn(|column| {
            at += 2 * column as u64 + 1;
            let offset = at;
            at += count * 8;
            offset
        });
        stripes.push((count, offsets));
        left -= count;
    }
    stripes
}

fn write(path: &Path, first_row: u64, rows: u64, file: usize) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut at, mut row) = (0, first_row);
    for (count, offsets) in layout(rows, file) {
        for (column, offset) in offsets.into_iter().enumerate() {
            out.write_all(&vec![0xEE; (offset - at) as usize])?;
            for r in row..row + count {
                out.write_all(&value(column, r).to_le_bytes())?;
            }
            at = offset + count * 8;
        }
        row += count;
    }
    out.flush()
}

impl Table {
    /// Writes the files to a folder, unless they are there with the right length.
    pub(crate) fn make(folder: &Path, rows: u64, files: usize) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let each = rows.div_ceil(files as u64);
        let parts: Vec<(PathBuf, u64, u64)> = (0..files)
            .map(|f| {
                let first = (f as u64 * each).min(rows);
                (
                    folder.join(format!("scan-{rows}-{files}-{f}.bytes")),
                    first,
                    each.min(rows - first),
                )
            })
            .collect();
        std::thread::scope(|scope| {
            let writers: Vec<_> = parts
                .iter()
                .enumerate()
                .map(|(f, (path, first, count))| {
                    scope.spawn(move || {
                        let end = layout(*count, f).last().map_or(0, |(n, at)| at[COLUMNS - 1] + n * 8);
                        match path.metadata() {
                            Ok(there) if there.len() == end => Ok(()),
                            _ => write(path, *first, *count, f),
                        }
                    })
                })
                .collect();
            writers.into_iter().try_for_each(|w| {
                w.join()
                    .unwrap_or_else(|_| Err(std::io::Error::other("a writer panicked")))
            })
        })?;
        Self::of(parts.into_iter().map(|(path, _, count)| (path, count)).collect())
    }

    /// A table of existing files, with their numbers of rows.
    pub(crate) fn of(parts: Vec<(PathBuf, u64)>) -> std::io::Result<Self> {
        let mut stripes = Vec::new();
        let mut files = Vec::new();
        for (file, (path, rows)) in parts.iter().enumerate() {
            files.push(FileVersion::of(path)?);
            for (index, (count, offsets)) in layout(*rows, file).into_iter().enumerate() {
                let direct = |offset| {
                    Placement::Direct(vec![Segment {
                        first_row: 0,
                        rows: count,
                        offset,
                    }])
                };
                stripes.push(Stripe {
                    file,
                    index,
                    rows: count,
                    group_rows: count,
                    compression: None,
                    selected: std::iter::once(0..count).collect(),
                    columns: offsets.map(direct).to_vec(),
                });
            }
        }
        Ok(Self {
            rows: parts.iter().map(|(_, rows)| rows).sum(),
            paths: parts.into_iter().map(|(path, _)| path).collect(),
            input: Input {
                files,
                stripes,
                column_ids: (1..=COLUMNS as u32).collect(),
                dictionary: 0,
                value_ranges: Vec::new(),
                value_bounds: Vec::new(),
                decoder: Arc::new(NoDecoder),
            },
        })
    }

    /// A copy of the first file in another folder.
    pub(crate) fn copy_of_first(&self, folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let to = folder.join("scan-cold.bytes");
        std::fs::copy(&self.paths[0], &to)?;
        File::open(&to)?.sync_all()?;
        let rows = self.input.stripes.iter().filter(|s| s.file == 0).map(|s| s.rows).sum();
        Self::of(vec![(to, rows)])
    }

    /// The input of a program over the first `columns` columns.
    pub(crate) fn first_columns(&self, columns: usize) -> Input {
        let mut input = self.input.clone();
        input.column_ids.truncate(columns);
        input.stripes.iter_mut().for_each(|s| s.columns.truncate(columns));
        input
    }

    /// The filter column's ranges: file, first byte, number of bytes.
    pub(crate) fn filter_bytes(&self) -> Vec<(usize, u64, u64)> {
        let of = |s: &Stripe| match &s.columns[0] {
            Placement::Direct(segments) => Some((s.file, segments[0].offset, s.rows * 8)),
            _ => None,
        };
        self.input.stripes.iter().filter_map(of).collect()
    }

    /// For each bound: the number of rows that pass, and the sums of all columns over these, by a loop over the files'
    /// bytes.
    pub(crate) fn answers(&self, bounds: &[f64]) -> std::io::Result<Vec<(i64, [f64; COLUMNS])>> {
        let mut totals = vec![(0, [0.0; COLUMNS]); bounds.len()];
        let parts = std::thread::scope(|scope| {
            let readers: Vec<_> = (0..self.paths.len())
                .map(|f| scope.spawn(move || self.answers_of(f, bounds)))
                .collect();
            let joined = readers.into_iter().map(|r| {
                r.join()
                    .unwrap_or_else(|_| Err(std::io::Error::other("a reader panicked")))
            });
            joined.collect::<std::io::Result<Vec<_>>>()
        })?;
        for part in parts {
            for (total, (count, sums)) in totals.iter_mut().zip(part) {
                total.0 += count;
                total.1.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
            }
        }
        Ok(totals)
    }

    fn answers_of(&self, file: usize, bounds: &[f64]) -> std::io::Result<Vec<(i64, [f64; COLUMNS])>> {
        let mut totals = vec![(0, [0.0; COLUMNS]); bounds.len()];
        let open = File::open(&self.paths[file])?;
        for stripe in self.input.stripes.iter().filter(|s| s.file == file) {
            let mut columns = Vec::new();
            for column in &stripe.columns {
                let Placement::Direct(segments) = column else { continue };
                let mut bytes = vec![0; stripe.rows as usize * 8];
                open.read_exact_at(&mut bytes, segments[0].offset)?;
                columns.push(bytes);
            }
            let get =
                |c: usize, r: usize| f64::from_le_bytes(columns[c][r * 8..r * 8 + 8].try_into().unwrap_or_default());
            for row in 0..stripe.rows as usize {
                for (total, bound) in totals.iter_mut().zip(bounds) {
                    if get(0, row) >= *bound {
                        total.0 += 1;
                        total.1.iter_mut().enumerate().for_each(|(c, sum)| *sum += get(c, row));
                    }
                }
            }
        }
        Ok(totals)
    }
}
