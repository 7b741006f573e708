//! Seeds of random cases: of the time, or those that the environment names.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The number in an environment variable.
pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The seeds of so many random cases, unless the environment says otherwise.
pub(crate) fn seeds(cases: u64) -> std::ops::Range<u64> {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let first = number("GRAMPUS_TEST_SEED").unwrap_or(u64::from(now.subsec_nanos()) << 20);
    first..first + number("GRAMPUS_TEST_CASES").unwrap_or(cases)
}

/// Random numbers of a seed, which is printed.
pub(crate) fn random(seed: u64) -> ChaCha8Rng {
    println!("seed {seed} (replay with GRAMPUS_TEST_SEED={seed})");
    ChaCha8Rng::seed_from_u64(seed)
}
