"""Tests of gpu_tests.py, with programs that print as Rust's test programs do."""

import contextlib
import datetime
import io
import json
import os
import tempfile
import unittest
from unittest import mock

import gpu_tests

GPU = {"gpu": "NVIDIA H200", "driver": "580.1", "cuda": "13.0"}


class Programs(unittest.TestCase):
    """A folder of programs and a record."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.record = os.path.join(folder.name, "programs"), os.path.join(folder.name, "record.json")
        os.mkdir(self.folder)

    def program(self, name, *lines):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(["#!/bin/sh", *lines, ""]))
        os.chmod(path, 0o755)

    def passing(self, name, passed):
        result = f"test result: ok. {passed} passed; 0 failed; 1 ignored; 0 measured"
        self.program(name, '[ "$GRAMPUS_TEST_CUDA" = 1 ] || exit 9', f"echo '{result}'")

    def run_all(self, *more, gpu=GPU):
        command = ["gpu_tests.py", "--record", self.record, "run", self.folder, "--commit", "abc1234", *more]
        said = io.StringIO()
        with mock.patch("sys.argv", command), mock.patch("run_info.gpu", return_value=gpu):
            with contextlib.redirect_stdout(said):
                status = gpu_tests.main()
        return status, said.getvalue(), gpu_tests.read_record(self.record)

    def test_counts_gpu_and_commit_are_recorded(self):
        self.passing("grampus.gpu", 3)
        self.passing("paging-0123456789abcdef", 10)
        status, said, record = self.run_all()
        self.assertEqual((status, record["result"], record["commit"]), (0, "passed", "abc1234"))
        self.assertEqual((record["gpu"], record["driver"], record["cuda"]), ("NVIDIA H200", "580.1", "13.0"))
        passed = {name: (each["passed"], each["ignored"]) for name, each in record["programs"].items()}
        self.assertEqual(passed, {"grampus.gpu": (3, 1), "paging": (10, 1)})
        self.assertIn("passed: 13 tests of 2 programs", said)

    def test_failures_are_recorded(self):
        self.program("fails", "echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured'", "exit 101")
        self.program("hangs", "exec sleep 20")
        self.program("empty", "echo 'test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured'")
        status, _, record = self.run_all("--seconds", "1")
        self.assertEqual((status, record["result"]), (1, "failed"))
        self.assertEqual(record["findings"], [
            "empty: no test has passed", "fails: status 101, 2 failed", "hangs: status timeout, 0 failed",
        ])

    def test_fewer_tests_than_last_time_are_found(self):
        self.passing("kernels", 5)
        self.passing("paging", 10)
        self.run_all()
        self.passing("kernels", 4)
        os.remove(os.path.join(self.folder, "paging"))
        status, said, _ = self.run_all()
        self.assertEqual(status, 1)
        self.assertIn("kernels: 4 tests passed, 5 last time\npaging: was run last time, and is missing", said)
        self.passing("paging", 9)
        self.assertEqual(self.run_all("--fewer")[0], 0)

    def test_a_machine_without_a_gpu_is_refused(self):
        self.passing("kernels", 5)
        with self.assertRaises(SystemExit):
            self.run_all(gpu={})
        self.assertIsNone(gpu_tests.read_record(self.record))


class Age(unittest.TestCase):
    def test_age_in_commits_and_days(self):
        record = {"commit": "abc1234", "date": "2026-01-02", "result": "passed", **GPU}
        record["programs"] = {"a": {"passed": 3}, "b": {"passed": 4}}
        today = datetime.date(2026, 1, 12)
        self.assertEqual(
            gpu_tests.age(record, today, 7, 2),
            "GPU tests: passed at abc1234, 7 tests of 2 programs, NVIDIA H200, driver 580.1; 10 days and 7 commits ago"
            ", 2 of them changed device code: to be run again",
        )
        record["programs"]["b"] = {"passed": None}
        said = gpu_tests.age(record, today, None, None)
        self.assertIn("at abc1234, 2 programs, NVIDIA H200", said)
        self.assertIn("10 days and an unknown number of commits ago", said)
        self.assertEqual(gpu_tests.age(None, today, None, None), "GPU tests: no run is recorded")

    def test_the_record_of_the_tree_is_whole(self):
        record = gpu_tests.read_record()
        self.assertTrue(record["commit"] and record["date"] and record["programs"])


class Collect(unittest.TestCase):
    def test_programs_are_found_in_cargos_messages(self):
        def message(package, name, kind="test"):
            target = {"kind": [kind], "name": name}
            built = {"reason": "compiler-artifact", "package_id": package, "target": target, "executable": f"/{name}-1"}
            return json.dumps(built)

        messages = "\n".join([
            "   Compiling something",
            message("path+file:///tree/engine#grampus@0.1.0", "gpu"),
            message("path+file:///tree/gpu-exec#grampus-gpu-exec@0.1.0", "paging"),
            message("path+file:///tree/engine#grampus@0.1.0", "grampus", "lib"),
        ])
        found = [("grampus", "gpu", "/gpu-1"), ("grampus-gpu-exec", "paging", "/paging-1")]
        self.assertEqual(list(gpu_tests.executables(messages)), found)


if __name__ == "__main__":
    unittest.main()
