"""The annotations: the stub is that of the native module, and mypy takes the package and programs that use it."""

import ast
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import grampus
from grampus import _grampus

TESTS = Path(__file__).resolve().parent
STUB = Path(grampus.__file__).with_name("_grampus.pyi")
# In CI it is not skipped, and fails.
is_missing = importlib.util.find_spec("mypy") is None and os.environ.get("CI") != "true"
needs_mypy = pytest.mark.skipif(is_missing, reason="mypy is not installed")

WRONG = """\
import grampus
con = grampus.connect(thread=1)  # call-arg
con.sql("SELECT 1", 1)  # arg-type
con.sql("SELECT 1").join(con.sql("SELECT 1"), how="sideways")  # arg-type
con.read_csv("a.csv", separator=";")  # call-arg
con.sql("SELECT 1").write_parquet(1)  # arg-type
con.execute("SELECT 1").fetch()  # attr-defined
count: str = con.cursor().rowcount  # assignment
con.sql("SELECT 1").fetchone()[0]  # index
grampus.OperationError  # attr-defined
"""


def shape(parameters):
    """Names, kinds and whether there is a default, without the first of a method."""
    return [(one.name, one.kind, one.default is not one.empty) for one in parameters]


def shape_of_stub(function):
    given = function.args
    assert not given.posonlyargs and not given.kwonlyargs and not given.vararg and not given.kwarg
    optional = len(given.args) - len(given.defaults)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return [(one.arg, kind, at >= optional) for at, one in enumerate(given.args) if one.arg not in ("self", "cls")]


def members(nodes):
    """The functions, classes and values that a stub declares, by name."""
    found = {}
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = node
    return found


def is_native(name):
    # Object's own; the classes have no others of these names.
    return name not in ("__doc__", "__module__", "__qualname__", "__weakref__", "__dict__")


def test_stub_has_the_names_of_the_native_module():
    declared = members(ast.parse(STUB.read_text(encoding="utf-8")).body)
    assert sorted(declared) == sorted(_grampus.__all__)
    for name, node in declared.items():
        value = getattr(_grampus, name)
        if not isinstance(node, ast.ClassDef):
            assert isinstance(node, ast.FunctionDef) == callable(value), name
            continue
        assert isinstance(value, type), name
        if issubclass(value, Exception):
            assert [ast.unparse(base) for base in node.bases] == [base.__name__ for base in value.__bases__], name
            continue
        assert sorted(members(node.body)) == sorted(filter(is_native, vars(value))), name


def test_stub_has_the_signatures_of_the_native_module():
    compared = 0
    for name, node in members(ast.parse(STUB.read_text(encoding="utf-8")).body).items():
        value = getattr(_grampus, name)
        if isinstance(node, ast.FunctionDef):
            assert shape_of_stub(node) == shape(inspect.signature(value).parameters.values()), name
            compared += 1
        if not isinstance(node, ast.ClassDef) or issubclass(value, Exception):
            continue
        for method, declared in members(node.body).items():
            found = inspect.getattr_static(value, method)
            if inspect.isgetsetdescriptor(found):
                assert [ast.unparse(one) for one in declared.decorator_list] == ["property"], method
                continue
            # Of a class, the signature is that of its __new__.
            parameters = inspect.signature(value if method == "__new__" else found).parameters.values()
            wanted = [one for one in parameters if one.name != "self"]
            assert shape_of_stub(declared) == shape(wanted), f"{name}.{method}"
            compared += 1
    assert compared > 20


def mypy(environment, *arguments, module="mypy", cwd):
    command = [sys.executable, "-m", module, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=600)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return f"--cache-dir={tmp_path_factory.mktemp('mypy')}"


@needs_mypy
def test_stub_is_that_of_the_native_module_to_mypy(environment, tmp_path):
    arguments = ("grampus._grampus", "--ignore-disjoint-bases")
    status, words = mypy(environment, *arguments, module="mypy.stubtest", cwd=tmp_path)
    assert status == 0, words


@needs_mypy
def test_package_passes_mypy(environment, cache):
    status, words = mypy(environment, cache, cwd=TESTS.parent)
    assert status == 0 and "no issues found" in words, words


@needs_mypy
def test_program_passes_mypy_and_runs(environment, cache, run_python, tmp_path):
    program = TESTS / "annotated.py"
    status, words = mypy(environment, "--strict", cache, program, cwd=tmp_path)
    assert status == 0, words
    ran = run_python(program, tmp_path)
    assert ran.returncode == 0, ran.stderr


@needs_mypy
def test_mypy_finds_wrong_uses(environment, cache, tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text(WRONG, encoding="utf-8")
    status, words = mypy(environment, "--strict", cache, program, cwd=tmp_path)
    wanted = [(at, line.split("# ")[1]) for at, line in enumerate(WRONG.splitlines(), 1) if "# " in line]
    found = re.findall(r"wrong\.py:(\d+): error: .*\[([a-z-]+)\]$", words, re.MULTILINE)
    assert [(int(line), kind) for line, kind in found] == wanted, words
    assert status == 1
