#!/usr/bin/env python3
"""Result files of queries/results as tables and plots, and two of them compared. Standard library only.

    report.py render [--check]
        Writes the blocks of queries/RESULTS.md and io-stack/BENCHMARKS.md, and the plots. --check only compares, and
        fails if a page or a plot is out of date.
    report.py compare A B [--changed]
        Per query: no change, slower or faster. A is the older run. A and B are paths, or parts of names in
        queries/results. --changed leaves out figures without a change.
    report.py collect FILE… [--into DIR] [--checks FILE] [--command TEXT] [--here [--commit C] [--machine NAME]]
        One result file from result files and the files of measure.py, compare_duckdb.py, on_demand and bench io; prints
        its path. --here: this machine is the one that was measured, for files that do not say so.

A block of a page stands between `<!-- begin: NAME (queries/bench/report.py) -->` and `<!-- end: NAME -->`.
queries/results/current.json names the runs that pages show. Exit status 1: out of date, or a file that cannot be used.
"""

import argparse
import difflib
import os
import re
import sys

import comparison
import io_page
import pages
import results
import run_info

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
FOLDER = os.path.join(ROOT, "queries", "results")
PAGES = {
    os.path.join(ROOT, "queries", "RESULTS.md"): pages.BLOCKS,
    os.path.join(ROOT, "io-stack", "BENCHMARKS.md"): io_page.BLOCKS,
}
PLOTS = {**pages.PLOTS, **io_page.PLOTS}
BLOCK = re.compile(r"(<!-- begin: ([^(\n]*?) \(queries/bench/report\.py\) -->\n)(.*?)(<!-- end: (.*?) -->)", re.DOTALL)


def fill(text, blocks, found, path="page"):
    """A page's text with each block written anew."""
    if text.count("<!-- begin: ") != len(BLOCK.findall(text)):
        raise results.ResultError(f"{path}: a marker 'begin' has no 'end'")

    def block(match):
        begin, name, _, end, ended = match.groups()
        if name != ended or name not in blocks:
            raise results.ResultError(f"{path}: no block is named '{name}', or another one ends it ('{ended}')")
        return f"{begin}{blocks[name](found).strip()}\n{end}"

    return BLOCK.sub(block, text)


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def rendered(found):
    """{path: text} of all pages and plots."""
    files = {}
    for path, blocks in PAGES.items():
        text = read(path)
        if text is None:
            raise results.ResultError(f"{path}: no such page")
        files[path] = fill(text, blocks, found, os.path.relpath(path, ROOT))
    for name, plot in PLOTS.items():
        text = plot(found)
        if text is not None:
            files[os.path.join(FOLDER, "plots", f"{name}.svg")] = text
    return files


def render(arguments):
    found = results.Results(FOLDER)
    stale = 0
    for path, text in rendered(found).items():
        before = read(path)
        if before == text:
            continue
        stale += 1
        shown = os.path.relpath(path, ROOT)
        if arguments.check:
            print(f"{shown} is out of date: run queries/bench/report.py render", file=sys.stderr)
            lines = difflib.unified_diff((before or "").splitlines(), text.splitlines(), "now", "rendered", lineterm="")
            print("\n".join(list(lines)[:20]), file=sys.stderr)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
            print(f"wrote {shown}")
    return 1 if arguments.check and stale else 0


def compare(arguments):
    before, after = (results.find(FOLDER, name) for name in (arguments.before, arguments.after))
    print(comparison.text(before, after, not arguments.changed))
    return 0


def collect(arguments):
    given = " ".join(["report.py collect", *arguments.files])
    checks = []
    if arguments.checks:
        checks = [line for line in (read(arguments.checks) or "").splitlines() if line]
    block = None
    if arguments.here:
        block = run_info.run_info(arguments, {}, arguments.command or given, [])
    merged = results.merge(arguments.files, block)
    merged["run"]["checks"] += checks
    if arguments.command and arguments.command not in merged["run"]["commands"]:
        merged["run"]["commands"] = [arguments.command]
    path = os.path.join(arguments.into, results.file_name(merged))
    results.write_json(path, merged)
    print(path)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("render")
    one.add_argument("--check", action="store_true")
    one.set_defaults(function=render)
    one = commands.add_parser("compare")
    one.add_argument("before")
    one.add_argument("after")
    one.add_argument("--changed", action="store_true")
    one.set_defaults(function=compare)
    one = commands.add_parser("collect")
    one.add_argument("files", nargs="+")
    one.add_argument("--into", default=FOLDER)
    one.add_argument("--checks", metavar="FILE", help="lines that say what was checked")
    one.add_argument("--command", help="the command of the whole run")
    one.add_argument("--here", action="store_true", help="files without machine and commit are of this machine")
    run_info.add_arguments(one)
    one.set_defaults(function=collect)
    arguments = parser.parse_args()
    try:
        return arguments.function(arguments)
    except results.ResultError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
