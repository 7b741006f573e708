#!/usr/bin/env python3
"""Checks how the tree is laid out: folder order, circles between files, headers, paths in docs, file lengths, words.

    .ci/structure.py             every check; exits with 1 and one line per finding
    .ci/structure.py --arrows    also prints each arrow between files that was read

The folder order is the file .ci/folder-order. A file may use files of its own entry and of the entries before it.
Arrows come from `use` lines and from paths that begin with crate, super, self or an
imported module; a re-exported name counts as an arrow to the file that defines it. Test modules are left out, and
so are arrows between a parent file (mod.rs, lib.rs, main.rs) and the files below it.

The header of a parent file that names most of its modules names all. A path that a page of Markdown names exists.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAX_LINES = 500
MAX_COLUMNS = 120
SOURCES = {".rs", ".cuh", ".cu", ".h", ".cc", ".py", ".sh"}
PROSE = {".md"}
PARENTS = {"mod.rs", "lib.rs", "main.rs"}
# Sentences name their actor (CONTRIBUTING.md, "Writing").
WORDS = re.compile(r"\b(who|whoever|somebody|nobody|how-manieth)\b", re.IGNORECASE)
# Files that hold nothing but tests.
TESTS = re.compile(r"(^|/)tests?(/|\.rs$)|_tests?\.rs$")
ORDER = ".ci/folder-order"
MODULE = re.compile(r"^(?:pub(?:\([^)]*\))? )?mod (\w+);", re.MULTILINE)


def tracked_files():
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in map(Path, listed.stdout.splitlines()) if (ROOT / path).is_file()]


# ---------------------------------------------------------------------------------------------- Rust as text


def without_comments_and_strings(text):
    """The code with comments, strings and character literals blanked; line breaks stay."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\'\\])\'', re.DOTALL
    )
    return token.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def without_tests(code):
    """The code without items under `#[cfg(test)]` (attribute, item header and its braces)."""
    while found := re.search(r"#\[cfg\((?:all\()?test\b[^\]]*\]", code):
        at = found.end()
        depth = 0
        while at < len(code):
            if code[at] == "{":
                depth += 1
            elif code[at] == "}":
                depth -= 1
                if depth == 0:
                    at += 1
                    break
            elif code[at] == ";" and depth == 0:
                at += 1
                break
            at += 1
        code = code[: found.start()] + re.sub(r"[^\n]", " ", code[found.start() : at]) + code[at:]
    return code


def expanded(tree):
    """The paths of a use tree: `a::{b, c as d}` gives ("a::b", "b") and ("a::c", "d")."""
    tree = tree.strip()
    if not tree.endswith("}"):
        path, _, alias = tree.partition(" as ")
        path = path.strip()
        return [(path, alias.strip() or path.rsplit("::", 1)[-1])] if path else []
    head, _, rest = tree.partition("{")
    items, depth, item = [], 0, ""
    for character in rest[:-1] + ",":
        if character == "," and depth == 0:
            items.append(item)
            item = ""
            continue
        depth += (character == "{") - (character == "}")
        item += character
    paths = []
    for item in items:
        for path, alias in expanded(item):
            if path == "self":
                paths.append((head.strip().removesuffix("::"), head.strip().removesuffix("::").rsplit("::", 1)[-1]))
            else:
                paths.append((head.strip() + path, alias))
    return paths


class Crate:
    """One crate's source files, as modules, and the arrows between them."""

    def __init__(self, folder, files):
        self.folder = folder
        self.modules = {}  # ("scan", "metrics") -> file
        for path in files:
            parts = path.relative_to(folder).with_suffix("").parts
            if parts[-1] in ("mod", "lib", "main"):
                parts = parts[:-1]
            self.modules[parts] = path
        self.code = {
            module: without_tests(without_comments_and_strings((ROOT / path).read_text()))
            for module, path in self.modules.items()
        }
        self.imports = {module: self.imports_of(module) for module in self.modules}

    def imports_of(self, module):
        """Name -> path, absolute within the crate, of each `use` line."""
        imports = {}
        for tree in re.findall(r"\buse\s+([^;]+);", self.code[module]):
            for path, alias in expanded(re.sub(r"\s+", " ", tree)):
                absolute = self.absolute(module, path)
                if absolute is not None:
                    imports[(alias, path)] = absolute
        return imports

    def absolute(self, module, path):
        parts = [part.strip() for part in path.split("::")]
        base = list(module)
        if parts[0] == "crate":
            return tuple(parts[1:])
        if parts[0] == "self":
            parts = parts[1:]
        elif parts[0] == "super":
            while parts and parts[0] == "super":
                base = base[:-1]
                parts = parts[1:]
        elif tuple(base) + (parts[0],) not in self.modules:
            return None  # another crate, or a name in scope
        return tuple(base) + tuple(parts)

    def file_of(self, path, hops=0):
        """The module that defines what an absolute path names: through re-exports, at most a few hops."""
        for length in range(len(path), -1, -1):
            module = path[:length]
            if module in self.modules:
                break
        rest = path[len(module) :]
        if rest and hops < 8:
            for (alias, _), target in self.imports[module].items():
                if alias == rest[0] and target != path:
                    return self.file_of(target + rest[1:], hops + 1)
        return module

    def arrows(self):
        """Pairs of modules (user, used), arrows between a parent and what is below it left out."""
        found = set()
        for module, code in self.code.items():
            targets = list(self.imports[module].values())
            for path in re.findall(r"\b(?:crate|super|self)(?:::\w+)+", code):
                absolute = self.absolute(module, path)
                if absolute is not None:
                    targets.append(absolute)
            aliases = {alias: path for (alias, _), path in self.imports[module].items() if path in self.modules}
            for alias, path in aliases.items():
                for name in re.findall(rf"(?<![:\w]){alias}::(\w+)", code):
                    targets.append(path + (name,))
            for target in targets:
                used = self.file_of(target)
                if used != module and not self.is_family(module, used):
                    found.add((module, used))
        return found

    def is_family(self, one, other):
        """True if one of two modules is the parent of the other, at any depth."""
        return one == other[: len(one)] or other == one[: len(other)]

    def path(self, module):
        return self.modules[module].relative_to(self.folder).as_posix()


def circles(nodes, arrows):
    """Strongly connected components of more than one node (Tarjan, without recursion)."""
    following = {node: sorted(used for user, used in arrows if user == node) for node in nodes}
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for start in sorted(nodes):
        if start in index:
            continue
        work = [(start, iter(following[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, rest = work[-1]
            for used in rest:
                if used not in index:
                    index[used] = low[used] = len(index)
                    stack.append(used)
                    on_stack.add(used)
                    work.append((used, iter(following[used])))
                    break
                if used in on_stack:
                    low[node] = min(low[node], index[used])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    if len(component) > 1:
                        found.append(sorted(component))
    return found


# ---------------------------------------------------------------------------------------------- the checks


def written_order():
    """Crate folder -> entries in order, and the sets of files that may use each other."""
    order, recursive = {}, []
    for line in (ROOT / ORDER).read_text().splitlines():
        line = line.split("#")[0].strip()
        if not line:
            continue
        head, _, entries = line.partition(":")
        if head.startswith("recursive "):
            folder = head.removeprefix("recursive ").strip()
            recursive.append((folder, frozenset(entries.split())))
        else:
            order.setdefault(head.strip(), []).extend(entries.split())
    return order, recursive


def entry_of(path, entries):
    """Position of the longest entry that a file belongs to; `None` if it belongs to none."""
    stem = path.removesuffix(".rs").removesuffix("/mod")
    fitting = [entry for entry in entries if stem == entry or stem.startswith(entry + "/")]
    return entries.index(max(fitting, key=len)) if fitting else None


def check_order(files, show_arrows):
    findings = []
    order, recursive = written_order()
    allowed = {frozenset((folder, name) for name in names) for folder, names in recursive}
    for folder, entries in sorted(order.items()):
        sources = [path for path in files if path.suffix == ".rs" and path.is_relative_to(folder)]
        sources = [path for path in sources if not TESTS.search(path.relative_to(folder).as_posix())]
        if not sources:
            findings.append(f"{ORDER}: {folder} has no source files")
            continue
        crate = Crate(Path(folder), sources)
        arrows = crate.arrows()
        for module in crate.modules:
            if entry_of(crate.path(module), entries) is None:
                findings.append(f"{folder}/{crate.path(module)}: not in {ORDER}")
        for user, used in sorted(arrows):
            if show_arrows:
                print(f"{folder}: {crate.path(user)} -> {crate.path(used)}")
            below, above = entry_of(crate.path(used), entries), entry_of(crate.path(user), entries)
            if below is not None and above is not None and below > above:
                findings.append(
                    f"{folder}/{crate.path(user)}: uses {crate.path(used)}, which comes later in the folder order"
                )
        found = circles(crate.modules, arrows)
        counted = 0
        for circle in found:
            names = [crate.path(module) for module in circle]
            if frozenset((folder, name.removesuffix(".rs")) for name in names) in allowed:
                continue
            counted += 1
            findings.append(f"{folder}: a circle of {len(names)} files: {' '.join(names)}")
        print(f"{folder}: {len(crate.modules)} files, {len(arrows)} arrows, {counted} circles, "
              f"{len(found) - counted} of recursive data")
    return findings


def check_headers(files):
    """A header that lists modules lists all: by name or type, in backquotes or in a block of text."""
    findings = []
    for path in files:
        if path.name not in PARENTS or TESTS.search(path.as_posix()):
            continue
        text = (ROOT / path).read_text()
        header = "".join(line[3:] + "\n" for line in text.splitlines() if line.startswith("//!"))
        listed = re.findall(r"```text(.*?)```", header, re.DOTALL) + re.findall(r"`[^`\n]+`", header)
        words = set(re.findall(r"\w+", " ".join(listed)))
        modules = MODULE.findall(without_tests(without_comments_and_strings(text)))
        missing = [name for name in modules if not words & {name, name.title().replace("_", "")}]
        if 2 * len(missing) < len(modules):
            findings += [f"{path}: the header lists modules without {name}" for name in missing]
    return findings


def expanded_braces(path):
    """`a/{b,c}` gives `a/b` and `a/c`."""
    found = re.search(r"\{([^{}]*)\}", path)
    if not found:
        return [path]
    ends = [path[: found.start()] + name + path[found.end() :] for name in found.group(1).split(",")]
    return [whole for end in ends for whole in expanded_braces(end)]


def anchors_of(page):
    """The places of a page that links can name: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_paths(files):
    """Links between pages lead to files. Paths in backquotes exist: any part of a path, with or without the ending."""
    known = set()
    for path in files:
        for parts in (path.parts, path.with_suffix("").parts):
            known.update("/".join(parts[a:b]) for a in range(len(parts)) for b in range(a + 1, len(parts) + 1))
    findings = []
    for path in files:
        text = (ROOT / path).read_text() if path.suffix in PROSE else ""
        for link in re.findall(r"\]\(([^)\s:]+)\)", text) + re.findall(r"^\[[^\]]+\]: ([^\s:]+)$", text, re.MULTILINE):
            place, _, anchor = link.partition("#")
            target = (ROOT / path).parent.joinpath(place) if place else ROOT / path
            if not target.exists() or anchor and anchor not in anchors_of(target):
                findings.append(f"{path}: the link {link} leads nowhere")
        # Experiments speak of the tree as it was.
        named = [] if "experiments" in path.parts else re.findall(r"`(\w[\w.{},-]*/[\w./{},-]*)`", text)
        for name in (name.rstrip("/") for whole in named for name in expanded_braces(whole)):
            if name.split("/")[0] in known and name not in known:
                findings.append(f"{path}: {name} does not exist")
    return findings


def check_text(files):
    findings = []
    for path in files:
        if path.suffix not in SOURCES | PROSE and path.as_posix() != ".ci/run":
            continue
        lines = (ROOT / path).read_text().splitlines()
        if len(lines) > MAX_LINES:
            findings.append(f"{path}: {len(lines)} lines, at most {MAX_LINES}")
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_COLUMNS and "://" not in line:
                findings.append(f"{path}:{number}: {len(line)} columns, at most {MAX_COLUMNS}")
            found = WORDS.search(prose_of(path, line))
            if found:
                findings.append(f"{path}:{number}: '{found.group()}' names no actor (CONTRIBUTING.md, \"Writing\")")
    return findings


def prose_of(path, line):
    """What of a line is prose: all of it in Markdown, comments in source."""
    if path.suffix in PROSE:
        return "" if "`who" in line else line
    mark = "#" if path.suffix in (".py", ".sh", "") else "//"
    at = line.find(mark)
    return line[at:] if at >= 0 and (at == 0 or line[at - 1] in " \t") else ""


def check_versions():
    """The last row of README.md's table of versions is what Cargo.toml says."""
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]
    package, dependencies = manifest["package"], manifest["dependencies"]
    stated = [package["version"], *(dependencies[name]["version"] for name in ("datafusion", "arrow", "object_store"))]
    expected = [".".join(version.split(".")[:2]) for version in [*stated, package["rust-version"]]]
    row = "| " + " | ".join(expected) + " |"
    return [] if row in (ROOT / "README.md").read_text().splitlines() else [f"README.md: no row of versions '{row}'"]


def main():
    files = tracked_files()
    findings = check_order(files, "--arrows" in sys.argv[1:])
    findings += check_headers(files) + check_paths(files) + check_text(files) + check_versions()
    for finding in findings:
        print(finding)
    print(f"structure: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
