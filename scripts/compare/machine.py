"""What machine a comparison ran on, and which versions of everything."""

import datetime
import os
import subprocess
from pathlib import Path

import modes


def first_line(*argv):
    try:
        said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = (said.stdout + said.stderr).strip().splitlines()
    return " ".join(lines[0].split()) if lines else ""


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return os.uname().machine


def memory():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return f"{int(line.split()[1]) / 2**20:.0f} GiB"
    return ""


def describe(binaries, place):
    """Of the machine now: names and values, in the order in which they are shown."""
    root = Path(__file__).resolve().parents[2]
    return {
        "date": datetime.date.today().isoformat(),
        "processor": f"{processor()}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores",
        "memory": memory(),
        "kernel": f"{os.uname().sysname} {os.uname().release} {os.uname().machine}",
        "file system": first_line("findmnt", "-n", "-o", "FSTYPE,OPTIONS", "-T", str(place)),
        "load before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
        "gated": first_line(str(binaries / "gated-run"), "--version") + " at " + first_line(
            "git", "-c", f"safe.directory={root}", "-C", str(root), "describe", "--always", "--dirty"),
        "bubblewrap": first_line("bwrap", "--version"),
        "firejail": first_line("firejail", "--version"),
        "sandlock": first_line(str(modes.SANDLOCK), "-I", "-c", "import importlib.metadata as m; print(m.version('sandlock'))"),
        "nono-py": first_line(str(modes.NONO_PY), "-I", "-c", "import importlib.metadata as m; print(m.version('nono-py'))"),
        "nono": first_line(str(modes.NONO), "--version"),
        "programs": ", ".join(filter(None, (
            first_line("git", "--version"), first_line("grep", "--version"), first_line("make", "--version"),
            first_line("cc", "--version"), first_line("tar", "--version"), first_line("/usr/bin/cargo", "--version"),
            "npm " + first_line("npm", "--version"), first_line("/usr/bin/python3", "--version"),
            first_line("/usr/bin/python3", "-m", "pytest", "--version"), "SQLite " + first_line(
                "/usr/bin/python3", "-c", "import sqlite3; print(sqlite3.sqlite_version)"),
            first_line("find", "--version"), first_line("rg", "--version"),
        ))),
    }
