"""How the cost of an operation grows with sessions, processes, files and rules; and what sessions hold. As root.

An operation is one of four calls in a loop: an open that creates, chmod, rename, unlink; or an open to read. The figure
is the time that all processes took for all of theirs, over their number.
"""

import os
import shutil
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import modes

OPERATIONS = 4
SESSIONS = (1, 10, 100)
PROCESSES = (1, 8, 64)
FILES = (10**3, 10**4, 10**5, 10**6)
RULES = (10, 100, 1000, 10**4)
LOOPS = 6400


@dataclass
class Point:
    """One size: microseconds of an operation, each round."""

    size: int
    bare: list = field(default_factory=list)
    gated: list = field(default_factory=list)
    # By name: what else was seen, of gated.
    more: dict = field(default_factory=dict)


def ours(pid):
    """gated's own processes below this one, itself included."""
    children = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                parent = int((directory / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(directory.name))
    found, left = [], [pid]
    while left:
        one = left.pop()
        left += children.get(one, [])
        try:
            if "gated" in os.path.basename(os.readlink(f"/proc/{one}/exe")):
                found.append(one)
        except OSError:
            continue
    return found


def held(pids):
    """KiB of memory, what is shared counted by share, and descriptors of processes."""
    memory = descriptors = 0
    for pid in pids:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    memory += int(line.split()[1])
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            continue
    return memory, descriptors


class Running:
    """One session, or bare process, that waits for its work."""

    def __init__(self, stage, mode, folder, processes, loops, directory, kind):
        program = ["/usr/bin/python3", "-I", "-S", str(stage.programs / "operations.py"), kind, directory, str(processes), str(loops)]
        self.start = time.monotonic()
        self.process = stage.start(
            mode, folder, program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read().strip() or f"status {self.process.wait()}")
        return line.strip()

    def ready(self):
        if self.line() != "ready":
            raise RuntimeError("not ready")
        return time.monotonic() - self.start

    def go_on(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def end(self):
        self.go_on()
        self.process.communicate(timeout=60)
        if self.process.returncode != 0:
            raise RuntimeError(f"status {self.process.returncode}")

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def empty(folder):
    """Prepares nothing."""


class Nothing:
    prepare = staticmethod(empty)


def measured(stage, mode, sessions=1, processes=1, loops=LOOPS, folder=None, directory=".", kind="changes"):
    """Microseconds of an operation, and what was held meanwhile."""
    folders = [folder] if folder else [stage.fresh(Nothing) for _ in range(sessions)]
    running = []
    more = {}
    try:
        running = [Running(stage, mode, place, processes, loops // sessions, directory, kind) for place in folders]
        starts = [one.ready() for one in running]
        begin = time.monotonic()
        for one in running:
            one.go_on()
        for one in running:
            one.line()
        seconds = time.monotonic() - begin
        if mode.key != "bare":
            pids = [pid for one in running for pid in ours(one.process.pid)]
            memory, descriptors = held(pids)
            more = {"memory": memory / sessions, "descriptors": descriptors / sessions, "start": statistics.median(starts) * 1000}
        for one in running:
            one.end()
        if mode.key != "bare":
            more["left"] = left_of(pids)
        return seconds / (loops * OPERATIONS) * 1e6, more
    finally:
        for one in running:
            one.kill()
        if not folder:
            for place in folders:
                shutil.rmtree(place, ignore_errors=True)


def left_of(pids):
    """How many of these processes are there some seconds after their session."""
    latest = time.monotonic() + 5
    while (left := sum(os.path.exists(f"/proc/{pid}") for pid in pids)) and time.monotonic() < latest:
        time.sleep(0.01)
    return left


def rounds(point, number, take):
    """Bare and gated in turn."""
    for turn in range(number):
        for key in ("bare", "gated") if turn % 2 else ("gated", "bare"):
            value, more = take(key)
            getattr(point, key).append(value)
            for name, figure in more.items():
                point.more.setdefault(name, []).append(figure)


def sessions(stage, number, sizes):
    for size in sizes:
        point = Point(size)
        rounds(point, number, lambda key: measured(stage, modes.by_key(key), sessions=size))
        yield point


def processes(stage, number, sizes):
    for size in sizes:
        point = Point(size)
        rounds(point, number, lambda key: measured(stage, modes.by_key(key), processes=size))
        yield point


def filled(folder, have, wanted):
    """Empty files, a thousand in a directory, as the user."""
    for number in range(have, wanted):
        if number % 1000 == 0:
            os.makedirs(f"{folder}/tree/part{number // 100000}/part{number // 1000}")
        os.close(os.open(f"{folder}/tree/part{number // 100000}/part{number // 1000}/file{number}", os.O_WRONLY | os.O_CREAT, 0o644))


def files(stage, number, sizes):
    """One tree that grows; the operations are in one of its directories, beside a thousand files."""
    yield from in_tree(stage, number, sizes, "changes")


def reads(stage, number, sizes):
    """The same tree, and its files are opened to read."""
    yield from in_tree(stage, number, sizes, "reads")


def in_tree(stage, number, sizes, kind):
    folder = stage.fresh(Nothing)
    try:
        have = 0
        for size in sizes:
            stage.as_user(filled, folder, have, size)
            os.sync()
            have = size
            point = Point(size)
            rounds(point, number, lambda key: measured(stage, modes.by_key(key), folder=folder, directory="tree/part0/part0", kind=kind))
            yield point
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Short: a policy file may be 1 MiB long.
RULE = '[[rule]]\nid="r{number}"\naccess=["write"]\npath=["{{workspace}}/kept/{number}/**"]\nlevel="ask"\n'


def rules(stage, number, sizes):
    """Rules about other trees of the workspace."""
    for size in sizes:
        name = f"rules{size}"
        (stage.path / f"{name}.toml").write_text(modes.profile(name) + "".join(RULE.format(number=n) for n in range(size)))
        gated = modes.Mode("gated", "gated", modes.gated(name), as_root=True)
        point = Point(size)
        rounds(point, number, lambda key: measured(stage, gated if key == "gated" else modes.by_key(key)))
        yield point


KINDS = {
    "sessions": ("sessions at once", sessions, SESSIONS),
    "processes": ("processes in one session", processes, PROCESSES),
    "files": ("files in the tree", files, FILES),
    "reads": ("files in the tree, opened to read", reads, FILES),
    "rules": ("rules in the policy", rules, RULES),
}


def run(stage, store, only, number, most):
    kept = store.read("growth")
    for kind, (title, points, sizes) in KINDS.items():
        if only and kind not in only:
            continue
        found = []
        for point in points(stage, number, [size for size in sizes if size <= most]):
            found.append({"size": point.size, "bare": statistics.median(point.bare), "gated": statistics.median(point.gated),
                          "more": {name: statistics.median(figures) for name, figures in point.more.items()}})
            print(f"{title}: {point.size}: bare {found[-1]['bare']:.2f} µs, gated {found[-1]['gated']:.2f} µs, "
                  + ", ".join(f"{name} {value:.1f}" for name, value in found[-1]["more"].items()), flush=True)
        kept[kind] = found
        store.write("growth", kept)
