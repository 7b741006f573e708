"""Texts of SQL: names, literals, options, and lists of expressions."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Union

from ._grampus import ProgrammingError

Expressions = Union[str, Iterable[str]]
Path = Union[str, "os.PathLike[str]"]

# Names of relations in the statements that this package composes. No table of a session has one of them.
SELF = f"grampus relation {secrets.token_hex(8)}"
OTHER = f"{SELF} other"
PLACE = f"{SELF} place"


def quoted(name: str) -> str:
    """A name, exactly as it is."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def literal(value: Any) -> str:
    """The value of an option as a literal.

    Raises TypeError if it is no text, number or truth value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return text_literal(value)
    raise TypeError(f"an option is a text, a number or a truth value, not a {type(value).__name__}")


def one_character(name: str, value: str | None) -> str | None:
    """The value of an option that is one character.

    Raises ProgrammingError if it is not.
    """
    if value is not None and not (len(value) == 1 and value.isascii()):
        raise ProgrammingError(f"{name} is one character, not {value!r}")
    return value


def listed(expressions: Expressions, what: str) -> str:
    """Expressions with commas between them. Each ends its line, so that a comment in one ends there.

    Raises ProgrammingError if there is none.
    """
    parts = [expressions] if isinstance(expressions, str) else list(expressions)
    if not parts or not all(part.strip() for part in parts):
        raise ProgrammingError(f"{what} takes at least one SQL expression")
    return "\n, ".join(parts) + "\n"


def paths_of(path: Path | Iterable[Path], function: str) -> list[str]:
    """One or several paths as texts. `~` is the home of the user.

    Raises ProgrammingError if there is none.
    """
    several = not isinstance(path, (str, os.PathLike))
    paths = [os.fspath(one) for one in path] if several else [os.fspath(path)]  # type: ignore[union-attr, arg-type]
    if not paths:
        raise ProgrammingError(f"{function} needs at least one path")
    return paths


def call(function: str, paths: list[str], options: Mapping[str, Any]) -> str:
    """The query of a function that reads files: `read_csv(['a', 'b'], delim = ';')`."""
    arguments = [f"[{', '.join(map(text_literal, paths))}]"]
    arguments += [f"{quoted(name)} = {literal(value)}" for name, value in options.items() if value is not None]
    return f"SELECT * FROM {function}({', '.join(arguments)})"


def copy(source: str, path: Path, file_format: str, options: Mapping[str, Any]) -> str:
    """The statement that writes a table into a file, or into a folder of partitions."""
    given = [f"FORMAT {file_format}"]
    for name, value in options.items():
        if value is None:
            continue
        if name == "partition_by":
            columns = [value] if isinstance(value, str) else list(value)
            given.append(f"partition_by ({', '.join(map(quoted, columns))})")
        else:
            given.append(f"{name} {text_literal(value) if isinstance(value, str) else literal(value)}")
    return f"COPY (SELECT * FROM {quoted(source)}) TO {text_literal(os.fspath(path))} ({', '.join(given)})"
