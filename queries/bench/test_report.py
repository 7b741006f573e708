"""Tests of report.py: `python3 -m unittest discover -s queries/bench`."""

import contextlib
import io
import json
import os
import tempfile
import unittest
from unittest import mock

import comparison
import figures
import io_targets
import pages
import report
import results
import svg
import targets

RUN = {
    "date": "2026-01-02",
    "commit": "abc1234",
    "committed": "2026-01-02T00:00:00Z",
    "machine": {"name": "h200-1", "cores": 16},
    "settings": {},
    "commands": ["all.sh"],
    "checks": [],
}


def line(query, ms, runs=(), way=targets.MAPPED, **more):
    return {"table": "unaligned", "way": way, "query": query, "ms": ms, "runs_ms": list(runs), **more}


def data(lines=(), **sections):
    return {"format": 1, "run": RUN, "queries": {"lines": list(lines)}, **sections}


class Folder(unittest.TestCase):
    """A folder of result files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, value):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(value if isinstance(value, str) else json.dumps(value))
        return path

    def run_of(self, *lines, **sections):
        return results.Run(self.write("run.json", data(lines, **sections)))

    def found(self, value):
        self.write("run.json", value)
        self.write(results.CURRENT, {"runs": ["run"]})
        return results.Results(self.folder)


class Compare(Folder):
    def verdicts(self, before, after):
        return comparison.text(self.run_of(*before), self.run_of(*after))

    def test_differences_above_the_floor_are_named(self):
        before = [line("q0_30", 100), line("q5_30", 100), line("q5_20", 100)]
        after = [line("q0_30", 110), line("q5_30", 80), line("q5_20", 104)]
        text = self.verdicts(before, after)
        self.assertIn("mapped, q0_30: 1.10x slower (noise bound 5%)", text)
        self.assertIn("mapped, q5_30: 1.25x faster (noise bound 5%)", text)
        self.assertIn("mapped, q5_20: no change", text)
        self.assertIn("1 no change, 1 slower, 1 faster", text)

    def test_spread_of_repetitions_widens_the_bound(self):
        noisy = line("q0_30", 100, [70, 80, 100, 120, 130])
        self.assertIn("no change (noise bound 40%)", self.verdicts([noisy], [line("q0_30", 125)]))

    def test_rates_are_better_when_higher(self):
        figure = {"section": "hits", "name": "hits", "value": 10.0, "unit": "GB/s", "plain": None, "error": None}
        before = self.run_of(io={"figures": [figure]})
        after = self.run_of(io={"figures": [{**figure, "value": 20.0}]})
        self.assertIn("hits: 2.00x faster", comparison.text(before, after))

    def test_figures_of_one_run_only_are_counted(self):
        self.assertIn("1 figures are in one run only", self.verdicts([line("q0_30", 1)], []))


class Files(Folder):
    def assert_names_file(self, name, text, value):
        path = self.write(name, value)
        with self.assertRaisesRegex(results.ResultError, text) as caught:
            results.Run(path)
        self.assertIn(path, str(caught.exception))

    def test_broken_files_end_in_an_error_with_their_path(self):
        self.assert_names_file("broken.json", "not JSON", '{"format": 1, "run"')
        self.assert_names_file("list.json", "format 1", [])
        self.assert_names_file("bare.json", "'run'", {"format": 1})
        self.assert_names_file("half.json", "lacks 'commit'", {"format": 1, "run": {"date": "2026-01-02"}})
        self.assert_names_file("lines.json", "'queries' lacks 'lines'", {**data(), "queries": {}})

    def test_command_reports_a_broken_file_without_a_traceback(self):
        self.write("broken.json", "{")
        self.write(results.CURRENT, {"runs": ["broken"]})
        errors = io.StringIO()
        with mock.patch.object(report, "FOLDER", self.folder), mock.patch("sys.argv", ["report.py", "render"]):
            with contextlib.redirect_stderr(errors):
                self.assertEqual(report.main(), 1)
        self.assertIn("broken.json: not JSON", errors.getvalue())

    def test_current_names_existing_runs(self):
        self.write("run.json", data())
        self.write(results.CURRENT, {"runs": ["other"]})
        with self.assertRaisesRegex(results.ResultError, "no result file other"):
            results.Results(self.folder)

    def test_files_of_tools_become_one(self):
        queries = self.write("measure.json", data([line("q0_30", 1.0)]))
        reports = [self.write(f"{name}.json", {"rows": 1, "measurements": []}) for name in ("one", "two")]
        merged = results.merge([queries, *reports, self.write("io.json", {"figures": []})])
        self.assertEqual(len(merged["on_demand"]), 2)
        self.assertEqual(results.file_name(merged), "2026-01-02_abc1234_h200-1.json")
        other = self.write("other.json", {**data(), "run": {**RUN, "commit": "def5678"}})
        with self.assertRaisesRegex(results.ResultError, "other.json"):
            results.merge([queries, other])


class Markers(Folder):
    PAGE = "a\n<!-- begin: one (queries/bench/report.py) -->\nold\n<!-- end: one -->\nb\n"

    def test_block_is_replaced_and_prose_stays(self):
        blocks = {"one": lambda found: found}
        once = report.fill(self.PAGE, blocks, "new")
        self.assertEqual(once, self.PAGE.replace("old", "new"))
        self.assertEqual(report.fill(once, blocks, "new"), once)

    def test_unknown_and_open_markers_are_errors(self):
        for page in (self.PAGE.replace(": one", ": two"), self.PAGE.replace("<!-- end: one -->", ""),
                     self.PAGE.replace("end: one", "end: two")):
            with self.assertRaises(results.ResultError):
                report.fill(page, {"one": lambda found: "new"}, None)

    def test_check_fails_until_pages_are_rendered(self):
        found = self.found(data())
        page = self.write("PAGE.md", self.PAGE.replace(": one", ": targets"))
        self.write(results.CURRENT, {"runs": ["run"]})

        def command(*words):
            with mock.patch("sys.argv", ["report.py", *words]), contextlib.redirect_stdout(io.StringIO()):
                with contextlib.redirect_stderr(io.StringIO()):
                    return report.main()

        self.assertEqual(found.chosen[0].name, "run")
        with mock.patch.object(report, "FOLDER", self.folder), mock.patch.object(report, "PLOTS", {}):
            with mock.patch.object(report, "PAGES", {page: pages.BLOCKS}):
                self.assertEqual([command("render", "--check"), command("render"), command("render", "--check")],
                                 [1, 0, 0])


    def test_links_do_not_depend_on_the_working_directory(self):
        self.folder = os.path.join(self.folder, "queries", "results")
        os.makedirs(self.folder)
        found = self.found(data())
        self.assertEqual(pages.link(found, found.chosen[0], "queries"), "[JSON](results/run.json)")
        self.assertEqual(pages.link(found, found.chosen[0], "io-stack"), "[JSON](../queries/results/run.json)")


class Figures(Folder):
    def test_missing_figures_leave_gaps_instead_of_errors(self):
        found = self.found(data([line("q0_30", 34.2)]))
        for name, block in {**pages.BLOCKS, **report.io_page.BLOCKS}.items():
            self.assertIsInstance(block(found), str, name)
        self.assertIn("| mapped | 34.2 ms |", pages.ways(found))
        self.assertIsNone(report.PLOTS["duckdb"](found))
        self.assertIsNone(report.PLOTS["history"](found))
        self.assertIn("<svg", report.PLOTS["ways"](found))

    def test_targets_follow_from_lines(self):
        lines = [line("q0_30", 30, kernel=30.0), line("q5_30", 31, kernel=30.3), line("q0_20", 30, kernel=None)]
        of = targets.figures(lines)
        self.assertAlmostEqual(of["mapped_q5_30"]["unaligned"], 1.01)
        self.assertNotIn("mapped_q5_20", of)

    def test_verdicts_and_ranges(self):
        self.assertEqual(figures.verdict(True, 8, 8), "met")
        self.assertEqual(figures.verdict(False, 0, 8), "**missed**")
        self.assertEqual(figures.verdict(False, 5, 8), "**missed**, 5 of 8")
        self.assertEqual(figures.range_of([1.013, 1.006, 1.025], "×"), "1.013 × (1.006–1.025, 3)")
        self.assertEqual(figures.range_of([0.95, 0.95], "%"), "95 % (95, 2)")
        self.assertEqual(figures.range_of([], "ms"), figures.MISSING)
        self.assertEqual([svg.number(value) for value in (0.383, 5.9, 54.03, 1539.4)], ["0.383", "5.9", "54", "1,539"])

    def test_io_targets_take_the_worst_figure_and_of_pushes_the_best(self):
        def figure(name, value):
            return {"section": "", "name": name, "value": value, "plain": 10.0, "unit": "GB/s", "error": None}

        named = [("cache hits, warp-sequential, runs of 4096 values", 9.0), ("cache hits, warp-sequential, runs", 8.0),
                 ("1 MiB commands pushed", 5.0), ("4 MiB commands pushed", 9.6)]
        of = io_targets.figures({"figures": [figure(*one) for one in named]})
        self.assertEqual((of["hits"], of["pushed"]), ((0.8, 0.9), (0.96, 0.96)))

    def test_labels_are_escaped(self):
        self.assertIn("a &lt; b", svg.bars("a < b", "ms", ["one"], [("x", [1.0])]))


if __name__ == "__main__":
    unittest.main()
