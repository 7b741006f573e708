//! Other readers on the writer's files. pyarrow and pyorc (both on ORC C++) compare every value, read stripes and
//! columns alone, and seek by the row index under predicates. Without python3 and one of the two, the test reports that
//! it is skipped.

use std::path::Path;
use std::process::Command;

#[path = "../examples/write_samples.rs"]
#[allow(dead_code)] // its `main` is the example's
mod write_samples;

/// A Python with pyarrow or pyorc; GRAMPUS_PYTHON names one that is not on the path.
fn python() -> Option<String> {
    let python = std::env::var("GRAMPUS_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = "import importlib.util as u, sys; sys.exit(not any(map(u.find_spec, ('pyarrow', 'pyorc'))))";
    let found = Command::new(&python).args(["-c", script]).status();
    found.is_ok_and(|status| status.success()).then_some(python)
}

#[test]
fn pyarrow_and_pyorc_read_what_was_written() {
    let Some(python) = python() else {
        println!("ignored: no pyarrow and no pyorc");
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
