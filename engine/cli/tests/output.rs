//! Output of the program `grampus`: files appear complete or not at all, and nothing temporary stays.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    let command_in_folder = command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command_in_folder.env("NO_COLOR", "1").env("TMPDIR", folder.join("tmp"));
    command
}

fn grampus(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = grampus(folder, arguments);
    assert_eq!((text(&output.stderr), output.status.code()), (String::new(), Some(0)));
    text(&output.stdout)
}

fn fail(status: i32, folder: &Path, arguments: &[&str]) -> String {
    let output = grampus(folder, arguments);
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    text(&output.stderr)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A folder with a folder `tmp` for temporary files.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("tmp")).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |name: String| (name.clone(), std::fs::read(folder.join(name)).unwrap());
    names(folder).into_iter().map(read).collect()
}

#[test]
fn overwritten_folder_holds_the_new_generation_only() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("a.csv"), "id\n1\n").unwrap();
    std::fs::write(folder.join("b.csv"), "id\n2\n").unwrap();
    succeed(folder, &["convert", "a.csv", "b.csv", "--out", "out", "-q"]);
    assert_eq!(names(&folder.join("out")), ["a.orc", "b.orc"]);
    succeed(folder, &["convert", "b.csv", "--out", "out", "--overwrite", "-q"]);
    assert_eq!(names(&folder.join("out")), ["b.orc"]);
    let generate = ["taxi", "generate", "--rows", "20k", "--out", "out", "--overwrite", "-q"];
    succeed(folder, &[&generate[..], &["--files", "2"]].concat());
    assert_eq!(names(&folder.join("out")), ["trips_0000.orc", "trips_0001.orc"]);
    succeed(folder, &[&generate[..], &["--files", "1"]].concat());
    assert_eq!(names(&folder.join("out")), ["trips_0000.orc"]);
    assert_eq!(names(folder), ["a.csv", "b.csv", "out", "tmp"]);
}

#[test]
fn overwriting_deletes_no_file_that_grampus_did_not_write() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("a.csv"), "id\n1\n").unwrap();
    succeed(folder, &["convert", "a.csv", "--out", "out", "-q"]);
    std::fs::write(folder.join("out/notes.txt"), "mine").unwrap();
    let before = contents(&folder.join("out"));
    let error = fail(1, folder, &["convert", "a.csv", "--out", "out", "--overwrite", "-q"]);
    assert!(error.contains("out/notes.txt"), "{error}");
    assert_eq!(contents(&folder.join("out")), before);
    std::fs::write(folder.join("out/notes.orc"), "mine").unwrap();
    std::fs::remove_file(folder.join("out/notes.txt")).unwrap();
    let error = fail(1, folder, &["convert", "a.csv", "--out", "out", "--overwrite", "-q"]);
    assert!(error.contains("out/notes.orc"), "{error}");
    assert_eq!(names(&folder.join("out")), ["a.orc", "notes.orc"]);
}

#[test]
fn failed_conversion_keeps_the_old_generation() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("a.csv"), "id\n1\n").unwrap();
    std::fs::write(folder.join("b.csv"), "id\n2\n").unwrap();
    succeed(folder, &["convert", "a.csv", "b.csv", "--out", "out", "-q"]);
    let before = contents(&folder.join("out"));
    std::fs::write(folder.join("a.csv"), "id\n100\n").unwrap();
    std::fs::write(folder.join("b.csv"), [b"PAR1".as_slice(), &[0; 100]].concat()).unwrap();
    fail(
        1,
        folder,
        &["convert", "a.csv", "b.csv", "--out", "out", "--overwrite", "-q"],
    );
    assert_eq!(contents(&folder.join("out")), before);
    fail(1, folder, &["convert", "a.csv", "b.csv", "--out", "fresh", "-q"]);
    assert_eq!(names(folder), ["a.csv", "b.csv", "out", "tmp"]);
}

#[test]
fn output_file_of_a_failed_query_stays_as_it_was() {
    let folder = folder();
    let folder = folder.path();
    std::fs::write(folder.join("out.csv"), "old\n").unwrap();
    let select = "SELECT 1 AS a";
    fail(
        1,
        folder,
        &["--format", "csv", "-o", "out.csv", "-c", select, "-c", "SELECT nothing"],
    );
    assert_eq!(text(&std::fs::read(folder.join("out.csv")).unwrap()), "old\n");
    succeed(folder, &["--format", "csv", "-o", "out.csv", "-c", select]);
    assert_eq!(text(&std::fs::read(folder.join("out.csv")).unwrap()), "a\n1\n");
    assert_eq!(names(folder), ["out.csv", "tmp"]);
}

#[test]
fn files_of_other_formats_are_not_read_as_csv() {
    let folder = folder();
    let folder = folder.path();
    let files: [(&str, &[u8], &str); 12] = [
        ("a.json", b"{\"id\": 1, \"name\": \"x\"}\n{\"id\": 2}\n", "JSON"),
        ("b.json", b"[\n  {\"id\": 1}\n]\n", "JSON"),
        ("c.csv.gz", b"\x1f\x8b\x08\x00aaaaaaaaaaaa", "gzip"),
        ("d.zst", b"\x28\xb5\x2f\xfdaaaaaaa", "Zstandard"),
        ("e.xlsx", b"PK\x03\x04aaaaaaaa", "ZIP"),
        ("f.avro", b"Obj\x01aaaaaaaa", "Avro"),
        ("g.arrow", b"ARROW1aaaaaa", "Arrow"),
        ("h.xml", b"<?xml version=\"1.0\"?>\n<a/>\n", "XML"),
        ("i.csv", b"\xff\xfei\x00d\x00\n\x001\x00", "UTF-16"),
        ("j.bin", b"\x7fELF\x02\x01\x01\x00\x00", "binary"),
        ("k.csv", b"", "empty"),
        ("l.bz2", b"BZh91AY&SYaaaa", "bzip2"),
    ];
    for (name, content, what) in files {
        std::fs::write(folder.join(name), content).unwrap();
        let error = fail(1, folder, &["convert", name, "--out", "x.orc", "-q"]);
        assert!(error.contains(name) && error.contains(what), "{name}: {error}");
        assert!(!folder.join("x.orc").exists());
    }
    // Names in brackets, as SQL Server writes them, are no JSON.
    std::fs::write(folder.join("m.csv"), "[id],[name]\n1,x\n").unwrap();
    succeed(folder, &["convert", "m.csv", "--out", "m.orc", "-q"]);
}

#[test]
fn csv_tells_null_from_the_empty_text() {
    let folder = folder();
    let folder = folder.path();
    let rows = "SELECT * FROM (VALUES (1, 'x', ''), (2, '', NULL), (3, NULL, 'a\"\"b')) AS t(id, a, b)";
    let sql = format!("{rows} ORDER BY id");
    let written = "id,a,b\n1,x,\"\"\n2,\"\",\n3,,\"a\"\"\"\"b\"\n";
    assert_eq!(succeed(folder, &["--format", "csv", "-c", &sql]), written);
    assert_eq!(
        succeed(folder, &["--format", "tsv", "-c", &sql]),
        "id\ta\tb\n1\tx\t\"\"\n2\t\"\"\t\n3\t\t\"a\"\"\"\"b\"\n"
    );
    succeed(folder, &["--format", "csv", "-o", "t.csv", "-c", &sql]);
    succeed(folder, &["convert", "t.csv", "--out", "t.orc", "-q", "--verify"]);
    let back = "SELECT * FROM 't.orc' ORDER BY id";
    assert_eq!(succeed(folder, &["--format", "csv", "-c", back]), written);
    // A row of one NULL is an empty line.
    let one = "SELECT a FROM (VALUES (1, ''), (2, NULL), (3, 'x'), (4, NULL)) AS t(id, a) ORDER BY id";
    succeed(folder, &["--format", "csv", "-o", "one.csv", "-c", one]);
    assert_eq!(
        text(&std::fs::read(folder.join("one.csv")).unwrap()),
        "a\n\"\"\n\nx\n\n"
    );
    succeed(folder, &["convert", "one.csv", "--out", "one.orc", "-q", "--verify"]);
    let counts = "SELECT count(*) AS n, count(a) AS texts FROM 'one.orc'";
    assert_eq!(succeed(folder, &["--format", "csv", "-c", counts]), "n,texts\n4,2\n");
}

#[test]
fn headings_are_the_expressions_as_written() {
    let folder = folder();
    let t = "FROM (VALUES (4, 2, 2)) AS t(a, b, c)";
    let shown = |sql: &str| succeed(folder.path(), &["--format", "csv", "-c", sql]);
    assert_eq!(
        shown(&format!("SELECT avg((a - b) / c) {t}")),
        "avg((a - b) / c)\n1.0\n"
    );
    assert_eq!(
        shown(&format!("SELECT t.a, a * (b + c), count(*) AS n {t} GROUP BY a, b, c")),
        "a,a * (b + c),n\n4,16,1\n"
    );
    assert_eq!(
        shown(&format!("SELECT *, (a + b) * c {t}")),
        "a,b,c,(a + b) * c\n4,2,2,12\n"
    );
}

#[test]
fn json_keeps_columns_of_equal_names_apart() {
    let folder = folder();
    let sql = "SELECT * FROM (SELECT 1 AS id, 2 AS id_1) AS a \
               CROSS JOIN (SELECT 3 AS id) AS b CROSS JOIN (SELECT 4 AS id) AS c";
    assert_eq!(
        succeed(folder.path(), &["--format", "ndjson", "-c", sql]),
        "{\"id\":1,\"id_1\":2,\"id_2\":3,\"id_3\":4}\n"
    );
}

#[test]
fn full_disk_under_standard_output_is_an_error() {
    if !Path::new("/dev/full").exists() {
        return println!("ignored: no /dev/full");
    }
    let folder = folder();
    for sql in ["SELECT 1", "SELECT * FROM generate_series(1, 100000)"] {
        for format in ["table", "csv", "json"] {
            let mut command = command(folder.path(), &["--format", format, "-c", sql]);
            let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
            let output = command.stdout(full).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            assert_eq!(
                text(&output.stderr),
                "error: cannot write the result: no space left on device\n"
            );
        }
    }
    let error = fail(1, folder.path(), &["-o", "/dev/full", "-c", "SELECT 1"]);
    assert_eq!(error, "error: cannot write /dev/full: no space left on device\n");
}

#[test]
fn scripts_write_several_result_files() {
    let folder = folder();
    let folder = folder.path();
    let run = ["-q", "--format", "csv"];
    let first = [
        "-c",
        "\\o a.csv",
        "-c",
        "SELECT 1 AS x",
        "-c",
        "\\o b.csv",
        "-c",
        "SELECT 2 AS x",
    ];
    let printed = succeed(
        folder,
        &[&run[..], &first, &["-c", "\\o", "-c", "SELECT 3 AS x"]].concat(),
    );
    assert_eq!(printed, "x\n3\n");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!((read("a.csv").as_str(), read("b.csv").as_str()), ("x\n1\n", "x\n2\n"));
    // The file that is open when a statement fails stays as it was.
    std::fs::write(folder.join("a.csv"), "").unwrap();
    std::fs::write(folder.join("b.csv"), "older").unwrap();
    fail(1, folder, &[&run[..], &first, &["-c", "SELECT nonsense"]].concat());
    assert_eq!((read("a.csv").as_str(), read("b.csv").as_str()), ("x\n1\n", "older"));
    // The file at the end of a script, beside --output.
    succeed(
        folder,
        &[&run[..], &["-o", "c.csv", "-c", "SELECT 4 AS x"], &first].concat(),
    );
    assert_eq!((read("b.csv").as_str(), read("c.csv").as_str()), ("x\n2\n", "x\n4\n"));
    assert_eq!(names(folder), ["a.csv", "b.csv", "c.csv", "tmp"]);
}
