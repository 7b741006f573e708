//! Queries, one for each way to read columns, and their answers by plain loops.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use grampus_cuda::{HostFaults, Nvcomp};
use grampus_gpu_exec::input::Input;
use grampus_gpu_exec::output::{Output, ResultColumn, ResultValues};
use grampus_gpu_exec::program::{Expr, Program, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, GpuOptions, Request, RunError};
use grampus_gpu_exec::{RuntimeOptions, Target};
use grampus_orc_layout::codec::Codec;

use crate::temporary_table::compression::compress_table;
use crate::temporary_table::{GROUP_ROWS, Kind, Shape, Table, is_null, program, value};

/// A run that takes longer never ends.
const PATIENCE: Duration = Duration::from_secs(20);

const STRIPES: &[&[u64]] = &[&[2000, 1001], &[1500]];

/// Sums by group, exact in any order: the key's bits, or none; a count; and the bits of sums, or none.
pub(crate) type Answer = BTreeMap<Option<u64>, (i64, Vec<Option<u64>>)>;

/// A query, and how its columns are read.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) table: Table,
    pub(crate) program: Program,
    /// The column whose values are keys.
    pub(crate) key: Option<usize>,
    pub(crate) sums: Vec<usize>,
    pub(crate) bound: f64,
    pub(crate) backing: BackingChoice,
    pub(crate) cache_bytes: Option<u64>,
    pub(crate) library: Option<Arc<Nvcomp>>,
    pub(crate) waits: bool,
}

impl Case {
    pub(crate) fn new(name: &'static str, kinds: &[Kind], backing: BackingChoice) -> Self {
        let table = Table::new(&Shape {
            stripes: STRIPES,
            kinds,
            segments: 2,
            group_rows: Some(GROUP_ROWS),
        });
        let has_nulls = |at: &usize| matches!(kinds[*at], Kind::Decoded | Kind::Stored);
        let nullable: Vec<usize> = (0..kinds.len()).filter(has_nulls).collect();
        let sums: Vec<usize> = (1..kinds.len()).collect();
        Self {
            name,
            table,
            program: program(kinds.len(), &nullable, &sums),
            key: None,
            sums,
            bound: 100.0,
            backing,
            cache_bytes: None,
            library: None,
            waits: true,
        }
    }

    pub(crate) fn compressed(mut self, codec: Codec, library: Option<Arc<Nvcomp>>) -> Self {
        compress_table(&mut self.table, codec, 4 << 10, 0);
        self.library = library;
        self
    }

    /// Groups by a column, and all rows pass.
    pub(crate) fn grouped(mut self, key: usize) -> Self {
        self.program.keys = vec![Expr::Column(key)];
        self.key = Some(key);
        self.bound = 0.0;
        self
    }

    pub(crate) fn within(mut self, cache_bytes: u64) -> Self {
        self.cache_bytes = Some(cache_bytes);
        self
    }

    pub(crate) fn expected(&self) -> Answer {
        let get = |column: usize, row: u64| match self.table.kinds[column] {
            Kind::Raw | Kind::Plain => Some(value(column, row)),
            Kind::Decoded | Kind::Stored => (!is_null(row)).then(|| value(column, row)),
            Kind::Constant(value) => Some(value),
        };
        let mut groups: BTreeMap<Option<u64>, (i64, Vec<Option<f64>>)> = BTreeMap::new();
        for row in self.table.selected_rows().filter(|row| value(0, *row) >= self.bound) {
            let key = self.key.map_or(Some(0), |key| get(key, row).map(f64::to_bits));
            let group = groups.entry(key).or_insert_with(|| (0, vec![None; self.sums.len()]));
            group.0 += 1;
            for (total, column) in group.1.iter_mut().zip(&self.sums) {
                if let Some(value) = get(*column, row) {
                    *total = Some(total.unwrap_or(0.0) + value);
                }
            }
        }
        let bits = |sums: Vec<Option<f64>>| sums.into_iter().map(|sum| sum.map(f64::to_bits)).collect();
        groups
            .into_iter()
            .map(|(key, (count, sums))| (key, (count, bits(sums))))
            .collect()
    }

    pub(crate) fn input(&self) -> Arc<Input> {
        Arc::new(self.table.first_columns(self.program.columns.len()))
    }

    /// A device that is closed, with nothing cached.
    pub(crate) fn gpu(&self, faults: &Arc<HostFaults>) -> Gpu {
        let options = GpuOptions {
            target: Target::host(2),
            cache_bytes: self.cache_bytes,
            pin_bytes: None,
            kernel_folder: Some(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernels")),
            threads: 2,
        };
        let runtime = RuntimeOptions {
            host_faults: faults.clone(),
            timeout: Duration::from_secs(5),
            staging_bytes: Some(1 << 20),
            nvcomp_bytes: Some(8 << 20),
            ..RuntimeOptions::default()
        };
        Gpu::new(options, runtime)
    }

    /// Runs the query. A run that does not end is cancelled, and the test fails.
    pub(crate) fn run(&self, gpu: &Gpu, input: &Arc<Input>) -> Result<Answer, RunError> {
        let cancel = Arc::new(AtomicBool::new(false));
        let (ended, watched) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let flag = &cancel;
            scope.spawn(move || {
                if watched.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    flag.store(true, Ordering::Relaxed);
                }
            });
            let output = gpu.run(Request {
                program: &self.program,
                arguments: &[Value::Float(self.bound)],
                input,
                backing: self.backing,
                decompression: Decompression {
                    library: self.library.as_deref(),
                },
                selectivity: if self.key.is_some() { 1.0 } else { 0.0025 },
                waits_for_memory: self.waits,
                cancel: &cancel,
            });
            drop(ended);
            assert!(!cancel.load(Ordering::Relaxed), "{}: the query does not end", self.name);
            output.map(|output| answer(&output))
        })
    }
}

fn answer(output: &Output) -> Answer {
    let bits = |column: &ResultColumn, at: usize| {
        let ResultValues::Float(values) = &column.values else {
            panic!("a float")
        };
        column
            .valid
            .as_ref()
            .is_none_or(|valid| valid[at])
            .then(|| values[at].to_bits())
    };
    let ResultValues::Int(counts) = &output.aggregates[0].values else {
        panic!("a count is an integer")
    };
    let group = |at: usize| {
        let key = output.keys.first().map_or(Some(0), |key| bits(key, at));
        let sums = output.aggregates[1..].iter().map(|sum| bits(sum, at)).collect();
        (key, (counts[at], sums))
    };
    let answer: Answer = (0..output.groups).map(group).collect();
    assert_eq!(answer.len(), output.groups, "each group once");
    answer
}

pub(crate) fn cases() -> Vec<Case> {
    let all = BackingChoice::All;
    let nvcomp = || {
        let library = Nvcomp::load(Some(&grampus_host_nvcomp::file()));
        Some(library.unwrap_or_else(|e| panic!("{e}")))
    };
    let raw = [Kind::Raw; 3];
    let stored = [Kind::Raw, Kind::Stored, Kind::Plain];
    vec![
        Case::new("resident", &raw, all(Backing::Resident)),
        Case::new(
            "decoded by the CPU",
            &[Kind::Raw, Kind::Decoded, Kind::Constant(2.5)],
            BackingChoice::Auto,
        ),
        Case::new("decoded by the device", &stored, all(Backing::Resident)).compressed(Codec::Snappy, None),
        Case::new("decompressed by nvCOMP", &stored, all(Backing::Resident)).compressed(Codec::Zstd, nvcomp()),
        Case::new("paged", &raw, all(Backing::Paged)),
        Case::new("pages decoded by the device", &stored, all(Backing::Paged)).compressed(Codec::Lz4, None),
        Case::new("pages decompressed by nvCOMP", &stored, all(Backing::Paged)).compressed(Codec::Zstd, nvcomp()),
        Case::new("windows", &raw, all(Backing::Resident)).within(100_000),
        Case::new("windows of encoded columns", &stored, all(Backing::Resident)).within(100_000),
        Case::new("mapped", &raw, all(Backing::Mapped)),
        Case::new("queued", &raw, all(Backing::Queued)),
        Case::new("queued within little", &raw, all(Backing::Queued)).within(1 << 20),
        Case::new("groups", &raw, all(Backing::Resident)).grouped(1),
        Case::new("groups over pages", &stored, all(Backing::Paged)).grouped(1),
        Case::new("groups by command", &raw, all(Backing::Queued)).grouped(2),
    ]
}
