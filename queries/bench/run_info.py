"""The block `run` of a result file: date, commit, machine, settings, commands, checks. Standard library only."""

import datetime
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))


def output_of(*command):
    """A command's output; an empty text if the command is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False, cwd=HERE)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def text_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def slug(name):
    """A name as it stands in a file's name: `NVIDIA H200` is `h200`."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join(word for word in words if word not in ("nvidia", "gpu", "r", "tm")) or "cpu"


def gpu():
    """The first GPU, as nvidia-smi describes it; an empty dictionary without one."""
    fields = "name,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max"
    lines = output_of("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader").splitlines()
    if not lines:
        return {}
    name, driver, memory, generation, width = (cell.strip() for cell in lines[0].split(","))
    cuda = re.search(r"CUDA Version: *([0-9.]+)", output_of("nvidia-smi"))
    found = {"gpu": name, "gpu_memory": memory, "driver": driver, "link": f"PCIe {generation} x{width}"}
    return {**found, "cuda": cuda[1]} if cuda else found


def machine(name=None):
    """Processor, memory, kernel and GPU of this machine, under a name."""
    processor = re.search(r"^model name\s*:\s*(.*)$", text_of("/proc/cpuinfo"), re.MULTILINE)
    kibibytes = re.search(r"^MemTotal:\s*(\d+)", text_of("/proc/meminfo"), re.MULTILINE)
    found = {
        **gpu(),
        "cpu": processor[1] if processor else "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "memory": f"{round(int(kibibytes[1]) / (1 << 20))} GiB" if kibibytes else "unknown",
        "kernel": os.uname().release,
    }
    return {"name": name or slug(found.get("gpu", "cpu")), **found}


def commit(given=None):
    """(commit, time of the commit): as given, or as git says."""
    name = given or output_of("git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*") or "unknown"
    return name, output_of("git", "log", "-1", "--format=%cI", name.removesuffix("-dirty"))


def run_info(arguments, settings, command, checks, program=None):
    """The whole block. `arguments` has what `add_arguments` added."""
    name, committed = commit(arguments.commit)
    now = datetime.datetime.now(datetime.timezone.utc)
    version = output_of(program, "--version") if program else ""
    return {
        "date": now.date().isoformat(),
        "commit": name,
        "committed": committed or now.isoformat(timespec="seconds"),
        "version": version,
        "machine": machine(arguments.machine),
        "settings": settings,
        "commands": [command],
        "checks": checks,
    }


def add_arguments(parser):
    parser.add_argument("--commit", help="commit that is measured; without it, what git says")
    parser.add_argument("--machine", metavar="NAME", help="machine's name in the result file; default: the GPU's")
