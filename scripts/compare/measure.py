"""Runs one workload in several modes in turn and takes the time; root, which becomes the user for what is measured.

A stage is one run's directories, and its user, whom only the stage's own mount namespace knows. Every run of a workload gets
a fresh folder, made before the clock starts.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import daemon

HERE = Path(__file__).resolve().parent
# Not below /tmp, which some sandboxes replace, nor below /var, where firejail lets nothing be executed.
PLACE = Path("/srv")
SLOWEST = 120


class Failed(Exception):
    """A workload that did not do its work in a mode, with the reason."""


@dataclass
class Run:
    """One run: seconds of the workload alone, and of everything with the sandbox's start and end."""

    seconds: float
    whole: float


class Stage:
    """In a mount namespace of its own: the user's home, the programs that run inside, and a place for fresh folders."""

    # In no passwd of a machine.
    uid = gid = 60779
    user = "gated-compare"

    def __init__(self, binaries):
        self.built = binaries

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="gated-compare.", dir=PLACE))
        try:
            self.path.chmod(0o755)
            self.home = self.path / "home"
            self.home.mkdir()
            os.chown(self.home, self.uid, self.gid)
            self.programs = self.path / "programs"
            shutil.copytree(HERE / "inside", self.programs, ignore=shutil.ignore_patterns("__pycache__"))
            # Where the user may execute them, too.
            self.binaries = self.path / "bin"
            self.binaries.mkdir()
            for name in ("gated-run", "gated-session", "gatedd"):
                if (self.built / name).exists():
                    linked(self.built / name, self.binaries / name)
            # Seen in this mount namespace alone, so that no file of the machine changes.
            self.lay_over("/etc/passwd", f"{self.user}:x:{self.uid}:{self.gid}::{self.home}:/bin/sh\n")
            self.lay_over("/etc/group", f"{self.user}:x:{self.gid}:\n")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def lay_over(self, file, line):
        own = self.path / Path(file).name
        own.write_text(Path(file).read_text().rstrip("\n") + "\n" + line)
        subprocess.run(["mount", "--bind", str(own), file], check=True)

    def environment(self):
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "USER": self.user,
            "LOGNAME": self.user,
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def as_user(self, function, *args):
        """Calls a function in a process of the user's own."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.setgroups([])
                os.setresgid(self.gid, self.gid, self.gid)
                os.setresuid(self.uid, self.uid, self.uid)
                os.environ.clear()
                os.environ.update(self.environment())
                function(*args)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        if os.waitpid(child, 0)[1] != 0:
            raise Failed("its folder could not be prepared")

    def fresh(self, row):
        """A folder with what a workload needs, on the disk before the clock starts."""
        folder = Path(tempfile.mkdtemp(prefix="work.", dir=self.path))
        os.chown(folder, self.uid, self.gid)
        self.as_user(row.prepare, folder)
        os.sync()
        return folder

    @contextmanager
    def folder(self, row):
        """A fresh folder that is removed at the end."""
        folder = self.fresh(row)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def run(self, row, mode, folder=None):
        """One run, in this folder or a fresh one."""
        if folder is None:
            with self.folder(row) as folder:
                return self.run(row, mode, folder)
        try:
            argv = row.argv(self)
            if row.timed_inside:
                argv = ["/usr/bin/python3", "-I", "-S", str(self.programs / "timed.py"), *argv]
            runs = []
            for _ in range(row.repeats):
                # What another run said, in a folder that serves for several.
                (folder / "took.json").unlink(missing_ok=True)
                status, output, whole = self.done(mode.for_row(row), folder, argv)
                if mode.key not in ("bare", "gated", "scratch"):
                    self.end_what_is_left()
                runs.append(Run(self.outcome(row, folder, status, output, whole), whole))
            return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]
        except Failed as failed:
            raise Failed(str(failed).replace(f"{folder}/", "").replace(str(folder), ".")) from None

    def start(self, mode, folder, argv, **streams):
        """A process group of its own, by the user if the mode does not need root."""
        identity = {} if mode.as_root else {"user": self.uid, "group": self.gid, "extra_groups": []}
        return subprocess.Popen(
            mode.command(self, folder, argv), cwd=folder, env=self.environment(), start_new_session=True, **streams, **identity
        )

    def done(self, mode, folder, argv):
        """Status, output and seconds of a command in a mode."""
        begin = time.monotonic()
        process = self.start(mode, folder, argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            output, _ = process.communicate(timeout=SLOWEST)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise Failed(f"did not end within {SLOWEST} s") from None
            raise
        return process.returncode, output, time.monotonic() - begin

    def end_what_is_left(self):
        """Kills what another sandbox that has ended left of the comparison's own user: it would work beside the next run."""
        for process in Path("/proc").iterdir():
            try:
                if process.name.isdigit() and process.stat().st_uid == self.uid:
                    os.kill(int(process.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError):
                pass

    @staticmethod
    def outcome(row, folder, status, output, whole):
        """The seconds of a run that did its work; otherwise what it complained of."""
        if not row.timed_inside:
            if status != 0:
                raise Failed(complaint(output) or f"status {status}")
            return whole
        took = folder / "took.json"
        if not took.exists():
            raise Failed(complaint(output) or f"status {status}, and no word from inside")
        told = json.loads(took.read_text())
        if told["status"] != 0:
            raise Failed(complaint((folder / "stderr.txt").read_bytes()) or f"status {told['status']}")
        wrong = row.check(folder)
        if wrong:
            raise Failed(f"its work was not done: {wrong}")
        return told["seconds"]


def linked(source, to):
    """The same file under another name, or a copy where that cannot be."""
    try:
        os.link(source, to)
    except OSError:
        shutil.copy(source, to)


def complaint(output):
    """The first line that speaks of an error, or else the last one."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "denied" in line.lower() or "fatal" in line.lower()]
    return (errors or lines[-1:] or [""])[0][:200]


def warm(stage, modes):
    """Once in each mode, not counted: its programs come from the disk."""
    folder = Path(tempfile.mkdtemp(prefix="work.", dir=stage.path))
    os.chown(folder, stage.uid, stage.gid)
    for mode in modes:
        stage.done(mode, folder, ["/usr/bin/python3", "-c", "pass"])


def row(stage, workload, modes, rounds):
    """By mode, what each round came to: a list of runs, or the reason why there is none."""
    try:
        with (
            stage.folder(workload) if workload.reads_only else nullcontext() as folder,
            daemon.running(stage) if workload.by_daemon else nullcontext(),
        ):
            return in_turn(stage, workload, [mode for mode in modes if mode.does(workload)], rounds, folder)
    except daemon.NotThere as reason:
        return {mode.key: str(reason) for mode in modes if mode.does(workload)}


def in_turn(stage, workload, modes, rounds, folder):
    outcomes = {mode.key: [] for mode in modes}
    # Not counted: it finds cold caches.
    try:
        stage.run(workload, modes[0], folder)
    except Failed as failed:
        outcomes[modes[0].key] = str(failed)
    for number in range(rounds):
        # In turn, and each round begins with another one.
        first = number % len(modes)
        for mode in modes[first:] + modes[:first]:
            if isinstance(outcomes[mode.key], str):
                continue
            try:
                outcomes[mode.key].append(stage.run(workload, mode, folder))
            except Failed as failed:
                outcomes[mode.key] = str(failed)
    return outcomes
