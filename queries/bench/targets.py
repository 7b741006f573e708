"""Ways to answer a query, and the targets of the GPU path: names, bounds, and how each follows from measured lines.

Standard library only: `measure.py` prints the targets, `report.py` draws them.
"""

from dataclasses import dataclass
from typing import Callable

PLAIN = "plain"
PCIE, DEVICE = "sum over PCIe from registered files", "sum from device memory"
DIRECT = "the cold column's bytes past the page cache"

CPU = "cpu"
MAPPED = "mapped"
FIRST_GPU = "first touch, GPU"
FIRST_CHOSEN = "first touch, chosen device"
RESIDENT = "resident, whole columns"
PAGES = "resident, pages"
FIRST_QUEUED = "first touch, queued"
TENTH_QUEUED = "10 % cache, queued"
TENTH_AUTO = "10 % cache, auto"
START = "start to exit"
NEW_SHAPE, FROM_FOLDER, IN_SESSION = "compile: new shape", "compile: from the folder", "compile: seen in the session"

TABLES = ("unaligned", "aligned")


@dataclass(frozen=True)
class Target:
    """One target. `figure` takes a look-up `of(way, query, name)` over a table's lines; the result may be None."""

    key: str
    text: str
    unit: str  # "%": a share, printed as percent; "×": a ratio; "ms"
    bound: float
    is_upper: bool
    figure: Callable
    per_table: bool = True

    def is_met(self, value):
        return value <= self.bound if self.is_upper else value >= self.bound


def ratio(a, b):
    return None if a is None or not b else a / b


def above(a, b):
    return None if a is None or b is None else a - b


def against_mapped(way, query):
    return lambda of: ratio(of(way, query, "ms"), of(MAPPED, query, "ms"))


def kernel_share(plain, way, query):
    return lambda of: ratio(of(plain, "", "ms"), of(way, query, "kernel"))


def above_kernel(way, query):
    return lambda of: above(of(way, query, "ms"), of(way, query, "kernel"))


def time(way, query):
    return lambda of: of(way, query, "ms")


def amplification(way, query):
    return lambda of: of(way, query, "amplification")


def kernels(query):
    return lambda of: ratio(of(MAPPED, query, "kernel"), of(MAPPED, query.replace("q5", "q0"), "kernel"))


def above_first(query):
    return lambda of: above(of(START, query, "ms"), of(FIRST_GPU, query, "ms"))


TARGETS = (
    Target("mapped_q0", "q0_30 mapped, share of a plain PCIe sum", "%", 0.95, False,
           kernel_share(PCIE, MAPPED, "q0_30")),
    Target("mapped_q5_30", "q5_30 ÷ q0_30, mapped kernels", "×", 1.03, True, kernels("q5_30")),
    Target("mapped_q5_20", "q5_20 ÷ q0_20, mapped kernels", "×", 1.18, True, kernels("q5_20")),
    Target("mapped_q5_30_whole", "q5_30 ÷ q0_30, mapped, whole queries", "×", 1.03, True,
           lambda of: ratio(of(MAPPED, "q5_30", "ms"), of(MAPPED, "q0_30", "ms"))),
    Target("mapped_amplification_30", "q5_30 amplification, mapped", "×", 1.02, True, amplification(MAPPED, "q5_30")),
    Target("mapped_amplification_20", "q5_20 amplification, mapped", "×", 1.10, True, amplification(MAPPED, "q5_20")),
    Target("first_q0_gpu", "q0_30 first touch ÷ mapped, GPU", "×", 1.15, True, against_mapped(FIRST_GPU, "q0_30")),
    Target("first_q0_chosen", "q0_30 first touch ÷ mapped, chosen device", "×", 1.15, True,
           against_mapped(FIRST_CHOSEN, "q0_30")),
    Target("first_q5_gpu", "q5_30 first touch ÷ mapped, GPU", "×", 1.5, True, against_mapped(FIRST_GPU, "q5_30")),
    Target("first_q5_chosen", "q5_30 first touch ÷ mapped, chosen device", "×", 1.5, True,
           against_mapped(FIRST_CHOSEN, "q5_30")),
    Target("resident_q0", "q0_30 resident, share of a plain device sum", "%", 0.8, False,
           kernel_share(DEVICE, RESIDENT, "q0_30")),
    Target("resident_q5", "q5_30 resident, whole columns, share of it", "%", 0.8, False,
           kernel_share(DEVICE, RESIDENT, "q5_30")),
    Target("pages_q5", "q5_30 resident, pages, share of a plain sum", "%", 0.8, False,
           kernel_share(DEVICE, PAGES, "q5_30")),
    Target("resident_q0_above", "q0_30 resident, time above the kernel", "ms", 5, True,
           above_kernel(RESIDENT, "q0_30")),
    Target("resident_q5_above", "q5_30 resident, time above the kernel", "ms", 5, True,
           above_kernel(RESIDENT, "q5_30")),
    Target("queued_amplification", "q5_30 amplification, queued", "×", 1.12, True,
           amplification(FIRST_QUEUED, "q5_30"), False),
    Target("page_cache_cold", "q0_30, page cache cold ÷ direct read", "×", 1.10, True,
           lambda of: ratio(of(FIRST_GPU, "q0_30", "ms", "cold"), of(DIRECT, "", "ms")), False),
    Target("compile_q0", "q0_30, compiling a new shape", "ms", 150, True, time(NEW_SHAPE, "q0_30"), False),
    Target("compile_q5", "q5_30, compiling a new shape", "ms", 150, True, time(NEW_SHAPE, "q5_30"), False),
    Target("load_q0", "q0_30, a compiled shape from the folder", "ms", 5, True, time(FROM_FOLDER, "q0_30"), False),
    Target("load_q5", "q5_30, a compiled shape from the folder", "ms", 5, True, time(FROM_FOLDER, "q5_30"), False),
    Target("start_q0", "`grampus -c`, above q0_30 at first touch", "ms", 800, True, above_first("q0_30"), False),
    Target("start_q5", "`grampus -c`, above q5_30 at first touch", "ms", 800, True, above_first("q5_30"), False),
)


def lookup(lines, table):
    """The look-up that a target's `figure` takes, over a list of measured lines."""

    def of(way, query, name, other=None):
        wanted = PLAIN if way in (PCIE, DEVICE, DIRECT) else other or table
        for line in lines:
            if (line["table"], line["way"], line["query"]) == (wanted, way, query):
                if name == "amplification":
                    return line.get("amplification") or ratio(line.get("moved"), line.get("needed"))
                return line.get(name)
        return None

    return of


def figures(lines, tables=TABLES):
    """{target's key: {table: figure}} for every target that the lines give."""
    found = {}
    for target in TARGETS:
        for table in tables if target.per_table else tables[:1]:
            value = target.figure(lookup(lines, table))
            if value is not None:
                found.setdefault(target.key, {})[table] = value
    return found
