#!/usr/bin/env python3
"""The tests on a GPU: runs them, and records which commit ran last and with what result. Standard library only.

    gpu_tests.py collect FOLDER    copies the test programs that use a GPU, as cargo has built them, into FOLDER, with
                                   the stand-in for nvCOMP, which they load from there
    gpu_tests.py run FOLDER        runs each program of FOLDER on the GPU, checks their counts, writes the record
    gpu_tests.py age               prints the record's age in commits and days

A GPU is in no CI. A developer runs `collect` on the machine that builds, copies FOLDER and the tree to a machine with
a GPU, runs `run` there, and commits the record, gpu_tests.json beside this file. `.ci/run` prints its age.

The programs look for files of the tree at the paths of the machine that built them. `run` takes the commit from git,
or from --commit where git is missing. It fails, after it has written the record, if

- a program fails, passes no test, does not end in time, or finds no GPU;
- a program of the last record is missing or passes fewer tests than there, unless --fewer.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import run_info

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, "gpu_tests.json")
# Test programs by package. Others use no GPU.
PROGRAMS = {
    "grampus": ["gpu", "nvme"],
    "grampus-gpu-exec": [
        "block_groups", "chunk_pages", "coded_queries", "column_layouts", "decode", "decoded_pages", "decompress",
        "expressions", "fault_injection", "hot_queries", "kernels", "modules", "paging", "runtime", "side_by_side",
        "warps_together",
    ],
}
# What kernels are made of: a change of these is not tested before it has run on a GPU.
DEVICE_CODE = ["gpu-exec/device", "gpu-exec/src/codegen", "io-stack/device"]
COUNTS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)


def read_record(path=RECORD):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None


def name_of(path):
    """A program's name, without the hash that cargo adds."""
    return re.sub(r"-[0-9a-f]{16}$", "", os.path.basename(path))


# ------------------------------------------------------------------------------------------------ collect


# A library that test programs load from their own folder.
STAND_IN = "libgrampus_host_nvcomp.so"


def executables(messages):
    """(package, target, path) of each test program, by the messages of `cargo test --no-run`."""
    for line in messages.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("reason") == "compiler-artifact" and "test" in message["target"]["kind"]:
            # Folders have other names than their packages: `path+file:///tree/engine#grampus@0.1.0`.
            package = message["package_id"].rsplit("#", 1)[-1].split("@")[0]
            if message.get("executable"):
                yield package, message["target"]["name"], message["executable"]


def collect(folder):
    os.makedirs(folder, exist_ok=True)
    command = ["cargo", "test", "--workspace", "--no-run", "--message-format=json"]
    for targets in PROGRAMS.values():
        for target in targets:
            command += ["--test", target]
    built = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=os.path.join(HERE, "..", ".."))
    wanted = {(package, target) for package, targets in PROGRAMS.items() for target in targets}
    for package, target, path in executables(built.stdout):
        if (package, target) in wanted:
            wanted.remove((package, target))
            shutil.copy2(path, os.path.join(folder, f"{package}.{target}"))
            stand_in = os.path.join(os.path.dirname(path), STAND_IN)
            if os.path.exists(stand_in):
                shutil.copy2(stand_in, os.path.join(folder, STAND_IN))
    if wanted:
        sys.exit(f"cargo built no {', '.join('.'.join(one) for one in sorted(wanted))}")


# ---------------------------------------------------------------------------------------------------- run


def run_program(path, seconds, threads):
    """What a test program did on the GPU."""
    with tempfile.NamedTemporaryFile("r", prefix="gpu-tests-") as skipped:
        required = {"GRAMPUS_TEST_CUDA": "1", "GRAMPUS_REQUIRE": "GPU", "GRAMPUS_SKIPPED": skipped.name}
        began = time.monotonic()
        try:
            done = subprocess.run(
                [path, f"--test-threads={threads}"], env={**os.environ, **required}, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=seconds, check=False,
            )
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            status, output = "timeout", error.stdout or b""
        left_out = skipped.read().splitlines()
    output = output.decode(errors="replace")
    counts = [sum(map(int, column)) for column in zip(*COUNTS.findall(output))] or [0, 0, 0]
    result = dict(zip(("passed", "failed", "ignored"), counts))
    result.update(left_out=len(left_out), seconds=round(time.monotonic() - began, 1), status=status)
    return result, output


def findings(programs, last, fewer):
    """What is wrong with a run. `last`: the programs of the record before."""
    found = []
    for name, result in programs.items():
        if result["status"] != 0:
            found.append(f"{name}: status {result['status']}, {result['failed']} failed")
        elif result["passed"] == 0:
            found.append(f"{name}: no test has passed")
    for name, before in {} if fewer else last.items():
        passed = programs.get(name, {}).get("passed")
        if passed is None:
            found.append(f"{name}: was run last time, and is missing")
        # Of runs before this file was there, the numbers of tests are not known.
        elif (before.get("passed") or 0) > passed:
            found.append(f"{name}: {passed} tests passed, {before['passed']} last time")
    return found


def run(arguments):
    paths = [os.path.join(arguments.folder, name) for name in sorted(os.listdir(arguments.folder))]
    paths = [os.path.abspath(path) for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)]
    paths = [path for path in paths if not path.endswith(".so")]
    names = [name_of(path) for path in paths]
    twice = {name for name in names if names.count(name) > 1}
    if not paths or twice:
        sys.exit(f"{arguments.folder} has {'two programs ' + ', '.join(sorted(twice)) if twice else 'no programs'}")
    commit = run_info.commit(arguments.commit)[0]
    if commit == "unknown":
        sys.exit("git names no commit: give --commit")
    gpu = run_info.gpu()
    if not gpu and not arguments.without_gpu:
        sys.exit("nvidia-smi names no GPU")
    programs = {}
    for name, path in zip(names, paths):
        programs[name], output = run_program(path, arguments.seconds, arguments.threads)
        print(f"{name}: {programs[name]}", flush=True)
        if programs[name]["status"] != 0:
            print(output)
    found = findings(programs, ((read_record(arguments.record) or {}).get("programs")) or {}, arguments.fewer)
    record = {
        "commit": commit,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "gpu": gpu.get("gpu", "none"),
        "driver": gpu.get("driver"),
        "cuda": gpu.get("cuda"),
        "result": "failed" if found else "passed",
        "findings": found,
        "programs": programs,
    }
    with open(arguments.record, "w", encoding="utf-8") as file:
        json.dump(record, file, indent=2)
        file.write("\n")
    for finding in found:
        print(finding)
    print(f"{record['result']}: {sum(p['passed'] for p in programs.values())} tests of {len(programs)} programs")
    return 1 if found else 0


# ---------------------------------------------------------------------------------------------------- age


def age(record, today, commits, changed):
    """The record's age in words. `commits` since then, and of them `changed` that change device code, or None."""
    if record is None or not record.get("commit"):
        return "GPU tests: no run is recorded"
    days = (today - datetime.date.fromisoformat(record["date"])).days
    programs = record["programs"]
    passed = [result.get("passed") for result in programs.values()]
    tests = f"{sum(passed)} tests of " if passed and None not in passed else ""
    what = f"GPU tests: {record['result']} at {record['commit']}, {tests}{len(programs)} programs, {record['gpu']}"
    since = "an unknown number of commits" if commits is None else f"{commits} commits"
    device = "" if not changed else f", {changed} of them changed device code: to be run again"
    return f"{what}, driver {record['driver']}; {days} days and {since} ago{device}"


def commits_since(commit, *paths):
    """Commits of HEAD that `commit` lacks; None where git does not know it, as in a shallow clone."""
    found = run_info.output_of("git", "rev-list", "--count", f"{commit.removesuffix('-dirty')}..HEAD", "--", *paths)
    return int(found) if found else None


def print_age(path):
    record = read_record(path)
    commit = (record or {}).get("commit")
    top = os.path.join(HERE, "..", "..")
    code = [os.path.relpath(os.path.join(top, folder), HERE) for folder in DEVICE_CODE]
    commits, changed = (commits_since(commit), commits_since(commit, *code)) if commit else (None, None)
    print(age(record, datetime.datetime.now(datetime.timezone.utc).date(), commits, changed))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", default=RECORD, help="the record's file")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("collect").add_argument("folder")
    on_gpu = commands.add_parser("run")
    on_gpu.add_argument("folder")
    on_gpu.add_argument("--commit", help="of which the programs were built; default: git's HEAD")
    on_gpu.add_argument("--seconds", type=int, default=600, help="for each program")
    on_gpu.add_argument("--threads", type=int, default=1, help="tests of a program at once")
    on_gpu.add_argument("--fewer", action="store_true", help="programs or tests may be fewer than last time")
    on_gpu.add_argument("--without-gpu", action="store_true", help="to try this script")
    commands.add_parser("age")
    arguments = parser.parse_args()
    if arguments.command == "collect":
        collect(arguments.folder)
    elif arguments.command == "run":
        return run(arguments)
    else:
        print_age(arguments.record)
    return 0


if __name__ == "__main__":
    sys.exit(main())
