"""The command `grampus`, and NVIDIA's libraries that pip has installed beside this package."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import sys
from pathlib import Path

from . import _grampus

_NVIDIA = Path("/proc/driver/nvidia")


def main() -> None:
    """Run the program on the arguments of this process, and end it with the program's status."""
    find_libraries()
    sys.exit(_grampus.run_program(["grampus", *sys.argv[1:]]))


def offer_libraries() -> None:
    """`find_libraries`, if the machine has NVIDIA's driver: without one no query uses them."""
    if _NVIDIA.exists():
        find_libraries()


def find_libraries() -> None:
    """Load NVRTC, and name nvCOMP to the native half, if pip has installed them (the extras `gpu` and `nvcomp`).

    The system's loader does not look into the folder of packages. A library that is loaded is found by its name.
    """
    for file in _installed("libnvrtc.so.*"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
            break
    if "GRAMPUS_NVCOMP" not in os.environ:
        for file in _installed("libnvcomp.so.5"):
            os.environ["GRAMPUS_NVCOMP"] = str(file)
            break


def _installed(pattern: str) -> list[Path]:
    """The files of NVIDIA's packages, the newest version first."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    folders = list(spec.submodule_search_locations or []) if spec is not None else []
    # nvidia/cu13/lib, nvidia/cuda_nvrtc/lib, nvidia/libnvcomp/lib64
    return sorted((file for folder in folders for file in Path(folder).glob(f"*/lib*/{pattern}")), reverse=True)
