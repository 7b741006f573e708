"""Targets of the I/O stack, and the figures of `grampus bench io` that decide each. Standard library only."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class IoTarget:
    """One target: figures whose name matches `pattern`; their ratios to the plain kernel, or their values."""

    key: str
    short: str
    text: str
    unit: str  # "%": ratio to the plain kernel or baseline, as percent
    bound: float
    pattern: str
    by_ratio: bool = True
    takes_best: bool = False  # the best figure decides, otherwise the worst

    def is_met(self, low, high):
        return (high if self.takes_best else low) >= self.bound


PREFETCH = r"^prefetch against synchronous, "

IO_TARGETS = (
    IoTarget("hits", "cache hits", "cache hits, warp-sequential, of a plain scan", "%", 0.88,
             r"^cache hits, warp-sequential"),
    IoTarget("random_hits", "random hits", "random 8-byte hits", "G/s", 12,
             r"^random 8-byte hits", False),
    IoTarget("mapped", "mapped", "mapped, sequential and random 4 KiB, of plain loads", "%", 0.97,
             r"^mapped, (sequential$|random 4 KiB)"),
    IoTarget("mapped_small", "mapped, 512 and 128 B", "mapped, random 512 B and 128 B, of plain loads", "%", 0.95,
             r"^mapped, random (512|128) B"),
    IoTarget("filling", "filling the cache", "mapped, filling the cache, of plain loads", "%", 0.97,
             r"^mapped, sequential, filling"),
    IoTarget("empty", "empty commands", "empty commands, 8 controller threads", "M/s", 20,
             r"^empty commands, 8 threads", False),
    IoTarget("one_queue", "one queue", "one queue, 32,768 threads ÷ a lock for each end", "×", 10,
             r"^one queue, 32768 threads$"),
    IoTarget("page_cache", "page cache, 4 KiB", "4 KiB commands, page cache, 32 queues", "GB/s", 30,
             r"^4 KiB commands from the page cache by copies from its mapping, 8 threads, 32", False),
    IoTarget("pushed", "pushes", "pushed from the page cache, best, of the copy engine", "%", 0.95,
             r"commands pushed", True, True),
    IoTarget("disk_large", "disk, 1 MiB", "disk, 1 MiB commands, of io_uring alone", "%", 0.95,
             r"^disk, 1 MiB"),
    IoTarget("disk_small", "disk, 4 KiB", "disk, random 4 KiB commands, of io_uring alone", "%", 0.95,
             r"^disk, random 4 KiB"),
    IoTarget("prefetch_100", "prefetch, 100 µs late", "prefetch ÷ synchronous, reads 100 µs late", "×", 1.7,
             PREFETCH + "page cache, 100", False),
    IoTarget("prefetch_50", "prefetch, 50 µs late", "prefetch ÷ synchronous, reads 50 µs late", "×", 1.7,
             PREFETCH + "page cache, 50", False),
    IoTarget("prefetch_disk", "prefetch, disk", "prefetch ÷ synchronous, disk", "×", 1.7,
             PREFETCH + "disk", False),
    IoTarget("prefetch_cache", "prefetch, page cache", "prefetch ÷ synchronous, page cache", "×", 1.7,
             PREFETCH + r"page cache, \d+ warps", False),
)


def ratio_of(figure):
    if figure.get("ratio") is not None:
        return figure["ratio"]
    return figure["value"] / figure["plain"] if figure.get("plain") else None


def figures(report):
    """{target's key: (low, high)} of a report; a report's own `targets` win."""
    found = {}
    for target in IO_TARGETS:
        values = []
        for figure in report["figures"]:
            if figure.get("error") is None and re.search(target.pattern, figure["name"]):
                value = ratio_of(figure) if target.by_ratio else figure["value"]
                values += [value] if value is not None else []
                values += [figure["high"]] if not target.by_ratio and figure.get("high") is not None else []
        if values:
            found[target.key] = (max(values), max(values)) if target.takes_best else (min(values), max(values))
    found.update({key: tuple(value) for key, value in report.get("targets", {}).items()})
    return found
