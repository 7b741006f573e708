//! `Table`: columns in temporary files, with streams at odd bytes, programs over them, and the expected answers.
#![allow(dead_code)] // each test program uses its own part

pub(crate) mod compression;
pub(crate) mod sparse_query;

use std::collections::HashMap;
use std::io::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use grampus_gpu_exec::RunError;
use grampus_gpu_exec::input::{Decode, Decoded, FileVersion, Input, Placement, Segment, Stripe};
use grampus_gpu_exec::output::{Output, ResultValues};
use grampus_gpu_exec::program::{Aggregate, BinaryOp, Column, Expr, Function, Program, Type, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, GpuOptions, Request, RuntimeOptions, Target};
use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedEntry, EncodedStream, EncodedValues};

/// Ways to store a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// Raw, in one or more segments.
    Raw,
    /// Values that only the decoder returns. Every fifth is NULL.
    Decoded,
    /// The same values in streams that the device can decode, in groups of [`GROUP_ROWS`].
    Stored,
    /// Values without NULLs, in such streams. Chunks are pages of the column, if it is compressed.
    Plain,
    /// One value in all rows.
    Constant(f64),
}

/// Rows of a row group: whole bytes of bits.
pub(crate) const GROUP_ROWS: u64 = 1000;

/// A table of doubles: column c of row r is [`value`]`(c, r)`.
pub(crate) struct Table {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) input: Input,
    pub(crate) rows: u64,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) decoder: Arc<Decoder>,
}

/// A multiple of 1/8 below 128, so that sums are exact in any order. Column 0 is at least 100 in one row of about 400.
pub(crate) fn value(column: usize, row: u64) -> f64 {
    let mut hash = (row * 31 + column as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ hash >> 32).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 24;
    if column == 0 && !hash.is_multiple_of(400) {
        return (hash % 800) as f64 / 8.0;
    }
    if column == 0 {
        return 100.0 + (hash % 200) as f64 / 8.0;
    }
    (hash % 1000) as f64 / 8.0
}

pub(crate) fn is_null(row: u64) -> bool {
    row % 5 == 2
}

/// Decodes [`Kind::Decoded`] columns, and returns the streams of [`Kind::Stored`] and [`Kind::Plain`] ones. Fails on
/// request.
#[derive(Debug)]
pub(crate) struct Decoder {
    /// First row of each stripe.
    bases: Vec<u64>,
    pub(crate) calls: AtomicUsize,
    pub(crate) fail: Mutex<Option<String>>,
    /// The call that panics; 0: none.
    pub(crate) panics_at: AtomicUsize,
    pub(crate) nulls: bool,
    /// By column: no value is NULL.
    plain: Vec<bool>,
    /// By stripe and column.
    pub(crate) stored: Mutex<HashMap<(usize, usize), Arc<EncodedColumn>>>,
}

impl Decode for Decoder {
    fn decode(
        &self,
        stripe: usize,
        column: usize,
        rows: Range<u64>,
    ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(call != self.panics_at.load(Ordering::Relaxed), "as the test wants");
        if let Some(words) = self.fail.lock().unwrap().clone() {
            return Err(words.into());
        }
        let rows = rows.start + self.bases[stripe]..rows.end + self.bases[stripe];
        let nulls = self.nulls && !self.plain[column];
        let valid: Vec<u8> = rows.clone().map(|r| u8::from(!is_null(r))).collect();
        let values = rows.zip(&valid).flat_map(|(row, valid)| {
            let value = if *valid == 1 || !nulls { value(column, row) } else { 0.0 };
            value.to_le_bytes()
        });
        Ok(Decoded {
            values: values.collect(),
            valid: nulls.then_some(valid),
        })
    }

    fn encoded(&self, stripe: usize, column: usize) -> Option<Arc<EncodedColumn>> {
        self.stored.lock().unwrap().get(&(stripe, column)).cloned()
    }
}

/// Description of a table.
pub(crate) struct Shape<'a> {
    /// Rows of each stripe of each file.
    pub(crate) stripes: &'a [&'a [u64]],
    pub(crate) kinds: &'a [Kind],
    /// Segments of a raw column, with other bytes between them.
    pub(crate) segments: u64,
    /// Rows of a row group. `None`: no row groups.
    pub(crate) group_rows: Option<u64>,
}

impl Table {
    pub(crate) fn new(shape: &Shape<'_>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut files = Vec::new();
        let mut stripes = Vec::new();
        let mut stored = HashMap::new();
        let mut bases = Vec::new();
        let mut row = 0;
        for (file, counts) in shape.stripes.iter().enumerate() {
            let path = folder.path().join(format!("{file}.bytes"));
            let mut bytes = vec![0x55u8; 3 + 2 * file];
            for (index, &rows) in counts.iter().enumerate() {
                bases.push(row);
                let mut columns = Vec::new();
                for c in 0..shape.kinds.len() {
                    let kind = shape.kinds[c];
                    columns.push(if matches!(kind, Kind::Stored | Kind::Plain) {
                        let encoded = store(&mut bytes, c, row..row + rows, kind == Kind::Stored);
                        let stored_bytes = encoded.data.length + encoded.present.as_ref().map_or(0, |p| p.length);
                        stored.insert((stripes.len(), c), Arc::new(encoded));
                        Placement::Decoded {
                            stored_bytes,
                            on_device: true,
                            chunk_bytes: None,
                        }
                    } else {
                        place(&mut bytes, shape, c, row, rows)
                    });
                }
                stripes.push(Stripe {
                    file,
                    index,
                    rows,
                    group_rows: shape.group_rows.unwrap_or(rows),
                    compression: None,
                    selected: std::iter::once(0..rows).collect(),
                    columns,
                });
                row += rows;
            }
            std::fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
            files.push(FileVersion::of(&path).unwrap());
        }
        let decoder = Arc::new(Decoder {
            bases,
            calls: AtomicUsize::new(0),
            fail: Mutex::new(None),
            panics_at: AtomicUsize::new(0),
            nulls: true,
            plain: shape.kinds.iter().map(|kind| *kind == Kind::Plain).collect(),
            stored: Mutex::new(stored),
        });
        Self {
            folder,
            input: Input {
                files,
                stripes,
                column_ids: (10..10 + shape.kinds.len() as u32).collect(),
                dictionary: 0,
                value_ranges: Vec::new(),
                value_bounds: Vec::new(),
                decoder: decoder.clone(),
            },
            rows: row,
            kinds: shape.kinds.to_vec(),
            decoder,
        }
    }

    /// A table of raw columns.
    pub(crate) fn raw(stripes: &[&[u64]], columns: usize) -> Self {
        Self::new(&Shape {
            stripes,
            kinds: &vec![Kind::Raw; columns],
            segments: 1,
            group_rows: Some(1000),
        })
    }

    /// The input of a program over the first columns.
    pub(crate) fn first_columns(&self, count: usize) -> Input {
        let mut input = self.input.clone();
        input.column_ids.truncate(count);
        input.stripes.iter_mut().for_each(|s| s.columns.truncate(count));
        input
    }

    pub(crate) fn path(&self, file: usize) -> PathBuf {
        self.input.files[file].path.clone()
    }

    /// The value of a row. `None`: NULL.
    fn get(&self, column: usize, row: u64) -> Option<f64> {
        match self.kinds[column] {
            Kind::Raw | Kind::Plain => Some(value(column, row)),
            Kind::Decoded | Kind::Stored => (!is_null(row)).then(|| value(column, row)),
            Kind::Constant(v) => Some(v),
        }
    }

    /// All selected rows.
    pub(crate) fn selected_rows(&self) -> impl Iterator<Item = u64> + '_ {
        let mut base = 0;
        self.input.stripes.iter().flat_map(move |s| {
            let first = base;
            base += s.rows;
            s.selected.iter().flat_map(move |r| first + r.start..first + r.end)
        })
    }

    /// `count(*)` and the sums of `sums` where column 0 is at least `bound`.
    pub(crate) fn expected(&self, bound: f64, sums: &[usize]) -> (i64, Vec<Option<f64>>) {
        let mut count = 0;
        let mut totals = vec![None; sums.len()];
        for row in self.selected_rows() {
            if self.get(0, row).is_none_or(|v| v < bound) {
                continue;
            }
            count += 1;
            for (total, column) in totals.iter_mut().zip(sums) {
                if let Some(v) = self.get(*column, row) {
                    *total = Some(total.unwrap_or(0.0) + v);
                }
            }
        }
        (count, totals)
    }
}

fn place(bytes: &mut Vec<u8>, shape: &Shape<'_>, column: usize, first: u64, rows: u64) -> Placement {
    match shape.kinds[column] {
        Kind::Decoded | Kind::Stored | Kind::Plain => Placement::Decoded {
            stored_bytes: rows,
            on_device: false,
            chunk_bytes: None,
        },
        Kind::Constant(v) => Placement::Constant(Some(Value::Float(v))),
        Kind::Raw => {
            let mut segments = Vec::new();
            let each = rows.div_ceil(shape.segments).max(1);
            let mut done = 0;
            while done < rows {
                let count = each.min(rows - done);
                bytes.extend([0xEE; 5]);
                segments.push(Segment {
                    first_row: done,
                    rows: count,
                    offset: bytes.len() as u64,
                });
                for row in first + done..first + done + count {
                    bytes.extend(value(column, row).to_le_bytes());
                }
                done += count;
            }
            Placement::Direct(segments)
        }
    }
}

/// Writes a column of a stripe: runs of bits that mark the rows with a value if some have `nulls`, and the values.
fn store(bytes: &mut Vec<u8>, column: usize, rows: Range<u64>, nulls: bool) -> EncodedColumn {
    let (first, rows) = (rows.start, rows.end - rows.start);
    let (mut present, mut data) = (Vec::new(), Vec::new());
    let (mut present_entries, mut data_entries) = (Vec::new(), Vec::new());
    for start in (0..rows).step_by(GROUP_ROWS as usize) {
        let group: Vec<u64> = (first + start..first + rows.min(start + GROUP_ROWS)).collect();
        let begins = (present.len() as u64, data.len() as u64);
        let bits: Vec<u8> = group
            .chunks(8)
            .map(|rows| {
                rows.iter()
                    .enumerate()
                    .map(|(k, row)| u8::from(!is_null(*row)) << (7 - k))
                    .sum()
            })
            .collect();
        for literals in bits.chunks(128) {
            present.push((256 - literals.len()) as u8);
            present.extend(literals);
        }
        let values = group.into_iter().filter(|row| !nulls || !is_null(*row));
        data.extend(values.flat_map(|row| value(column, row).to_le_bytes()));
        let entry = |at, end: usize| EncodedEntry {
            at,
            skip: 0,
            end: end as u64,
        };
        present_entries.push(entry(begins.0, present.len()));
        data_entries.push(entry(begins.1, data.len()));
    }
    let mut put = |stream: Vec<u8>, entries| {
        bytes.extend([0xEE; 5]);
        let offset = bytes.len() as u64;
        bytes.extend(&stream);
        EncodedStream {
            offset,
            length: stream.len() as u64,
            entries,
            chunks: None,
        }
    };
    EncodedColumn {
        values: EncodedValues::Floats,
        group_rows: GROUP_ROWS,
        present: nulls.then(|| put(present, present_entries)),
        data: put(data, data_entries),
        secondary: None,
    }
}

/// `count(*), sum(…)` of `sums` `WHERE c0 >= $0`.
pub(crate) fn program(columns: usize, nullable: &[usize], sums: &[usize]) -> Program {
    let sum = |&c: &usize| Aggregate {
        function: Function::Sum,
        argument: Some(Expr::Column(c)),
        filter: None,
    };
    let count = Aggregate {
        function: Function::Count,
        argument: None,
        filter: None,
    };
    Program {
        columns: (0..columns)
            .map(|c| Column::new(format!("c{c}"), Type::Float64, nullable.contains(&c)))
            .collect(),
        arguments: vec![Type::Float64],
        conjuncts: vec![Expr::Binary {
            op: BinaryOp::GtEq,
            left: Box::new(Expr::Column(0)),
            right: Box::new(Expr::Argument(0)),
        }],
        keys: Vec::new(),
        aggregates: std::iter::once(count).chain(sums.iter().map(sum)).collect(),
    }
}

/// Tests run on the first GPU, and not on host threads, if this variable is set.
const CUDA: &str = "GRAMPUS_TEST_CUDA";

pub(crate) fn is_cuda() -> bool {
    std::env::var_os(CUDA).is_some()
}

/// A device of host threads, or a GPU. `None`, with a message, without a C++ compiler.
pub(crate) fn gpu(cache_bytes: Option<u64>, runtime: RuntimeOptions) -> Option<Gpu> {
    let options = GpuOptions {
        target: match is_cuda() {
            true => Target::Cuda(0),
            false => Target::host(2),
        },
        cache_bytes,
        pin_bytes: None,
        kernel_folder: Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
        threads: 2,
    };
    match Gpu::open_with(options, runtime) {
        Ok(gpu) => Some(gpu),
        Err(RunError::Cuda(e)) if e.to_string().contains("no C++ compiler") => {
            grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
            None
        }
        Err(e) => panic!("{e}"),
    }
}

pub(crate) fn run(
    gpu: &Gpu,
    table: &Table,
    program: &Program,
    bound: f64,
    backing: BackingChoice,
) -> Result<Output, RunError> {
    gpu.run(Request {
        program,
        arguments: &[Value::Float(bound)],
        input: &Arc::new(table.first_columns(program.columns.len())),
        backing,
        decompression: Decompression::default(),
        selectivity: 0.0025,
        waits_for_memory: true,
        cancel: &Arc::new(AtomicBool::new(false)),
    })
}

/// An output in the form of [`Table::expected`].
pub(crate) fn answer(output: &Output) -> (i64, Vec<Option<f64>>) {
    assert_eq!(output.groups, 1);
    let ResultValues::Int(count) = &output.aggregates[0].values else {
        panic!("a count is an integer")
    };
    let sum = |column: &grampus_gpu_exec::output::ResultColumn| {
        let ResultValues::Float(values) = &column.values else {
            panic!("a sum of floats is a float")
        };
        column.valid.as_ref().is_none_or(|v| v[0]).then_some(values[0])
    };
    (count[0], output.aggregates[1..].iter().map(sum).collect())
}

pub(crate) const ALL: [BackingChoice; 5] = [
    BackingChoice::Auto,
    BackingChoice::All(Backing::Resident),
    BackingChoice::All(Backing::Mapped),
    BackingChoice::All(Backing::Queued),
    BackingChoice::All(Backing::Paged),
];
