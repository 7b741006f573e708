"""Compiles CUDA text with NVRTC and prints registers, spills and compile time of each kernel, the depth of calls in
bytes of stack, and the code's digest.

Usage: nvrtc.py ARCH FILE [OPTION ...]. Exit status 0: compiled; 1: the compiler's complaint is on stdout; 77: no NVRTC.
NVRTC is found in Python's `nvidia` packages (pip install nvidia-cuda-nvrtc==13.0.88), or by the dynamic linker.
"""
import ctypes
import functools
import glob
import hashlib
import os
import re
import site
import sys
import time


def load():
    roots = os.environ.get("GRAMPUS_NVRTC_PATH", "").split(":") + site.getsitepackages() + [site.getusersitepackages()]
    for root in filter(None, roots):
        for path in sorted(glob.glob(f"{root}/**/libnvrtc.so.1[23]", recursive=True), reverse=True):
            for builtins in glob.glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so.1[23].*")):
                ctypes.CDLL(builtins, ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(path)
    for name in ("libnvrtc.so.13", "libnvrtc.so.12"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    print("no NVRTC")
    sys.exit(77)


def output(lib, program, what):
    size = ctypes.c_size_t()
    getattr(lib, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(lib, f"nvrtcGet{what}")(program, buffer)
    return buffer.raw


def depths(log, ptx):
    """Bytes of the unit's deepest chain of frames, and of the deepest one that ends with a call out of the unit. Calls
    by address (far_call) go to any function whose address is taken, or out of the unit."""
    frames = dict(re.findall(r"properties for (\w+)\s.*?(\d+) bytes stack frame", log, re.S))
    head = r"(?:\.\w+\s+)*\.(?:func|entry)\s*(?:\([^)]*\)\s*)?(\w+)[^;{]*(\{.*)"
    parts = re.split(r"\n(?=(?:\.\w+\s+)*\.(?:func|entry)\b)", ptx)
    bodies = dict(found.groups() for found in (re.match(head, part, re.S) for part in parts) if found)
    taken = {name for body in bodies.values() for name in re.findall(r"mov\.[bu]64\s+%\w+,\s*(\w+);", body)}
    target = r"\bcall(?:\.uni)?\s*(?:\([^)]*\)\s*,\s*)?([%\w]+)\s*,"
    calls = {name: set(re.findall(target, body)) for name, body in bodies.items()}

    @functools.cache
    def depth(name, leaves):
        """None: no chain from here leaves the unit."""
        if name not in bodies and not name.startswith("%"):
            return 0  # the other unit says what is below
        by_address = name not in bodies
        below = [depth(one, leaves) for one in (taken & set(bodies) if by_address else calls[name])]
        below = [size for size in below if size is not None] + [0] * (by_address or not leaves)
        return max(below) + (0 if by_address else int(frames[name])) if below else None

    return [max([0, *filter(None, (depth(name, leaves) for name in bodies))]) for leaves in (False, True)]


def main():
    arch, path = sys.argv[1:3]
    lib = load()
    with open(path, "rb") as file:
        source = file.read()
    program = ctypes.c_void_p()
    lib.nvrtcCreateProgram(ctypes.byref(program), source, os.path.basename(path).encode(), 0, None, None)
    options = [f"--gpu-architecture={arch}".encode(), b"--std=c++17", b"--device-int128", b"--fmad=false"]
    options.append(b"--ptxas-options=-v")
    version = [ctypes.c_int(), ctypes.c_int()]
    lib.nvrtcVersion(*map(ctypes.byref, version))
    options += [b"--minimal"] if version[0].value >= 13 else []  # as the product does
    options += [option.encode() for option in sys.argv[3:]]
    began = time.process_time()
    result = lib.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    took_ms = (time.process_time() - began) * 1000
    log = output(lib, program, "ProgramLog").split(b"\0")[0].decode()
    if result != 0:
        print(log)
        sys.exit(1)
    pattern = (
        r"properties for (\w+)\s.*?(\d+) bytes stack frame, "
        r"(\d+) bytes spill stores, (\d+) bytes spill loads"
    )
    spills = re.findall(pattern, log, re.S)
    spills = {name: rest for name, *rest in spills}
    registers = re.findall(r"Compiling entry function '(\w+)'.*?Used (\d+) registers", log, re.S)
    for name, used in registers:
        print(f"{arch} {name}: {used} registers", end="; ")
        if name in spills:
            stack, stores, loads = spills[name]
            print(f"kernel itself: {stack} B stack, {stores} B spill stores, {loads} B spill loads", end="; ")
    if spills:
        deepest, before = depths(log, output(lib, program, "PTX").split(b"\0")[0].decode())
        print(f"calls: {deepest} B of stack, {before} B before calls out", end="; ")
    print(f"{took_ms:.0f} ms of CPU time")
    code = output(lib, program, "CUBIN" if arch.startswith("sm_") else "PTX")
    print(f"code {hashlib.sha256(code).hexdigest()}")


main()
