//! `grampus nvme load`, `files`, `remove` and `verify` on images of namespaces, and what they say about controllers
//! that cannot be opened.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use grampus_test_support::fake_machine::FakeMachine;
use insta::assert_snapshot;
use rexpect::session::spawn_command;

/// A folder with an empty image of a namespace, and two files.
struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Self { folder };
        File::create(fixture.path("disk.img"))
            .unwrap()
            .set_len(8 << 20)
            .unwrap();
        let bytes: Vec<u8> = (0..1_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
        fs::write(fixture.path("a.orc"), &bytes).unwrap();
        fs::write(fixture.path("b.orc"), &bytes[..5000]).unwrap();
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
        command.current_dir(self.folder.path()).arg("nvme").args(arguments);
        command.args(["--device", "./disk.img"]).env("NO_COLOR", "1");
        command
    }

    /// Exit status, standard output and standard error.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(arguments).stdin(Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Standard output and standard error of a run that must succeed.
    fn done(&self, arguments: &[&str]) -> (String, String) {
        let (status, output, errors) = self.run(arguments);
        assert_eq!(status, Some(0), "{errors}");
        (output, errors)
    }

    /// Standard error of a run that must fail with `status`.
    fn failed(&self, status: i32, arguments: &[&str]) -> String {
        let (found, _, errors) = self.run(arguments);
        assert_eq!(found, Some(status), "{errors}");
        errors
    }

    /// Changes a byte of the image.
    fn damage(&self, at: u64) {
        let image = File::options()
            .read(true)
            .write(true)
            .open(self.path("disk.img"))
            .unwrap();
        let mut byte = [0];
        image.read_exact_at(&mut byte, at).unwrap();
        image.write_all_at(&[byte[0] ^ 0x80], at).unwrap();
    }

    fn image(&self) -> Vec<u8> {
        fs::read(self.path("disk.img")).unwrap()
    }
}

#[test]
fn files_are_loaded_listed_verified_and_removed() {
    let fixture = Fixture::new();
    let (_, notes) = fixture.done(&["load", "a.orc", "b.orc", "--yes"]);
    assert!(
        notes.starts_with("a.orc: 977 KiB in ") && notes.contains("verified, at LBA 40\n"),
        "{notes}"
    );
    assert!(notes.contains("b.orc: 4.88 KiB in "), "{notes}");
    // The directory is there: nothing is asked.
    fixture.done(&["load", "b.orc", "--as", "year=2019/b.orc"]);
    let (listed, _) = fixture.done(&["files"]);
    assert_snapshot!(listed, @r"
    +-----------------+-----------+-----------+------------------+
    | name            |     bytes | first LBA | checksum         |
    +-----------------+-----------+-----------+------------------+
    | a.orc           | 1,000,000 |        40 | 4c78bd287e1a3f15 |
    | b.orc           |     5,000 |     2,008 | a886dd58d87f02a8 |
    | year=2019/b.orc |     5,000 |     2,032 | a886dd58d87f02a8 |
    +-----------------+-----------+-----------+------------------+
    3 files, 6.98 MiB of 7.96 MiB free
    ");
    let json: serde_json::Value = serde_json::from_str(&fixture.done(&["files", "--json"]).0).unwrap();
    assert_eq!(json["files"][2]["name"], "year=2019/b.orc");
    assert_eq!(json["files"][0]["first_lba"], 40);
    assert_eq!(json["drive"], "./disk.img, namespace 1");
    let stored = fs::read(fixture.path("a.orc")).unwrap();
    assert!(fixture.image()[20_480..20_480 + stored.len()] == stored);
    assert_snapshot!(fixture.done(&["verify"]).0, @r"
    a.orc: 977 KiB as loaded
    b.orc: 4.88 KiB as loaded
    year=2019/b.orc: 4.88 KiB as loaded
    ");
    assert_eq!(
        fixture.done(&["remove", "b.orc", "a.orc", "--yes"]).1,
        "b.orc: removed\na.orc: removed\n"
    );
    assert!(fixture.done(&["files"]).0.contains("1 file, 7.95 MiB of 7.96 MiB free"));
}

#[test]
fn verification_names_file_and_lba_and_fails() {
    let fixture = Fixture::new();
    fixture.done(&["load", "a.orc", "b.orc", "--yes"]);
    fixture.damage(20_480 + 300_000);
    let (status, output, errors) = fixture.run(&["verify"]);
    assert_eq!(status, Some(1));
    assert_snapshot!(output, @r"
    a.orc: LBA 624 to 631 (byte 299008 of the file) differ from what was loaded
    b.orc: 4.88 KiB as loaded
    ");
    assert_snapshot!(errors, @r"
    error: 1 of 2 files damaged
    hint: remove and load them again
    ");
    fixture.done(&["verify", "b.orc"]);
    fixture.damage(4096 + 700);
    let (status, _, errors) = fixture.run(&["verify", "b.orc"]);
    assert_eq!(status, Some(1));
    assert_snapshot!(errors, @r"
    warning: ./disk.img, namespace 1: copy 0 of the directory, at LBA 8: its checksum is wrong
    error: the files are whole, and one of two copies is damaged
    hint: the next load or removal repairs it
    ");
}

#[test]
fn changes_that_lose_data_ask_or_need_yes() {
    let fixture = Fixture::new();
    let before = fixture.image();
    assert_snapshot!(fixture.failed(2, &["load", "a.orc"]), @r"
    ./disk.img, namespace 1 (8.00 MiB) gets a new directory of files.
    It holds no signature that is known, and zeros at both ends. All its data is lost.
    error: nvme load asks first, and standard input is no terminal
    hint: --yes answers yes
    ");
    assert!(fixture.image() == before);
    let mut terminal = spawn_command(fixture.command(&["load", "a.orc"]), Some(60_000)).unwrap();
    terminal.exp_string("Continue? [y/N]").unwrap();
    terminal.send_line("n").unwrap();
    terminal.exp_string("nothing was changed").unwrap();
    terminal.exp_eof().unwrap();
    assert!(fixture.image() == before);
    let mut terminal = spawn_command(fixture.command(&["load", "a.orc"]), Some(60_000)).unwrap();
    terminal.exp_string("Continue? [y/N]").unwrap();
    terminal.send_line("y").unwrap();
    terminal.exp_string("verified, at LBA 40").unwrap();
    terminal.exp_eof().unwrap();
    assert_snapshot!(fixture.failed(2, &["remove", "a.orc"]), @r"
    1 file of ./disk.img, namespace 1 will be gone: a.orc.
    error: nvme remove asks first, and standard input is no terminal
    hint: --yes answers yes
    ");
    assert!(
        fixture
            .failed(2, &["load", "b.orc", "--erase"])
            .contains("It holds data: a directory of 1 file.")
    );
    fixture.done(&["load", "b.orc", "--erase", "--yes"]);
    assert!(fixture.done(&["files"]).0.contains("1 file, "));
}

#[test]
fn namespace_with_other_data_is_refused_without_erase() {
    let fixture = Fixture::new();
    let image = File::options().write(true).open(fixture.path("disk.img")).unwrap();
    image.write_all_at(b"EFI PART", 512).unwrap();
    let before = fixture.image();
    assert_snapshot!(fixture.failed(1, &["load", "a.orc", "--yes"]), @r"
    error: ./disk.img, namespace 1 is not empty: LBA 1 has a partition table (GPT)
    hint: --erase erases it
    ");
    assert_snapshot!(fixture.failed(1, &["files"]), @r"
    error: ./disk.img, namespace 1 has no directory of files: LBA 1 has a partition table (GPT)
    hint: grampus nvme load makes one
    ");
    assert!(fixture.image() == before);
    fixture.done(&["load", "a.orc", "--yes", "--erase"]);
    fixture.done(&["verify"]);
}

#[test]
fn wrong_files_and_names_are_errors() {
    let fixture = Fixture::new();
    fixture.done(&["load", "a.orc", "--yes"]);
    fs::write(fixture.path("empty"), "").unwrap();
    fs::write(fixture.path("short.img"), "x").unwrap();
    File::create(fixture.path("large")).unwrap().set_len(9 << 20).unwrap();
    assert_snapshot!(fixture.failed(1, &["load", "a.orc"]), @r"
    error: ./disk.img, namespace 1 has a file a.orc already
    hint: grampus nvme remove it first, or load it --as another name
    ");
    assert!(
        fixture
            .failed(1, &["load", "none.orc"])
            .starts_with("error: cannot open none.orc: ")
    );
    assert!(
        fixture
            .failed(1, &["load", "."])
            .starts_with("error: . is no regular file")
    );
    assert!(
        fixture
            .failed(1, &["load", "empty"])
            .contains("belongs to an empty file")
    );
    assert!(
        fixture
            .failed(1, &["load", "large"])
            .contains("has no room for large: 9449472 bytes in one run")
    );
    assert!(
        fixture
            .failed(1, &["load", "b.orc", "--as", "/b"])
            .contains("the file name '/b' has an empty part")
    );
    assert!(
        fixture
            .failed(2, &["load", "a.orc", "b.orc", "--as", "c"])
            .contains("--as names one file, and 2 are given")
    );
    assert!(
        fixture
            .failed(1, &["remove", "none", "--yes"])
            .contains("has no file none")
    );
    assert!(fixture.failed(1, &["verify", "none"]).contains("has no file none"));
    assert!(
        fixture
            .failed(1, &["files", "--namespace", "2"])
            .contains("namespace 2: there is none; the controller has 1")
    );
    let other = |device: &str| {
        let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
        command
            .current_dir(fixture.folder.path())
            .args(["nvme", "files", "--device", device]);
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    assert!(other("short.img").contains("short.img is no image of a namespace"));
    assert_eq!(fs::read(fixture.path("short.img")).unwrap(), b"x");
    assert!(other("./none.img").starts_with("error: cannot open ./none.img: "));
    assert!(other("nvme0").contains("'nvme0' is no PCI address"));
}

/// Controllers of an imitated machine. None can be opened; each error says what to do.
#[test]
fn controllers_that_cannot_be_opened_say_what_to_do() {
    let machine = FakeMachine::new();
    machine.controller("0000:01:00.0", "nvme0", "15");
    machine.namespace("0000:01:00.0", "nvme0", "nvme0n1", "259:0");
    let fixture = Fixture::new();
    let a = fixture.path("a.orc");
    let failed = |root: &Path, arguments: &[&str]| {
        let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
        command.arg("nvme").args(arguments).arg("--root").arg(root);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr)
            .unwrap()
            .replace(root.to_str().unwrap(), "ROOT")
    };
    let a = a.to_str().unwrap();
    assert_snapshot!(failed(machine.root(), &["load", a, "--yes", "--device", "0000:01:00.0"]), @r"
    error: 0000:01:00.0 (nvme0, Example SSD 1TB, S1) cannot be opened:
      bound to nvme: grampus nvme bind 0000:01:00.0
    ");
    assert_snapshot!(failed(machine.root(), &["files", "--device", "02:00.0"]), @r"
    error: there is no NVMe controller 0000:02:00.0: this machine has 0000:01:00.0
    hint: grampus nvme list prints the controllers
    ");
    assert_snapshot!(failed(FakeMachine::new().root(), &["verify", "--device", "0000:01:00.0"]), @r"
    error: there is no NVMe controller 0000:01:00.0: this machine shows none
    hint: grampus nvme list prints the controllers
    ");
    // A query says the same about the machine itself.
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command.args(["--no-rc", "-c", "SELECT count(*) FROM 'nvme://ffff:ff:1f.7/a.orc'"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("nvme://ffff:ff:1f.7: there is no NVMe controller ffff:ff:1f.7"),
        "{errors}"
    );
}
