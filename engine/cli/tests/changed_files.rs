//! The program over a file that is truncated, replaced, rewritten or extended while queries run.
//!
//! Each run prints the answer of one version of the file, or fails with an error that names the file. The short form
//! runs with the other tests. The long form takes minutes:
//!
//!     GRAMPUS_TEST_CASES=300 cargo test --release -p grampus-cli --test changed_files -- --nocapture

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Settings and a query. All read many columns, so that a change meets them in different places.
///
/// Each version has one answer: sums of whole numbers below 2^53 are exact in any order. Partitions, kernels and the
/// CPU's plan after a fallback add in different orders.
const RUNS: [(&str, &str); 6] = [
    (
        "",
        "SELECT count(*), sum(floor(trip_distance)), sum(floor(total_amount)) FROM t WHERE trip_distance >= 2",
    ),
    (
        "SET grampus.local_io = 'read'",
        "SELECT count(*), sum(floor(trip_distance)) FROM t WHERE total_amount >= 10",
    ),
    (
        "",
        "SELECT passenger_count, sum(floor(total_amount)) FROM t GROUP BY passenger_count ORDER BY 1",
    ),
    (
        "",
        "SELECT trip_distance, total_amount FROM t ORDER BY total_amount DESC, trip_distance LIMIT 50",
    ),
    (
        "SET grampus.device = 'prefer'; SET grampus.gpu_target = 'host'; SET grampus.gpu_backing = 'mapped'",
        "SELECT count(*), sum(floor(total_amount)) FROM t WHERE trip_distance >= 2",
    ),
    (
        "SET grampus.device = 'prefer'; SET grampus.gpu_target = 'host'; SET grampus.gpu_backing = 'queued'",
        "SELECT count(*), sum(floor(total_amount)) FROM t WHERE trip_distance >= 2",
    ),
];

fn grampus(arguments: &[&str]) -> Command {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command.args(arguments);
    command
}

fn output(mut command: Command) -> Output {
    command.output().unwrap()
}

/// A linear congruential generator, Knuth's constants.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// The bytes of a generated file.
fn generated(folder: &Path, seed: &str) -> Vec<u8> {
    let out = folder.join(seed);
    let rows = [
        "taxi", "generate", "--rows", "400k", "--files", "1", "--quiet", "--seed", seed, "--out",
    ];
    let made = output(grampus(&[&rows[..], &[out.to_str().unwrap()]].concat()));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut files = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let file = files
        .find(|path| path.extension().is_some_and(|extension| extension == "orc"))
        .unwrap();
    fs::read(file).unwrap()
}

/// One change of the file, and its name.
fn change(path: &Path, versions: &[Vec<u8>], random: &mut Random) -> &'static str {
    let version = &versions[random.below(versions.len() as u64) as usize];
    let open = || File::options().write(true).open(path).unwrap();
    match random.below(5) {
        0 => {
            open().set_len(random.below(version.len() as u64)).unwrap();
            "truncated"
        }
        1 => {
            fs::write(path.with_extension("new"), version).unwrap();
            fs::rename(path.with_extension("new"), path).unwrap();
            "replaced"
        }
        2 => {
            fs::write(path, version).unwrap();
            "rewritten"
        }
        3 => {
            let file = open();
            for (at, bytes) in version.chunks(1 << 20).enumerate() {
                file.write_all_at(bytes, (at as u64) << 20).unwrap();
            }
            file.set_len(version.len() as u64).unwrap();
            "rewritten in place"
        }
        _ => {
            let end = fs::metadata(path).unwrap().len();
            open().write_all_at(b"appended", end).unwrap();
            "appended to"
        }
    }
}

#[test]
fn file_that_changes_under_the_program_gives_one_version_or_an_error() {
    let cases = std::env::var("GRAMPUS_TEST_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok());
    let rounds: usize = cases.unwrap_or(2);
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("trips.orc");
    let kernels = folder.path().join("cache");
    let versions = [generated(folder.path(), "1"), generated(folder.path(), "2")];
    let run = |settings: &str, sql: &str| {
        let table = format!("t={}", path.display());
        let cache = format!("SET grampus.cache_folder = '{}'", kernels.display());
        let mut command = grampus(&["--table", &table, "--format", "csv", "-c", &cache]);
        for statement in settings.split("; ").filter(|statement| !statement.is_empty()) {
            command.args(["-c", statement]);
        }
        command.args(["-c", sql]);
        command
    };
    let mut random = Random(2_026);
    let (mut answers, mut errors) = (0, std::collections::BTreeMap::<String, usize>::new());
    for (settings, sql) in RUNS {
        let (mut expected, mut longest) = (Vec::new(), Duration::ZERO);
        for version in &versions {
            fs::write(&path, version).unwrap();
            let began = Instant::now();
            let whole = output(run(settings, sql));
            assert!(whole.status.success(), "{}", String::from_utf8_lossy(&whole.stderr));
            longest = began.elapsed();
            expected.push(whole.stdout);
        }
        assert_ne!(expected[0], expected[1]);
        for _ in 0..rounds {
            fs::write(&path, &versions[0]).unwrap();
            std::thread::sleep(Duration::from_millis(25)); // file times have steps
            let mut command = run(settings, sql);
            command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            let child = command.spawn().unwrap();
            std::thread::sleep(longest.mul_f64(random.below(1000) as f64 / 1000.0));
            let changed = change(&path, &versions, &mut random);
            let ended = child.wait_with_output().unwrap();
            let words = String::from_utf8_lossy(&ended.stderr);
            match ended.status.code() {
                Some(0) => {
                    assert!(
                        expected.contains(&ended.stdout),
                        "{changed}, {settings}, {sql}: {} is not one of {}; {words}",
                        String::from_utf8_lossy(&ended.stdout),
                        expected
                            .iter()
                            .map(|answer| String::from_utf8_lossy(answer))
                            .collect::<String>()
                    );
                    answers += 1;
                }
                Some(_) => {
                    assert!(words.contains("trips.orc"), "{changed}, {sql}: {words}");
                    assert!(!words.contains("panicked"), "{changed}, {sql}: {words}");
                    *errors.entry(changed.to_owned()).or_default() += 1;
                }
                None => panic!("{changed}, {sql}: {}", ended.status),
            }
        }
    }
    println!("{answers} answers, errors: {errors:?}");
}
