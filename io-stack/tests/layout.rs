//! Layouts of shared structs: Rust's and the headers' agree, and a unit with a mismatch does not compile.

mod common;

fn check(name: &str, asserts: &str) -> Option<bool> {
    let compiler = common::compiler()?;
    let folder = common::scratch(name);
    std::fs::write(folder.join("layout_asserts.h"), asserts).expect("writable");
    std::fs::write(
        folder.join("unit.cc"),
        "#include \"io_stack.h\"\n#include \"target.cuh\"\n#include \"layout_asserts.h\"\n",
    )
    .expect("writable");
    let unit = folder.join("unit.cc").to_string_lossy().into_owned();
    let out = common::compile(&compiler, &folder, &["-fsyntax-only", &unit]);
    if !out.status.success() {
        let complaint = String::from_utf8_lossy(&out.stderr);
        assert!(complaint.contains("static assertion failed"), "{complaint}");
    }
    Some(out.status.success())
}

#[test]
fn layouts_agree() {
    assert_ne!(
        check("layout-same", &grampus_io_stack::abi::static_asserts()),
        Some(false)
    );
}

#[test]
fn mismatch_fails_the_compile() {
    let asserts = grampus_io_stack::abi::static_asserts();
    for (right, wrong) in [
        (
            "GRAMPUS_OFFSETOF(grampus::SqEntry, cid) == 2",
            "GRAMPUS_OFFSETOF(grampus::SqEntry, cid) == 4",
        ),
        (
            "sizeof(grampus::QueueState) == 384",
            "sizeof(grampus::QueueState) == 380",
        ),
        (
            "sizeof(((grampus::Extent*)0)->first_byte) == 4",
            "sizeof(((grampus::Extent*)0)->first_byte) == 8",
        ),
        ("alignof(grampus::CqEntry) == 16", "alignof(grampus::CqEntry) == 4"),
    ] {
        assert!(asserts.contains(right), "{right}");
        assert_ne!(
            check("layout-other", &asserts.replace(right, wrong)),
            Some(true),
            "{wrong}"
        );
    }
}
