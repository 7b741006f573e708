//! The files of the shared corpus: the examples of Apache ORC and orc-rust.
//!
//! - A readable file has the values that two other readers read.
//! - A broken file is refused with the file and the place.
//! - No file panics, hangs or takes a gibibyte of memory.
//!
//! Each file is read in its own process, so that the test can measure the memory and end a hang.

mod support;

#[path = "corpus/hashes.rs"]
mod hashes;
#[path = "corpus/one_file.rs"]
mod one_file;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

/// The variable with the file that a child process reads, relative to the corpus.
const FILE: &str = "GRAMPUS_CORPUS_FILE";
/// Maximum time for a file, in an unoptimised build on a slow machine too.
const LIMIT: Duration = Duration::from_secs(240);
/// Maximum memory for a file, in KiB.
const LIMIT_KIB: u64 = 1 << 20;

#[test]
fn corpus_files_read_right_or_are_refused() {
    let Some(corpus) = corpus() else { return };
    let wanted = std::env::var("GRAMPUS_CORPUS").unwrap_or_default();
    let files = Manifest::read(&corpus).files();
    let queue = Mutex::new(
        files
            .into_iter()
            .filter(|file| file.contains(&wanted))
            .collect::<Vec<_>>(),
    );
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(file) = { queue.lock().unwrap().pop() } {
                    if let Err(words) = run_child(&file) {
                        failures.lock().unwrap().push(format!("{file}: {words}"));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} files failed:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Runs [`one_file_in_a_child`] in a new process. Returns the output of the process if it fails.
fn run_child(file: &str) -> Result<(), String> {
    let mut child = Command::new(std::env::current_exe().map_err(|error| error.to_string())?)
        .args(["one_file_in_a_child", "--exact", "--nocapture"])
        .env(FILE, file)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let stderr = child.stderr.take().ok_or("no standard error")?;
    let words = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if start.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("not done after {} s", LIMIT.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let words = words.join().unwrap_or_default();
    if status.success() {
        Ok(())
    } else {
        Err(format!("{status}\n{words}"))
    }
}

/// Reads the file that the environment names. Does nothing if the environment names none.
#[test]
fn one_file_in_a_child() {
    let (Some(corpus), Ok(file)) = (corpus(), std::env::var(FILE)) else {
        return;
    };
    let manifest = Manifest::read(&corpus);
    let path = corpus.join(&file);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let read = runtime.block_on(one_file::read_all(&path));
    let peak_kib = peak_kib();
    assert!(peak_kib < LIMIT_KIB, "took {} MiB", peak_kib >> 10);
    let error = match read {
        Ok(rows) => {
            let class = manifest.class(&file);
            assert!(
                !matches!(class, "corrupt" | "empty-file" | "encrypted"),
                "read as {} rows although it is {class}",
                rows.num_rows()
            );
            let found = runtime.block_on(one_file::complaints(&path, &rows, manifest.hashes(&file)));
            assert!(found.is_empty(), "{}", found.join("\n"));
            return;
        }
        Err(error) => grampus::error::message(&error),
    };
    check_refusal(manifest.class(&file), &file, &error);
}

/// Checks that this class of file may be refused, and that the error names the file and the place.
fn check_refusal(class: &str, file: &str, error: &str) {
    let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
    assert!(
        error.contains(name.as_ref()),
        "the error does not name the file: {error}"
    );
    match class {
        "valid-flat" | "valid-nested" => panic!("refused: {error}"),
        "corrupt" => assert!(
            error.contains("at byte ") && error.contains('('),
            "the error names no place: {error}"
        ),
        "empty-file" => assert!(error.contains("ORC file"), "{error}"),
        _ => assert!(error.len() > name.len() + 20, "the error says too little: {error}"),
    }
    assert!(
        error.lines().count() <= 2,
        "the error is longer than two lines: {error}"
    );
}

/// The peak memory of this process.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn corpus() -> Option<PathBuf> {
    let manifest = grampus_test_support::data("orc/manifest.tsv")?;
    Some(manifest.parent()?.to_owned())
}

/// The known properties of the files.
struct Manifest {
    classes: HashMap<String, String>,
    hashes: Value,
}

impl Manifest {
    fn read(corpus: &Path) -> Self {
        let table = std::fs::read_to_string(corpus.join("manifest.tsv")).expect("manifest.tsv");
        let mut lines = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
        let header = lines.next().expect("a header line");
        let column = |name| {
            header
                .iter()
                .position(|&title| title == name)
                .expect("a column of the manifest")
        };
        let (file, class) = (column("file"), column("class"));
        let hashes = std::fs::read_to_string(corpus.join("column_hashes.json")).expect("column_hashes.json");
        Self {
            classes: lines
                .map(|cells| (cells[file].to_owned(), cells[class].to_owned()))
                .collect(),
            hashes: serde_json::from_str(&hashes).expect("JSON"),
        }
    }

    fn files(&self) -> Vec<String> {
        self.classes.keys().cloned().collect()
    }

    fn class(&self, file: &str) -> &str {
        self.classes.get(file).map_or("", String::as_str)
    }

    fn hashes(&self, file: &str) -> Option<&Value> {
        self.hashes.get(file)
    }
}
