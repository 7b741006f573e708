"""Blocks and plots of queries/RESULTS.md, from result files. Standard library only.

Each function of `BLOCKS` gets the `Results` and returns a block's Markdown. Each of `PLOTS` returns SVG text, or None
without figures.
"""

import os
import re
import textwrap

import svg
import targets
from figures import MISSING, comparable, duckdb_ratios, ms, range_of, table, target_figures, times, verdict, with_unit
from svg import ratio

QUERIES = ("q0_30", "q5_30", "q5_20")
WAYS = (
    targets.CPU, targets.MAPPED, targets.FIRST_GPU, targets.FIRST_CHOSEN, targets.RESIDENT, targets.PAGES,
    targets.FIRST_QUEUED, targets.TENTH_QUEUED, targets.TENTH_AUTO,
)
GENERATED = "generated"
MAX_COMMITS = 10  # of the plot by commit: more labels would overlap


def bullet(text):
    return textwrap.fill(text, 116, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)


def link(results, run, page_folder):
    """A link to a run's file from a page of the folder `page_folder` of the repository."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(results.folder)))
    path = os.path.relpath(os.path.join(results.folder, f"{run.name}.json"), os.path.join(root, page_folder))
    return f"[JSON]({path})"


def machine_text(machine):
    names = [machine.get("link"), machine.get("driver") and f"driver {machine['driver']}"]
    names += [machine.get("cuda") and f"CUDA {machine['cuda']}"]
    gpu = f"{machine['gpu']} ({', '.join(name for name in names if name)}), " if machine.get("gpu") else ""
    shared = ", a shared virtual machine" if machine.get("shared") else ""
    return f"{gpu}{machine.get('cores', '?')} cores ({machine.get('cpu', '?')}), {machine.get('memory', '?')}{shared}"


def run_bullets(results, run, page_folder):
    info = run.data["run"]
    lines = [bullet(f"Machine: {machine_text(info['machine'])}.")]
    source = "; figures transcribed from an earlier page" if info.get("transcribed_from") else ""
    lines.append(bullet(f"Commit `{info['commit']}`, release profile, {info['date']}; "
                        f"{link(results, run, page_folder)}{source}."))
    lines += [bullet(f"Command: `{command}`") for command in info["commands"]]
    if info["checks"]:
        lines.append(bullet(f"Checked: {'; '.join(info['checks'])}."))
    return lines


def setup(results, page_folder="queries"):
    first = results.chosen[0]
    lines = run_bullets(results, first, page_folder)
    others = []
    for text, run in (("DuckDB", duckdb(results)[0]), ("CPU scan, uncompressed", on_demand(results, "uncompressed")[0]),
                      ("CPU scan, snappy", on_demand(results, "snappy")[0])):
        if run is not None and run is not first:
            others.append(f"{text}: {link(results, run, page_folder)}")
    if others:
        lines.append(bullet(f"Figures that this run lacks are of other runs. {'; '.join(others)}."))
    return "\n".join(lines)


def duckdb(results):
    return results.first("duckdb", lambda part: part.get("data") == GENERATED)


def headline(results):
    _, part = duckdb(results)
    if part is None:
        return "No figures."
    ratios = duckdb_ratios(part)
    rows = []
    for query, one in part["queries"].items():
        cpu, gpu = one.get("cpu", {}), one.get("gpu", {})
        rows.append([query, ms(one.get("duckdb_ms")), ms(cpu.get("median_ms")), ms(gpu.get("median_ms")),
                     times(ratios[query]["gpu"]), times(ratios[query]["cpu"]), ms(gpu.get("first_ms"))])
    name = f"{part['rows'] / 1e6:,.0f} M rows" if part.get("rows") else "query"
    return table([name, "DuckDB table", "CPU", "GPU, resident", "DuckDB ÷ GPU", "DuckDB ÷ CPU", "GPU, first run"], rows)


def ways(results):
    _, part = results.first("queries")
    if part is None:
        return "No figures."
    of = targets.lookup(part["lines"], "unaligned")
    rows = []
    for way in WAYS:
        row = [way, *(ms(of(way, query, "ms")) for query in QUERIES)]
        row += [ms(of(way, query, "kernel")) for query in QUERIES]
        for query in QUERIES[1:]:
            amplification = of(way, query, "amplification")
            row.append(MISSING if amplification is None else f"{amplification:.3f}")
        if any(cell != MISSING for cell in row[1:]):
            rows.append(row)
    cold = [ms(of(targets.FIRST_GPU, query, "ms", "cold")) for query in QUERIES]
    if any(cell != MISSING for cell in cold):
        kernels = [ms(of(targets.FIRST_GPU, query, "kernel", "cold")) for query in QUERIES]
        rows.append(["page cache cold, 50 M rows", *cold, *kernels, MISSING, MISSING])
    header = ["way", *QUERIES, *(f"kernel {query}" for query in QUERIES), *(f"ampl. {query}" for query in QUERIES[1:])]
    return table(header, rows)


def target_rows(results):
    run, _ = results.first("queries")
    if run is None:
        return []
    own = target_figures(run)
    rows = []
    for target in targets.TARGETS:
        values = [value for other in comparable(results.runs)
                  for value in target_figures(other).get(target.key, {}).values()]
        if not values and target.key not in own:
            continue
        mine = own.get(target.key, {})
        shown = [with_unit(mine[name], target.unit) for name in targets.TABLES if name in mine]
        if len(shown) == 2 and shown[0].split(" ")[1:] == shown[1].split(" ")[1:]:
            shown[0] = shown[0].split(" ")[0]
        met = sum(target.is_met(value) for value in values)
        bound = f"{'≤' if target.is_upper else '≥'} {with_unit(target.bound, target.unit)}"
        is_met = all(map(target.is_met, mine.values())) if mine else None
        rows.append([target.text, bound, "; ".join(shown) or MISSING, range_of(values, target.unit),
                     verdict(is_met, met, len(values))])
    return rows


def target_table(results):
    header = ["target", "bound", "this run", "all runs: median (range, values)", "met, of all"]
    return table(header, target_rows(results))


def on_demand(results, name):
    """(run, report) of the CPU's benchmark over the table `name`; of several reports in one run, the largest."""
    run, _ = results.first("on_demand", lambda part: any(one["table"] == name for one in part["measurements"]))
    if run is None:
        return None, None
    parts = [part for part in run.section("on_demand") if any(one["table"] == name for one in part["measurements"])]
    return run, max(parts, key=lambda part: part.get("rows") or 0)


def cpu(results):
    rows = []
    for name, queries in (("uncompressed", QUERIES), ("snappy", ("q5_30",))):
        _, part = on_demand(results, name)
        for one in part["measurements"] if part else []:
            if one["table"] != name or one["query"] not in queries:
                continue
            whole, plain = one.get("whole_column_s"), one.get("plain_loop_s")
            share = targets.ratio(plain, one["on_demand_s"])
            kept = one.get("again_s")
            rows.append([f"{name}, {part['rows'] / 1e6:,.0f} M rows", str(one["threads"]), one["query"],
                         ms(one["on_demand_s"] * 1e3), ms(kept and kept * 1e3), ms(whole and whole * 1e3),
                         times(targets.ratio(whole, one["on_demand_s"])),
                         MISSING if share is None else f"{share:.0%}".replace("%", " %"),
                         f"{one['amplification']:.3f}"])
    header = ["table", "threads", "query", "on demand", "kept plan", "whole columns", "faster", "plain loop's speed",
              "ampl."]
    return table(header, rows) if rows else "No figures."


def aims_of(part):
    """{(what, threads): aim} of a report. An aim's text ends in its number of threads; of t1 to t4 the least counts."""
    found = {}
    for aim in part.get("aims") or part.get("targets") or []:
        what, _, threads = aim["what"].rpartition(", ")
        for long, short in ((", times faster than whole columns", ", speed-up"), (">=", "≥"),
                            (", share of the plain loop's speed", " of the plain loop"), (", times Q0's time", " ÷ Q0"),
                            ("uncompressed: ", "")):
            what = what.replace(long, short)
        key = re.sub(r"\bt[1-4]\b", "least of t1–t4", what), threads.split(" ")[0]
        if key not in found or aim["measured"] < found[key]["measured"]:
            found[key] = aim
    return found


def is_reached(aim):
    return aim["measured"] >= aim["aim"] if aim["at_least"] else aim["measured"] <= aim["aim"]


def cpu_targets(results):
    rows = []
    chosen = {id(part): part for name in ("uncompressed", "snappy") for part in [on_demand(results, name)[1]] if part}
    counts = sorted({threads for part in chosen.values() for _, threads in aims_of(part)}, key=int)
    for part in chosen.values():
        own = aims_of(part)
        others = [aims_of(report) for run in results.runs for report in run.section("on_demand") or []
                  if report.get("rows") == part.get("rows")]
        for what in dict.fromkeys(what for what, _ in own):
            mine = {threads: aim for (name, threads), aim in own.items() if name == what}
            seen = {threads: [aims[what, threads] for aims in others if (what, threads) in aims]
                    for threads in counts}
            aim = next(iter(mine.values()))
            row = [what, f"{'≥' if aim['at_least'] else '≤'} {aim['aim']:g}"]
            for threads, aims in seen.items():
                row.append(ratio(mine[threads]["measured"]) if threads in mine else MISSING)
                row.append(range_of([aim["measured"] for aim in aims], ""))
            every = [aim for aims in seen.values() for aim in aims]
            rows.append([*row, verdict(all(map(is_reached, mine.values())), sum(map(is_reached, every)), len(every))])
    columns = [cell for threads in counts for cell in (f"{threads} thread{'s'[threads == '1':]}", "all runs")]
    header = ["target", "bound", *columns, "met, of all"]
    return table(header, rows) if rows else "No figures."


def plot_ways(results):
    _, part = results.first("queries")
    if part is None:
        return None
    of = targets.lookup(part["lines"], "unaligned")
    groups = [(way, [of(way, query, "ms") for query in QUERIES]) for way in WAYS]
    groups = [group for group in groups if any(value is not None for value in group[1])]
    return svg.bars("Time per query and way, SQL text to last row", "ms", QUERIES, groups, is_log=True)


def plot_amplification(results):
    _, part = results.first("queries")
    if part is None:
        return None
    of = targets.lookup(part["lines"], "unaligned")
    queries = ("q5_30", "q5_20")
    groups = [(way, [of(way, query, "amplification") for query in queries]) for way in WAYS]
    groups = [group for group in groups if any(value is not None for value in group[1])]
    series = ["30 miles (0.03 % of rows)", "20 miles (0.46 % of rows)"]
    return svg.bars("I/O amplification of q5: moved ÷ needed bytes", "×", series, groups, mark=1)


def plot_duckdb(results):
    _, part = duckdb(results)
    if part is None:
        return None
    own = duckdb_ratios(part)
    groups = []
    for query in own:
        values = []
        for device in ("gpu", "cpu"):
            seen = [duckdb_ratios(other).get(query, {}).get(device) for run in results.runs
                    for other in run.section("duckdb") or []
                    if other.get("data") == GENERATED and other.get("rows") == part.get("rows")]
            seen = [value for value in seen if value is not None]
            values.append((own[query][device], min(seen), max(seen)) if own[query][device] else None)
        groups.append((query, values))
    return svg.bars("DuckDB's time ÷ ours, with the range over runs", "×", ["GPU, resident", "CPU"], groups, True, 1)


def plot_history(results):
    runs = [run for run in results.runs if run.section("queries")]
    labels = list(dict.fromkeys(run.commit for run in runs))[-MAX_COMMITS:]
    runs = [run for run in runs if run.commit in labels]
    charts = []
    by_key = {target.key: target for target in targets.TARGETS}
    for key in ("mapped_q5_30", "mapped_q5_20", "first_q5_gpu", "pages_q5"):
        points = [(labels.index(run.commit), [target_figures(run).get(key, {}).get(name) for name in targets.TABLES])
                  for run in runs]
        charts.append((by_key[key].text, by_key[key].bound, points))
    return svg.panels("Headline ratios by commit", targets.TABLES, labels, charts)


def with_plots(block, *plots):
    """A block, and plots below it: (name, text)."""
    shown = "\n".join(f"![{text}](results/plots/{name}.svg)" for name, text in plots)
    return lambda results: f"{block(results)}\n\n{shown}"


PLOTS = {"ways": plot_ways, "amplification": plot_amplification, "duckdb": plot_duckdb, "history": plot_history}

BLOCKS = {
    "setup": setup,
    "headline": with_plots(headline, ("duckdb", "DuckDB's time over ours, t1 to x3, with the range over runs")),
    "targets": with_plots(target_table, ("history", "Four headline ratios by commit, a point for each run and table")),
    "ways": with_plots(ways, ("ways", "Time per query and way"), ("amplification", "I/O amplification of q5 per way")),
    "cpu": lambda results: f"{cpu(results)}\n\n{cpu_targets(results)}",
}
