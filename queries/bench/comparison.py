"""Two runs compared figure by figure, with a bound for noise. Standard library only.

The bound of a figure is 5 %, or the spread of either run's repetitions where that is more: the distance between their
quartiles over their median. A ratio within the bound is no change.
"""

import statistics

FLOOR = 0.05


def spread(runs):
    """Distance between quartiles over the median; 0 for fewer than four repetitions."""
    if len(runs) < 4:
        return 0.0
    low, _, high = statistics.quantiles(runs, n=4, method="inclusive")
    middle = statistics.median(runs)
    return (high - low) / middle if middle else 0.0


def items(run):
    """{name: (figure, repetitions, whether less is better)} of all sections."""
    found = {}
    for line in (run.section("queries") or {}).get("lines", []):
        name = ", ".join(part for part in (line["table"], line["way"], line["query"]) if part)
        found[name] = (line["ms"], line.get("runs_ms") or [], True)
    for part in run.section("duckdb") or []:
        for query, one in part["queries"].items():
            for device in ("cpu", "gpu"):
                if device in one:
                    runs = one[device].get("runs_ms") or []
                    found[f"{part['data']}, {device}, {query}"] = (one[device]["median_ms"], runs, True)
    for part in run.section("on_demand") or []:
        for one in part["measurements"]:
            name = f"{one['table']}, {part['rows']} rows, {one['threads']} threads, {one['query']}"
            found[name] = (one["on_demand_s"], [], True)
    for figure in (run.section("io") or {}).get("figures", []):
        if not figure.get("error") and figure["unit"] in ("GB/s", "G/s", "M/s", "x", "×"):
            found[figure["name"]] = (figure["value"], [], False)
    return {name: item for name, item in found.items() if item[0]}


def verdict(before, after):
    """(words, bound) of two figures (value, repetitions, whether less is better)."""
    bound = max(FLOOR, spread(before[1]), spread(after[1]))
    factor = after[0] / before[0] if before[2] else before[0] / after[0]
    if factor > 1 + bound:
        return f"{factor:.2f}x slower", bound
    if 1 / factor > 1 + bound:
        return f"{1 / factor:.2f}x faster", bound
    return "no change", bound


def text(before, after, show_all=True):
    """The whole comparison, as lines."""
    old, new = items(before), items(after)
    both = [name for name in old if name in new]
    lines = [f"{before.name} -> {after.name}"]
    if any(run.data["run"].get("transcribed_from") for run in (before, after)):
        lines.append("A transcribed run does not identify its machine: ratios may include a difference of machines.")
    elif before.machine["name"] != after.machine["name"]:
        lines.append("Machines differ: ratios include the difference between them.")
    lines.append(f"Noise bound: {FLOOR:.0%}, or the quartiles' distance of a figure's repetitions where that is more.")
    counts = {"no change": 0, "slower": 0, "faster": 0}
    for name in both:
        words, bound = verdict(old[name], new[name])
        counts[words if words == "no change" else words.rsplit(" ", 1)[1]] += 1
        if show_all or words != "no change":
            lines.append(f"{name}: {words} (noise bound {bound:.0%})")
    lines.append(", ".join(f"{count} {name}" for name, count in counts.items()))
    missing = [name for name in [*old, *new] if (name in old) != (name in new)]
    if missing:
        lines.append(f"{len(missing)} figures are in one run only, such as {missing[0]}.")
    return "\n".join(lines)
