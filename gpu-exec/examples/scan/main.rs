//! Measures filtered sums over files of raw doubles with every backing, without the engine, against plain kernels that
//! sum the same bytes. Every answer is checked against a loop over the files first.
//!
//! ```text
//! scan FOLDER [--rows N] [--files K] [--runs R] [--cold FOLDER] [--json FILE] [--threads T] [--host THREADS]
//!      [--only WAY;…]
//! ```
//!
//! FOLDER should be a tmpfs. The files stay there for the next run. `--cold` names a folder on a disk.

mod data;
mod plain;
mod report;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use data::{COLUMNS, Table};
use grampus_cuda::Device;
use grampus_gpu_exec::input::Input;
use grampus_gpu_exec::output::{Cost, Output, ResultValues};
use grampus_gpu_exec::program::{Aggregate, BinaryOp, Column, Expr, Function, Program, Type, Value};
use grampus_gpu_exec::{Backing, BackingChoice, Decompression, Gpu, GpuOptions, Request, RuntimeOptions, Target};
use plain::{Plain, direct_rate, drop_pages};
use report::{Line, Report, median};

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;

struct Options {
    folder: PathBuf,
    rows: u64,
    files: usize,
    runs: usize,
    cold: Option<PathBuf>,
    json: Option<PathBuf>,
    threads: usize,
    host: Option<u32>,
    /// Prefixes of the ways to measure. Empty: all ways.
    only: Vec<String>,
}

fn options() -> Result<Options, Failed> {
    let mut words = std::env::args().skip(1);
    let mut options = Options {
        folder: words.next().ok_or("usage: scan FOLDER [--rows N] …")?.into(),
        rows: 200_000_000,
        files: 16,
        runs: 7,
        cold: None,
        json: None,
        threads: 8,
        host: None,
        only: Vec::new(),
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} takes a value"))?;
        match word.as_str() {
            "--rows" => options.rows = value.parse()?,
            "--files" => options.files = value.parse()?,
            "--runs" => options.runs = value.parse::<usize>()?.max(1),
            "--cold" => options.cold = Some(value.into()),
            "--json" => options.json = Some(value.into()),
            "--threads" => options.threads = value.parse()?,
            "--only" => options.only = value.split(';').map(str::to_owned).collect(),
            "--host" => options.host = Some(value.parse()?),
            other => return Err(format!("what is {other}?").into()),
        }
    }
    Ok(options)
}

/// A query: `count(*)` and sums of the first `columns` columns where the first is at least `bound`.
struct Query {
    name: &'static str,
    bound: f64,
    columns: usize,
    selectivity: f64,
}

const QUERIES: [Query; 4] = [
    Query {
        name: "Q0 >= 30",
        bound: 30.0,
        columns: 1,
        selectivity: 0.0003,
    },
    Query {
        name: "Q0 >= 20",
        bound: 20.0,
        columns: 1,
        selectivity: 0.0047,
    },
    Query {
        name: "Q5 >= 30",
        bound: 30.0,
        columns: COLUMNS,
        selectivity: 0.0003,
    },
    Query {
        name: "Q5 >= 20",
        bound: 20.0,
        columns: COLUMNS,
        selectivity: 0.0047,
    },
];

impl Query {
    fn program(&self) -> Program {
        let sum = |column| Aggregate {
            function: Function::Sum,
            argument: Some(Expr::Column(column)),
            filter: None,
        };
        let count = Aggregate {
            function: Function::Count,
            argument: None,
            filter: None,
        };
        // Q0 sums the filter column itself, Q5 the five others.
        let sums = if self.columns == 1 { 0..1 } else { 1..self.columns };
        Program {
            columns: (0..self.columns)
                .map(|c| Column::new(format!("c{c}"), Type::Float64, false))
                .collect(),
            arguments: vec![Type::Float64],
            conjuncts: vec![Expr::Binary {
                op: BinaryOp::GtEq,
                left: Box::new(Expr::Column(0)),
                right: Box::new(Expr::Argument(0)),
            }],
            keys: Vec::new(),
            aggregates: std::iter::once(count).chain(sums.map(sum)).collect(),
        }
    }

    /// Checks an output.
    fn check(&self, output: &Output, expected: &(i64, [f64; COLUMNS])) -> Result<(), Failed> {
        let sums = if self.columns == 1 {
            &expected.1[..1]
        } else {
            &expected.1[1..]
        };
        let mut wanted = vec![ResultValues::Int(vec![expected.0])];
        wanted.extend(sums.iter().map(|s| ResultValues::Float(vec![*s])));
        let got: Vec<_> = output.aggregates.iter().map(|a| a.values.clone()).collect();
        if got == wanted {
            return Ok(());
        }
        Err(format!("{}: {got:?}, not {wanted:?}", self.name).into())
    }
}

/// State of the measurements.
struct Bench<'a> {
    options: &'a Options,
    table: &'a Table,
    answers: Vec<(i64, [f64; COLUMNS])>,
    report: Report,
    /// Median milliseconds of the plain kernels.
    plain_mapped_ms: f64,
    plain_resident_ms: f64,
}

/// One way to run a query.
struct Way<'a> {
    name: &'a str,
    backing: BackingChoice,
    /// Done before each measured run.
    before: &'a dyn Fn(&Gpu) -> Result<(), Failed>,
    /// Whether a run that is not measured comes first.
    warm: bool,
    /// Milliseconds to compare with, and their name.
    against: Option<(f64, &'a str)>,
}

impl Bench<'_> {
    fn gpu(&self, cache_bytes: Option<u64>) -> Result<Gpu, Failed> {
        let options = GpuOptions {
            target: self.options.host.map_or(Target::Cuda(0), Target::host),
            cache_bytes,
            pin_bytes: Some(64 << 30),
            kernel_folder: None,
            threads: self.options.threads,
        };
        Ok(Gpu::open_with(options, RuntimeOptions::default())?)
    }

    /// Runs a query `runs` times and reports the median.
    fn measure(
        &mut self,
        gpu: &Gpu,
        query: &Query,
        input: &Arc<Input>,
        answer: &(i64, [f64; COLUMNS]),
        way: &Way<'_>,
    ) -> Result<f64, Failed> {
        let only = &self.options.only;
        if !only.is_empty() && !only.iter().any(|o| way.name.starts_with(o.as_str())) {
            return Ok(f64::NAN);
        }
        let program = query.program();
        let cancel = Arc::default();
        let run = || -> Result<(f64, Cost), Failed> {
            let began = Instant::now();
            let output = gpu.run(Request {
                program: &program,
                arguments: &[Value::Float(query.bound)],
                input,
                backing: way.backing,
                decompression: Decompression::default(),
                selectivity: query.selectivity,
                waits_for_memory: false,
                cancel: &cancel,
            })?;
            let ms = began.elapsed().as_secs_f64() * 1e3;
            query.check(&output, answer)?;
            Ok((ms, output.cost))
        };
        let mut first = None;
        if way.warm {
            (way.before)(gpu)?;
            first = Some(run()?);
        }
        let mut times = Vec::new();
        let mut last = Cost::default();
        for _ in 0..self.options.runs {
            (way.before)(gpu)?;
            let (ms, cost) = run()?;
            times.push((ms, cost.scan.as_secs_f64() * 1e3, cost.kernel.as_secs_f64() * 1e3));
            last = cost;
        }
        let ms = median(times.iter().map(|t| t.0).collect());
        self.report.add(Line {
            query: query.name.to_owned(),
            way: way.name.to_owned(),
            ms,
            scan_ms: median(times.iter().map(|t| t.1).collect()),
            kernel_ms: median(times.iter().map(|t| t.2).collect()),
            best_ms: times.iter().map(|t| t.0).fold(f64::INFINITY, f64::min),
            first: first.map(|(ms, cost)| (ms, cost.register.as_secs_f64() * 1e3, cost.compile.as_secs_f64() * 1e3)),
            against: way.against.map(|(other, what)| (ms / other, what.to_owned())),
            cost: last,
        });
        Ok(ms)
    }

    fn answer_of(&self, query: &Query) -> (i64, [f64; COLUMNS]) {
        self.answers[usize::from(query.bound < 30.0)]
    }

    /// Measures plain kernels over the filter column.
    fn plain(&mut self, device: &Device) -> Result<(), Failed> {
        let plain = Plain::new(device)?;
        let filter = self.table.rows * 8;
        let (times, bytes, register_ms) = plain.mapped(self.table, self.options.runs)?;
        // Incomplete chunks at the ends of stripes are left out, so the time is scaled to the column's bytes.
        self.plain_mapped_ms = median(times) * filter as f64 / bytes as f64;
        self.report
            .plain("sum over PCIe from registered files", self.plain_mapped_ms, filter);
        self.report.plain(
            "registering all files",
            register_ms,
            self.table.input.files.iter().map(|f| f.bytes).sum(),
        );
        let (times, bytes) = plain.resident(filter, self.options.runs)?;
        self.plain_resident_ms = median(times) * filter as f64 / bytes as f64;
        self.report
            .plain("sum from device memory", self.plain_resident_ms, filter);
        Ok(())
    }

    fn backings(&mut self) -> Result<(), Failed> {
        let gpu = self.gpu(None)?;
        let nothing = |_: &Gpu| Ok(());
        let forget = |gpu: &Gpu| Ok(gpu.forget()?);
        let (mapped_ms, resident_ms) = (self.plain_mapped_ms, self.plain_resident_ms);
        let mut of_mapped = Vec::new();
        for query in &QUERIES {
            let input = Arc::new(self.table.first_columns(query.columns));
            let answer = self.answer_of(query);
            let way = Way {
                name: "mapped, registered",
                backing: BackingChoice::All(Backing::Mapped),
                before: &nothing,
                warm: true,
                against: Some((mapped_ms, "plain sum over PCIe")),
            };
            of_mapped.push(self.measure(&gpu, query, &input, &answer, &way)?);
        }
        for (query, mapped_ms) in QUERIES.iter().zip(of_mapped) {
            let input = Arc::new(self.table.first_columns(query.columns));
            let answer = self.answer_of(query);
            let mut way = Way {
                name: "first touch, auto",
                backing: BackingChoice::Auto,
                before: &forget,
                warm: true,
                against: Some((mapped_ms, "mapped, registered")),
            };
            self.measure(&gpu, query, &input, &answer, &way)?;
            (way.name, way.backing) = ("first touch, all pushed", BackingChoice::All(Backing::Resident));
            self.measure(&gpu, query, &input, &answer, &way)?;
            (way.name, way.backing) = ("first touch, paged", BackingChoice::All(Backing::Paged));
            self.measure(&gpu, query, &input, &answer, &way)?;
            (way.name, way.backing) = ("queued, empty cache", BackingChoice::All(Backing::Queued));
            self.measure(&gpu, query, &input, &answer, &way)?;
            way = Way {
                name: "queued, filled cache",
                before: &nothing,
                against: Some((resident_ms, "plain sum from device memory")),
                ..way
            };
            self.measure(&gpu, query, &input, &answer, &way)?;
            (way.name, way.backing) = ("paged, once more", BackingChoice::All(Backing::Paged));
            self.measure(&gpu, query, &input, &answer, &way)?;
            (way.name, way.backing) = ("hot", BackingChoice::All(Backing::Resident));
            self.measure(&gpu, query, &input, &answer, &way)?;
        }
        Ok(())
    }

    /// Measures with device memory for a tenth of the bytes.
    fn limited(&mut self) -> Result<(), Failed> {
        let bytes: u64 = self.table.input.files.iter().map(|f| f.bytes).sum();
        let gpu = self.gpu(Some(bytes / 10))?;
        for query in [&QUERIES[2], &QUERIES[3]] {
            let input = Arc::new(self.table.first_columns(query.columns));
            let answer = self.answer_of(query);
            for (name, backing) in [
                ("10 % of the bytes, auto", BackingChoice::Auto),
                ("10 % of the bytes, all pushed", BackingChoice::All(Backing::Resident)),
                ("10 % of the bytes, queued", BackingChoice::All(Backing::Queued)),
            ] {
                let way = Way {
                    name,
                    backing,
                    before: &|_| Ok(()),
                    warm: true,
                    against: None,
                };
                self.measure(&gpu, query, &input, &answer, &way)?;
            }
        }
        Ok(())
    }

    /// Measures one file on a disk, with its pages dropped from the page cache before each run.
    fn cold(&mut self, folder: &std::path::Path) -> Result<(), Failed> {
        let table = self.table.copy_of_first(folder)?;
        let answers = table.answers(&[30.0, 20.0])?;
        let path = table.paths[0].clone();
        drop_pages(&path)?;
        let rates: Result<Vec<f64>, _> = (0..self.options.runs).map(|_| direct_rate(&path, 32)).collect();
        let rate = median(rates?);
        let bytes = table.input.files[0].bytes;
        self.report.plain(
            "reading past the page cache, 32 x 1 MiB",
            bytes as f64 / rate * 1e3,
            bytes,
        );
        let gpu = self.gpu(None)?;
        let before = |gpu: &Gpu| -> Result<(), Failed> {
            gpu.forget()?;
            Ok(drop_pages(&path)?)
        };
        for query in &QUERIES {
            let moved = table.rows * 8;
            let way = Way {
                name: "cold file, auto",
                backing: BackingChoice::Auto,
                before: &before,
                warm: true,
                against: Some((
                    moved as f64 / rate * 1e3,
                    "reading the filter column past the page cache",
                )),
            };
            let (input, answer) = (
                table.first_columns(query.columns),
                answers[usize::from(query.bound < 30.0)],
            );
            self.measure(&gpu, query, &Arc::new(input), &answer, &way)?;
        }
        std::fs::remove_file(path)?;
        Ok(())
    }
}

fn main() -> Result<(), Failed> {
    let options = options()?;
    let began = Instant::now();
    let table = Table::make(&options.folder, options.rows, options.files)?;
    eprintln!("files: {:.1} s", began.elapsed().as_secs_f64());
    let began = Instant::now();
    let answers = table.answers(&[30.0, 20.0])?;
    eprintln!(
        "answers by a plain loop: {:.1} s: {answers:?}",
        began.elapsed().as_secs_f64()
    );
    let device = match options.host {
        Some(threads) => Device::host(threads, 8 << 30),
        None => Device::open(0)?,
    };
    let mut bench = Bench {
        report: Report::new(device.facts()?.name, table.rows, options.files, options.runs),
        options: &options,
        table: &table,
        answers,
        plain_mapped_ms: 0.0,
        plain_resident_ms: 0.0,
    };
    bench.plain(&device)?;
    bench.backings()?;
    bench.limited()?;
    if let Some(folder) = &options.cold {
        bench.cold(folder)?;
    }
    println!("{}", bench.report);
    if let Some(path) = &options.json {
        std::fs::write(path, bench.report.json()?)?;
    }
    Ok(())
}
