"""Blocks and the plot of io-stack/BENCHMARKS.md, from the `io` sections of result files. Standard library only."""

import re
import statistics
import textwrap

import svg
from figures import MISSING, range_of, table, verdict, with_unit
from io_targets import IO_TARGETS, PREFETCH, figures, ratio_of
from pages import run_bullets

# Characters of a reason in a table.
MAX_REASON_CHARS = 60
SECTIONS = (
    ("hits", "Cache hits"), ("mapped", "Mapped file"), ("empty", "Empty commands"), ("one-queue", "One queue"),
    ("cached", "Page cache"), ("several", "Several storages"), ("pushed", "Pushed"), ("disk", "Disk"),
    ("compile", "Compilation"),
)


def value_text(figure):
    if figure.get("error"):
        return f"failed: {figure['error']}"
    low = svg.number(figure["value"])
    text = low if figure.get("high") is None else f"{low}–{svg.number(figure['high'])}"
    return f"{text} {figure['unit']}"


def setup(results):
    run, _ = results.first("io")
    return "\n".join(run_bullets(results, run, "io-stack")) if run else "No figures."


def range_text(pair, unit):
    low, high = (with_unit(value, unit) for value in pair)
    return low if low == high else f"{low.split(' ')[0]}–{high}"


def targets(results):
    _, report = results.first("io")
    own = figures(report) if report else {}
    rows = []
    for target in IO_TARGETS:
        seen = [figures(run.section("io")).get(target.key) for run in results.runs if run.section("io")]
        seen = [pair for pair in seen if pair]
        if not seen:
            continue
        met = sum(target.is_met(*pair) for pair in seen)
        ends = [value for pair in seen for value in pair]
        decisive = [pair[1] if target.takes_best else pair[0] for pair in seen]
        low, high = (with_unit(value, target.unit).split(" ")[0] for value in (min(ends), max(ends)))
        over = f"{with_unit(statistics.median(decisive), target.unit)} ({low}–{high}, {len(seen)})"
        mine = range_text(own[target.key], target.unit) if target.key in own else MISSING
        is_met = target.is_met(*own[target.key]) if target.key in own else None
        bound = f"≥ {with_unit(target.bound, target.unit)}"
        rows.append([target.text, bound, mine, over, verdict(is_met, met, len(seen))])
    return table(["target", "bound", "this run", "all runs: median (range, runs)", "met, of all"], rows)


def figure_table(results):
    _, report = results.first("io")
    if report is None:
        return "No figures."
    rows = []
    for section, title in SECTIONS:
        for figure in report["figures"]:
            if figure["section"] != section:
                continue
            plain = figure.get("plain")
            ratio = ratio_of(figure)
            rows.append([title, figure["name"], value_text(figure),
                         MISSING if plain is None else f"{svg.number(plain)} {figure['unit']}",
                         MISSING if ratio is None else with_unit(ratio, "%" if ratio < 2 else "×")])
            title = ""
    return table(["section", "figure", "value", "plain kernel or baseline", "ratio"], rows)


def prefetch(results):
    _, report = results.first("io")
    cells, shapes = {}, []
    for figure in report["figures"] if report else []:
        found = re.match(PREFETCH + r"(.*), (\d+) warps, (\d+) lines? a step", figure["name"])
        if found and not figure.get("error"):
            shape = f"{found[2]} warps × {found[3]}"
            cells[found[1], shape] = f"{figure['value']:.2f} ×" + short_note(figure.get("note", ""))
            shapes += [shape] if shape not in shapes else []
    storages = list(dict.fromkeys(storage for storage, _ in cells))
    rows = [[storage, *(cells.get((storage, shape), MISSING) for shape in shapes)] for storage in storages]
    return table(["warps × lines a step", *shapes], rows) if rows else "No figures."


def short_note(note):
    """The I/O time a step, from a note such as `I/O 35 µs, 41 served; …`: the smaller one."""
    found = re.match(r"I/O (\d+) µs(?:, (\d+) served)?", note)
    return f" ({min(int(part) for part in found.groups() if part)})" if found else ""


def short_reason(text):
    """Time and first clause of a reason, without paths and positions. The result file has the whole text."""
    text = re.sub(r"/\S+: |no error: ", "", text)
    text = re.sub(r" \([^()]*\)", "", text)
    time, colon, clause = text.partition(" s: ")
    text = time + colon + clause.split(": ")[0] if colon else text.split(": ")[0]
    return textwrap.shorten(text, MAX_REASON_CHARS, placeholder=" …")


def faults(results):
    _, report = results.first("io")
    rows = [[figure["name"], short_reason(figure.get("error") or figure.get("note") or "as expected")]
            for figure in (report["figures"] if report else []) if figure["section"] == "faults"]
    return table(["fault", "ended"], rows) if rows else "No figures."


def plot_targets(results):
    """Each target's figure as a multiple of its bound, with the range over runs."""
    _, report = results.first("io")
    own = figures(report) if report else {}
    groups = []
    for target in IO_TARGETS:
        if target.key not in own:
            continue
        seen = [figures(run.section("io")).get(target.key) for run in results.runs if run.section("io")]
        ends = [value / target.bound for pair in seen if pair for value in pair]
        middle = own[target.key][1 if target.takes_best else 0] / target.bound
        groups.append((target.short, [(middle, min(ends), max(ends))]))
    return svg.bars("Figures ÷ targets, with the range over runs", "×", ["this run"], groups, True, 1)


PLOTS = {"io-targets": plot_targets}

BLOCKS = {
    "io setup": setup,
    "io targets": targets,
    "io plot": lambda results: "![Deciding figures over their targets: this run, and the range over runs]"
               "(../queries/results/plots/io-targets.svg)",
    "io figures": figure_table,
    "io prefetch": prefetch,
    "io faults": faults,
}
