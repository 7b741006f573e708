#!/usr/bin/env python3
"""Kills the program at random moments, and fills disks, while it converts, writes results and spills.

    engine/cli/tests/kills.py target/debug/grampus [--rounds 25] [--seed 1] [--scenario NAME]

Afterwards an output is exactly the old or exactly the new one, and every file of it can be read. Nothing temporary is
left, except after SIGKILL, and then the next start removes it. Each scenario runs `rounds` times. Full disks need the
right to mount a small tmpfs (root, or `unshare -rm`); without it they are reported as skipped.
"""

import argparse
import collections
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
SETTING = "SET datafusion.execution.sort_spill_reservation_bytes = 1000000"
SORT = "SELECT value, repeat('x', 100) || value AS pad FROM generate_series(1, 60000) ORDER BY pad"
SPILL = ["-q", "-m", "5m", "-p", "1", "--format", "csv", "-c", SETTING, "-c", SORT]


class Failure(Exception):
    pass


def check(truth, text):
    if not truth:
        raise Failure(text)


def hashes(path):
    """The files of a folder, or a file, by name and content; None if nothing is there."""
    if path.is_dir():
        return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in path.iterdir()}
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def leftovers(*folders):
    return [path for folder in folders for path in folder.iterdir() if "grampus-" in path.name or ".tmp" in path.name]


class Bench:
    def __init__(self, program, folder, random_source):
        self.program = Path(program).resolve()
        self.folder = folder
        self.random = random_source
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.times = {}
        self.counts = collections.Counter()

    def start(self, arguments, limit=None, scratch=None):
        environment = dict(os.environ, TMPDIR=str(scratch or self.scratch), NO_COLOR="1")

        def bounded():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        return subprocess.Popen(
            [self.program, *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=bounded,
        )

    def run(self, arguments, **options):
        process = self.start(arguments, **options)
        out, error = process.communicate(timeout=600)
        return process.returncode, out, error.decode()

    def succeed(self, arguments):
        begun = time.monotonic()
        status, out, error = self.run(arguments)
        check(status == 0, f"{arguments}: status {status}: {error}")
        return out, time.monotonic() - begun

    def kill(self, arguments, typical):
        """Starts a run and ends it at a random moment. The signal, or None if the run was faster."""
        sent = self.random.choice(SIGNALS)
        process = self.start(arguments)
        # Half of the kills fall into the last fifth, where files are synced, verified and published.
        span = self.random.choice([(0.0, 1.05), (0.8, 1.05)])
        try:
            out, error = process.communicate(timeout=max(0.001, typical * self.random.uniform(*span)))
        except subprocess.TimeoutExpired:
            process.send_signal(sent)
            out, error = process.communicate(timeout=60)
        status = process.returncode
        self.counts[f"{sent.name} {'after the end' if status == 0 else 'during the run'}"] += 1
        if status == 0:
            return None
        expected = -9 if sent == signal.SIGKILL else 128 + sent
        # The time between start and installation of the handlers: the signal ends the program by itself.
        check(status in (expected, -sent), f"{sent.name} gave status {status}: {error.decode()}")
        return sent if status == expected else signal.SIGKILL

    def readable(self, place):
        files = [place] if place.suffix == ".orc" else sorted(place.iterdir())
        queries = [f"SELECT count(*), sum(trip_distance) FROM '{file}'" for file in files]
        self.succeed(["-q", "--format", "csv", *(word for query in queries for word in ("-c", query))])


def convert(bench, out):
    """Kills conversions over an output, which is the old or the new generation afterwards."""
    sources = ["old", "new"]
    generations = {}

    def arguments(source):
        inputs = [str(bench.folder / source)]
        if out.suffix == ".orc":
            inputs = [str(bench.folder / source / "trips_0000.orc")]
        return ["convert", *inputs, "--out", str(out), "--overwrite", "--verify", "--compression", "snappy", "-q"]

    for source in sources:
        _, bench.times[out] = bench.succeed(arguments(source))
        generations[source] = hashes(out)
    check(generations["old"] != generations["new"], "the generations differ")
    current = sources[-1]

    def one():
        nonlocal current
        before = generations[current]
        following = sources[1 - sources.index(current)]
        sent = bench.kill(arguments(following), bench.times[out])
        found = hashes(out)
        check(found in (before, generations[following]), f"after {sent}: neither generation: {found}")
        current = current if found == before else following
        bench.counts["old generation" if found == before else "new generation"] += 1
        if sent != signal.SIGKILL:
            check(not leftovers(bench.folder, bench.scratch), f"left after {sent}: {leftovers(bench.folder)}")
        elif leftovers(bench.folder):
            bench.counts["leftover of SIGKILL"] += 1
        bench.readable(out)
        # The next start removes what a killed one left, whatever it does afterwards.
        bench.run(["convert", "missing.csv", str(bench.folder / "old"), "--out", str(out), "--overwrite", "-q"])
        if leftovers(bench.folder):
            bench.succeed(arguments(current))
        check(not leftovers(bench.folder), f"left after the next start: {leftovers(bench.folder)}")

    return one


def spill(bench):
    _, bench.times["spill"] = bench.succeed(SPILL)

    def one():
        sent = bench.kill(SPILL, bench.times["spill"])
        if sent != signal.SIGKILL:
            check(not leftovers(bench.scratch), f"left after {sent}: {leftovers(bench.scratch)}")
        elif leftovers(bench.scratch):
            bench.counts["leftover of SIGKILL"] += 1
        bench.succeed(["-q", "-c", "SELECT 1"])
        check(not leftovers(bench.scratch), f"left after the next start: {leftovers(bench.scratch)}")

    return one


def output_file(bench):
    target = bench.folder / "result.csv"
    arguments = [*SPILL, "-o", str(target)]
    target.write_text("old\n")
    _, bench.times["output"] = bench.succeed(arguments)
    new = hashes(target)

    def one():
        target.write_text("old\n")
        old = hashes(target)
        sent = bench.kill(arguments, bench.times["output"])
        check(hashes(target) in (old, new), "the output is neither old nor new")
        if sent != signal.SIGKILL:
            check(not leftovers(bench.folder, bench.scratch), f"left after {sent}")
        bench.succeed(["-q", "--format", "csv", "-o", str(target), "-c", "SELECT 1"])
        check(not leftovers(bench.folder, bench.scratch), "left after the next start")

    return one


def file_size_limit(bench):
    """Writes that fail at a random size (RLIMIT_FSIZE)."""
    out = bench.folder / "limited"
    arguments = ["convert", str(bench.folder / "new"), "--out", str(out), "--overwrite", "-q"]
    bench.succeed(["convert", str(bench.folder / "old"), "--out", str(out), "-q"])
    old = hashes(out)

    def one():
        limit = bench.random.randrange(1, 300_000)
        status, _, error = bench.run(arguments, limit=limit)
        check(status == 1 and "file too large" in error, f"status {status}: {error}")
        check(hashes(out) == old, "the old generation changed")
        check(not leftovers(bench.folder), "left after an error")
        status, _, error = bench.run(SPILL, limit=limit)
        check(status == 1 and error.startswith("error: "), f"status {status}: {error}")
        check(not leftovers(bench.scratch), "left after an error")
        bench.counts["file too large"] += 2

    return one


def full_disk(bench):
    """Disks that become full at a random moment: small file systems in memory."""
    disk = bench.folder / "disk"
    disk.mkdir()
    probe = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True)
    if probe.returncode != 0:
        print("skipped: full_disk: no right to mount a tmpfs", flush=True)
        return None
    subprocess.run(["umount", disk], check=True)
    bench.succeed(["convert", str(bench.folder / "new"), "--out", str(bench.folder / "whole"), "-q"])
    whole_folder = hashes(bench.folder / "whole")
    whole_result = hashlib.sha256(bench.succeed(SPILL)[0]).hexdigest()

    def ended(ran, found, old, new):
        """A run that fits has its whole output. Any other run ends in an error and changes nothing."""
        status, _, error = ran
        if status == 0:
            check(found == new, "exit status 0, and the output is not whole")
            bench.counts["fitted, whole output"] += 1
        else:
            check(status == 1 and "no space left" in error, f"status {status}: {error}")
            check(found == old, "the old output changed")
            bench.counts["no space left"] += 1

    def one():
        size = bench.random.randrange(600, 3000)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", disk], check=True)
        try:
            out = disk / "out"
            bench.succeed(["taxi", "generate", "--rows", "1k", "--out", str(out), "-q"])
            old = hashes(out)
            arguments = ["convert", str(bench.folder / "new"), "--out", str(out), "--overwrite", "-q"]
            ended(bench.run(arguments), hashes(out), old, whole_folder)
            result = disk / "result.csv"
            result.write_text("old\n")
            old = hashes(result)
            ended(bench.run([*SPILL, "-o", str(result)]), hashes(result), old, whole_result)
            result.unlink()
            ran = bench.run(SPILL, scratch=disk)
            ended(ran, hashlib.sha256(ran[1]).hexdigest() if ran[0] == 0 else None, None, whole_result)
            check(not leftovers(disk, bench.scratch), f"left after an error: {leftovers(disk)}")
        finally:
            subprocess.run(["umount", disk], check=True)

    return one


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenario", action="append")
    options = parser.parse_args()
    scenarios = {
        "convert_folder": lambda bench: convert(bench, bench.folder / "out"),
        "convert_file": lambda bench: convert(bench, bench.folder / "one.orc"),
        "spill": spill,
        "output_file": output_file,
        "file_size_limit": file_size_limit,
        "full_disk": full_disk,
    }
    failed = 0
    for name in options.scenario or scenarios:
        folder = Path(tempfile.mkdtemp(prefix="kills-"))
        bench = Bench(options.program, folder, random.Random(f"{options.seed} {name}"))
        done = 0
        try:
            for seed, generation in ((1, "old"), (2, "new")):
                arguments = ["--rows", "30k", "--files", "3", "--seed", str(seed), "--out", generation, "-q"]
                bench.succeed(["taxi", "generate", *arguments])
            one = scenarios[name](bench)
            while one is not None and done < options.rounds:
                one()
                done += 1
        except Failure as failure:
            failed += 1
            print(f"FAILED: {name}, round {done} of seed {options.seed}: {failure}", flush=True)
        counts = ", ".join(f"{count} {what}" for what, count in sorted(bench.counts.items()))
        print(f"{name}: {done} rounds: {counts}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
