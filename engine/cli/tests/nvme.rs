//! `grampus nvme` on imitated machines: the list, refusals, questions, and a change that fails.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use grampus_test_support::fake_machine::{FakeMachine, device};
use insta::assert_snapshot;
use rexpect::session::spawn_command;
use rustix::process::{Pid, Signal, kill_process};

const ADDRESS: &str = "0000:01:00.0";

fn command(machine: &FakeMachine, arguments: &[&str]) -> Command {
    let mut command = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"));
    command.arg("nvme").args(arguments).arg("--root").arg(machine.root());
    command.env("NO_COLOR", "1");
    command
}

/// Exit status, standard output and standard error. The machine's folder is replaced by `ROOT`.
fn run(machine: &FakeMachine, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = command(machine, arguments).stdin(Stdio::null()).output().unwrap();
    let root = machine.root().to_str().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap().replace(root, "ROOT");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Standard output of a run that must succeed and print nothing on standard error.
fn printed(machine: &FakeMachine, arguments: &[&str]) -> String {
    let (status, output, errors) = run(machine, arguments);
    assert_eq!((errors, status), (String::new(), Some(0)));
    output
}

/// Standard error of a run that must fail with `status`.
fn failed(machine: &FakeMachine, status: i32, arguments: &[&str]) -> String {
    let (found, output, errors) = run(machine, arguments);
    assert_eq!((output, found), (String::new(), Some(status)), "{errors}");
    errors
}

/// An idle controller of the kernel.
fn idle() -> FakeMachine {
    let machine = FakeMachine::new();
    machine.controller(ADDRESS, "nvme0", "15");
    machine.namespace(ADDRESS, "nvme0", "nvme0n1", "259:0");
    machine.partition("nvme0n1", "nvme0n1p1", "259:1");
    machine
}

fn written(machine: &FakeMachine) -> [String; 3] {
    let folder = device(ADDRESS);
    [
        machine.text(&format!("{folder}/driver_override")),
        machine.text("sys/bus/pci/drivers/nvme/unbind"),
        machine.text("sys/bus/pci/drivers_probe"),
    ]
}

#[test]
fn list_shows_controllers_and_obstacles() {
    let machine = idle();
    machine.mount("259:1", "/dev/nvme0n1p1", "/data");
    machine.vfio_controller("0000:02:00.0", "16");
    assert_snapshot!(printed(&machine, &["list"]), @r"
    +--------------+-------+-----------------+--------+----------+----------+-------+--------+
    | address      | name  | model           | serial | size     | driver   | group | usable |
    +--------------+-------+-----------------+--------+----------+----------+-------+--------+
    | 0000:01:00.0 | nvme0 | Example SSD 1TB | S1     | 1.00 GiB | nvme     | 15    | no     |
    | 0000:02:00.0 | -     | -               | -      | -        | vfio-pci | 16    | yes    |
    +--------------+-------+-----------------+--------+----------+----------+-------+--------+

    0000:01:00.0
      nvme0n1p1 is mounted at /data: unmount it first
      bound to nvme: grampus nvme bind 0000:01:00.0
    ");
}

#[test]
fn list_as_json_is_one_object() {
    let json: serde_json::Value = serde_json::from_str(&printed(&idle(), &["list", "--json"])).unwrap();
    let controller = &json["controllers"][0];
    assert_eq!(controller["serial"], "S1");
    assert_eq!(controller["namespaces"][0]["size_bytes"], 1 << 30);
    assert_eq!(controller["usable"], false);
    assert_eq!(controller["obstacles"][0]["kind"], "bound");
    let empty: serde_json::Value = serde_json::from_str(&printed(&FakeMachine::new(), &["list", "--json"])).unwrap();
    assert_eq!(empty["controllers"].as_array().map(Vec::len), Some(0));
}

#[test]
fn list_without_controllers_says_where_it_looked() {
    let machine = FakeMachine::new();
    assert_eq!(
        printed(&machine, &["list"]),
        "no NVMe controller found: ROOT/sys/bus/pci/devices lists no PCI devices, as in many containers and \
         virtual machines\n"
    );
    machine.function("0000:00:02.0", "0x020000", "1");
    assert_eq!(
        printed(&machine, &["list"]),
        "no NVMe controller found: ROOT/sys/bus/pci/devices lists 1 PCI device, none of that class\n"
    );
}

#[test]
fn list_of_this_machine_succeeds() {
    let output = grampus_test_support::program(env!("CARGO_BIN_EXE_grampus"))
        .args(["nvme", "list"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn bind_in_use_is_refused_with_all_obstacles() {
    let machine = idle();
    machine.mount("259:1", "/dev/nvme0n1p1", "/data");
    machine.swap("/dev/nvme0n1");
    let before = written(&machine);
    assert_snapshot!(failed(&machine, 1, &["bind", ADDRESS, "--yes"]), @r"
    error: 0000:01:00.0 keeps its driver:
      nvme0n1 is swap space in use: swapoff /dev/nvme0n1 first
      nvme0n1p1 is mounted at /data: unmount it first
    ");
    assert_eq!(written(&machine), before);
}

#[test]
fn change_without_terminal_needs_yes() {
    let machine = idle();
    let before = written(&machine);
    assert_snapshot!(failed(&machine, 2, &["bind", ADDRESS]), @r"
    error: nvme bind asks first, and standard input is no terminal
    hint: --yes answers yes
    ");
    assert_snapshot!(failed(&machine, 2, &["unbind", ADDRESS]), @r"
    error: nvme unbind asks first, and standard input is no terminal
    hint: --yes answers yes
    ");
    assert_eq!(written(&machine), before);
}

#[test]
fn change_to_the_present_driver_is_none() {
    let machine = idle();
    machine.vfio_controller("0000:02:00.0", "16");
    assert_eq!(
        printed(&machine, &["bind", "0000:02:00.0", "--yes"]),
        "0000:02:00.0 is bound to vfio-pci already\n"
    );
    assert_eq!(
        printed(&machine, &["unbind", "01:00.0", "-y"]),
        "0000:01:00.0 is bound to nvme already\n"
    );
}

#[test]
fn wrong_addresses_are_errors() {
    let machine = idle();
    machine.function("0000:00:02.0", "0x020000", "1");
    assert!(failed(&machine, 2, &["bind", "nvme0"]).contains("'nvme0' is no PCI address"));
    assert_snapshot!(failed(&machine, 1, &["bind", "-y", "0000:09:00.0"]), @r"
    error: there is no PCI device 0000:09:00.0 in ROOT/sys/bus/pci/devices
    hint: grampus nvme list prints the controllers
    ");
    assert_snapshot!(failed(&machine, 1, &["bind", "-y", "0000:00:02.0"]), @r"
    error: 0000:00:02.0 is no NVMe controller: its class is 0x020000, not 0x010802
    hint: grampus nvme list prints the controllers
    ");
}

/// The files of an imitated machine do not act on writes. So vfio-pci does not take the controller.
#[test]
fn change_that_fails_is_reversed() {
    let machine = idle();
    assert_eq!(
        failed(&machine, 1, &["bind", ADDRESS, "--yes"]),
        "error: 0000:01:00.0 has its old driver again: vfio-pci did not take it; the kernel's log (dmesg) says why\n"
    );
    // A plain file keeps the bytes of the longer text behind the line break that clears the attribute.
    assert_eq!(written(&machine)[0], "\nfio-pci");
}

#[test]
fn question_names_the_disk_and_no_changes_nothing() {
    let machine = idle();
    let before = written(&machine);
    for answer in ["n", "", "perhaps"] {
        let mut terminal = spawn_command(command(&machine, &["bind", ADDRESS]), Some(60_000)).unwrap();
        let question = terminal.exp_string("Continue? [y/N]").unwrap();
        assert!(
            question.contains("(nvme0, Example SSD 1TB, S1) changes from nvme to vfio-pci"),
            "{question}"
        );
        assert!(question.contains("Its disk nvme0n1 vanishes"), "{question}");
        terminal.send_line(answer).unwrap();
        terminal.exp_string("nothing was changed").unwrap();
        terminal.exp_eof().unwrap();
        assert_eq!(written(&machine), before);
    }
}

#[test]
fn question_answered_with_yes_writes() {
    let machine = idle();
    let mut terminal = spawn_command(command(&machine, &["bind", ADDRESS]), Some(60_000)).unwrap();
    terminal.exp_string("Continue? [y/N]").unwrap();
    terminal.send_line("y").unwrap();
    terminal.exp_eof().unwrap();
    assert!(written(&machine)[1].starts_with(ADDRESS));
}

/// The write to a named pipe waits for a reader, as the kernel's `unbind` waits for the controller.
#[test]
fn signals_do_not_end_a_change_half_way() {
    let machine = idle();
    let unbind = "sys/bus/pci/drivers/nvme/unbind";
    machine.remove(unbind);
    assert!(
        Command::new("mkfifo")
            .arg(machine.path(unbind))
            .status()
            .unwrap()
            .success()
    );
    let mut child = command(&machine, &["bind", ADDRESS, "--yes"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while machine.text(&format!("{}/driver_override", device(ADDRESS))).trim_end() != "vfio-pci" {
        assert!(child.try_wait().unwrap().is_none(), "the command ended early");
        sleep(Duration::from_millis(5));
    }
    for _ in 0..3 {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        sleep(Duration::from_millis(50));
    }
    let pipe = File::options()
        .read(true)
        .write(true)
        .open(machine.path(unbind))
        .unwrap();
    let output = child.wait_with_output().unwrap();
    drop(pipe);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("has its old driver again"),
        "{output:?}"
    );
}
