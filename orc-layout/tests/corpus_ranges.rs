//! Planned byte ranges against the decoder's reads, for any rows of any column of any real file. Nothing is read
//! outside the plan, and the values are those of a full read.

mod common;

use common::plan_check::{Plans, check_plans};
use common::{Random, corpus, manifest};

#[test]
fn decoder_reads_stay_inside_the_plan() {
    let Some(corpus) = corpus() else { return };
    let mut random = Random(11);
    let mut found = Plans::default();
    for row in manifest(&corpus) {
        let valid = row["class"].starts_with("valid") || row["class"].starts_with("future");
        if !valid || row["class"].contains("pyarrow cannot") {
            continue;
        }
        let bytes = std::fs::read(corpus.join(&row["file"])).unwrap();
        check_plans(&row["file"], bytes.into(), &mut random, &mut found);
    }
    println!("{found:?}");
    assert!(found.plans > 500 && found.seekable_columns > 100 && found.dictionaries > 100);
}
