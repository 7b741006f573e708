//! Other readers on the writer's files. pyarrow and pyorc (both on ORC C++) compare every value, read stripes and
//! columns alone, and seek by the row index under predicates.

use std::path::Path;
use std::process::Command;

use grampus_test_support::{Resource, python};

#[path = "../examples/write_samples.rs"]
#[allow(dead_code)] // its `main` is the example's
mod write_samples;

#[test]
fn pyarrow_and_pyorc_read_what_was_written() {
    let Some(python) = python(&[Resource::Pyarrow, Resource::Pyorc]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_samples::write_all(folder.path()).expect("samples");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/check_writer.py");
    let output = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .output()
        .expect("a Python that starts");
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
