"""Progress: one line on a terminal, or one output of a notebook cell, for a query of more than a second."""

from __future__ import annotations

import sys

DELAY_SECONDS = 1.0
BAR_CHARACTERS = 30


class Progress:
    """Draws what the native half reports while Python's main thread waits."""

    def __init__(self, in_notebook: bool) -> None:
        self._in_notebook = in_notebook
        self._handle = None
        self._drawn = False

    @classmethod
    def create(cls, wanted: bool | None) -> Progress | None:
        """A progress if it is wanted; by default on terminals and in notebooks."""
        in_notebook = _is_notebook()
        if wanted is None:
            wanted = in_notebook or (sys.stderr is not None and sys.stderr.isatty())
        return cls(in_notebook) if wanted else None

    def __call__(
        self, seconds: float | None = None, rows: int = 0, rows_in_all: int | None = None, moved_bytes: int = 0
    ) -> None:
        """Draw the state; without arguments, remove the drawing."""
        if seconds is None:
            self._clear()
        elif seconds >= DELAY_SECONDS:
            self._draw(line(seconds, rows, rows_in_all, moved_bytes))

    def _draw(self, text: str) -> None:
        self._drawn = True
        if not self._in_notebook:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            return
        from IPython.display import display

        if self._handle is None:
            self._handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": text}, raw=True)

    def _clear(self) -> None:
        if not self._drawn:
            return
        self._drawn = False
        if not self._in_notebook:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        elif self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


def line(seconds: float, rows: int, rows_in_all: int | None, moved_bytes: int) -> str:
    """The state in one line."""
    parts = [f"{seconds:.1f} s"]
    if rows > 0:
        known = rows_in_all is not None and rows_in_all >= rows
        parts.append(f"{rows:,} of {rows_in_all:,} rows read" if known else f"{rows:,} rows read")
        parts.append(f"{moved_bytes / (1 << 20):,.1f} MiB moved")
        if known:
            share = rows / max(1, rows_in_all or 0)
            full = round(share * BAR_CHARACTERS)
            bar = "━" * full + " " * (BAR_CHARACTERS - full)
            return f"[{bar}] {share:4.0%}  {', '.join(parts)}  (Ctrl-C cancels)"
    return f"{', '.join(parts)}  (Ctrl-C cancels)"


def _is_notebook() -> bool:
    """Whether a Jupyter kernel runs this process."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None and hasattr(module, "get_ipython") else None
    return shell is not None and hasattr(shell, "kernel")
