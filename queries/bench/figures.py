"""Figures as pages show them: text of times and ratios, medians and ranges over runs. Standard library only."""

import statistics

import targets
import svg
from svg import number

MISSING = "–"


def ms(value):
    return MISSING if value is None else f"{number(value)} ms"


def times(value):
    return MISSING if value is None else f"{svg.ratio(value)} ×"


def with_unit(value, unit):
    """A target's figure: shares as percent; ratios, with "×" or without a unit, have three decimals near one."""
    if value is None:
        return MISSING
    if unit == "%":
        return f"{value * 100:.3g} %"
    text = svg.ratio(value) if unit in ("×", "") else number(value)
    return f"{text} {unit}".rstrip()


def table(header, rows):
    """A Markdown table; columns without any figure are left out."""
    used = [at for at in range(len(header)) if at == 0 or any(row[at] not in ("", MISSING) for row in rows)]
    lines = [[header[at] for at in used], ["---"] * len(used), *([row[at] for at in used] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def range_of(values, unit):
    """Median, range and number of values, such as `1.013 × (1.006–1.025, 8)`."""
    if not values:
        return MISSING
    middle = with_unit(statistics.median(values), unit)
    if len(values) == 1:
        return f"{middle} (1)"
    low, high = (with_unit(value, unit).split(" ")[0] for value in (min(values), max(values)))
    spread = low if low == high else f"{low}–{high}"
    return f"{middle} ({spread}, {len(values)})"


def verdict(is_met, met, count):
    """Of this run `met` or `**missed**`; with `5 of 8`, of all runs' figures, if they do not all agree."""
    if is_met is None:
        return f"{met} of {count}"
    word = "met" if is_met else "**missed**"
    return word if met == (count if is_met else 0) else f"{word}, {met} of {count}"


def target_figures(run):
    """{target's key: {table: figure}} of a run: what its file says, and what its lines give for the others."""
    section = run.section("queries")
    if section is None:
        return {}
    return {**targets.figures(section["lines"]), **section.get("targets", {})}


def comparable(runs):
    """Runs of q0 and q5 over the same data: older tables were others."""
    return [run for run in runs if run.section("queries") and run.section("queries").get("comparable", True)]


def duckdb_ratios(part):
    """{query: {device: DuckDB's time / ours}} of one comparison; a comparison's own `ratios` win."""
    found = {}
    for query, one in part["queries"].items():
        ratios = {}
        for device in ("cpu", "gpu"):
            ours = one.get(device, {}).get("median_ms")
            ratios[device] = one.get("ratios", {}).get(device) or targets.ratio(one.get("duckdb_ms"), ours)
        found[query] = ratios
    return found
