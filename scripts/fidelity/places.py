"""A fresh folder for one run on one side, and the run in it. As root: the command itself becomes an ordinary user."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
UID = GID = 60777
SIDES = ("bare", "inside")
STOPPED = threading.Event()


class Ended:
    """What a command left: its output, its place (still there), and whether it ended in time."""

    def __init__(self, output, place, in_time):
        self.output, self.place, self.in_time = output, place, in_time


def _write_users(place):
    for name, line in (
        ("passwd", f"gated-test:x:{UID}:{GID}::{place}/home:/bin/sh\n"),
        ("group", f"gated-test:x:{GID}:\n"),
    ):
        machine = Path("/etc", name).read_text().rstrip("\n")
        (place / "gated" / name).write_text(f"{machine}\n{line}")


def _processes_of(place):
    """All that runs with this place in its environment or command line."""
    mark = str(place).encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes() or mark in (entry / "cmdline").read_bytes():
                yield int(entry.name)


def _end_all(place):
    """Test suites leave daemons behind, which hold files of the place and sockets."""
    for _ in range(100):
        left = list(_processes_of(place))
        if not left:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    raise RuntimeError(f"processes of {place} do not end: {left}")


def _ends(process, limit):
    """Waits for the end; false after so many seconds, or if all is to stop."""
    end = time.monotonic() + limit
    while time.monotonic() < end and not STOPPED.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
            return True
    return False


@contextlib.contextmanager
def run(side, argv, *, gated_run, profile, source=None, limit=900):
    """Runs `argv` to its end, as an ordinary user in `PLACE/home/work`; gives an `Ended`, and removes all of it afterwards."""
    assert side in SIDES
    # Both sides have names of the same length: limits on the length of paths fall alike.
    place = Path(tempfile.mkdtemp(prefix="fidelity-", dir="/var/tmp"))
    try:
        place.chmod(0o755)
        for name in ("gated", "source", "home", "home/work"):
            (place / name).mkdir()
        for name in ("home", "home/work"):
            os.chown(place / name, UID, GID)
        _write_users(place)
        shutil.copy(profile, place / "gated" / "profile.toml")
        line = [HERE / "side.sh", side, place, place / "gated" / "profile.toml", gated_run, source or "", "--", *argv]
        with open(place / "gated" / "output", "wb+") as output:
            process = subprocess.Popen(list(map(str, line)), stdout=output, stderr=subprocess.STDOUT)
            try:
                in_time = _ends(process, limit)
            finally:
                _end_all(place)
                process.wait()
            output.seek(0)
            text = output.read().decode(errors="replace")
        yield Ended(text, place, in_time)
    finally:
        _end_all(place)
        _remove(place)


def _remove(place):
    """Everything below, whatever permissions tests left; nothing is mounted there outside of the command's own namespace."""
    subprocess.run(["chattr", "-R", "-f", "-i", "-a", place], check=False, capture_output=True)
    shutil.rmtree(place)
