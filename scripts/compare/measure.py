"""Runs one workload in several modes in turn and takes the time; root, which becomes the user for what is measured.

A stage is one run's directories and its user. Every run of a workload gets a fresh folder, made before the clock starts.
"""

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Not below /tmp, which some sandboxes replace.
PLACE = "/var/tmp"
SLOWEST = 600


class Failed(Exception):
    """A workload that did not do its work in a mode, with the reason."""


@dataclass
class Run:
    """One run: seconds of the workload alone, and of everything with the sandbox's start and end."""

    seconds: float
    whole: float


class Stage:
    """A directory with the user's home, a copy of the programs that run inside, and a place for fresh folders."""

    def __init__(self, binaries):
        self.binaries = binaries
        self.user = f"gated-cmp-{os.getpid()}"

    def __enter__(self):
        self.path = Path(tempfile.mkdtemp(prefix="gated-compare.", dir=PLACE))
        self.path.chmod(0o755)
        self.home = self.path / "home"
        try:
            subprocess.run(
                ["useradd", "--system", "--no-create-home", "--home-dir", str(self.home), "--shell", "/bin/sh",
                 "--user-group", self.user],
                check=True,
            )
            entry = pwd.getpwnam(self.user)
            self.uid, self.gid = entry.pw_uid, entry.pw_gid
            self.home.mkdir()
            os.chown(self.home, self.uid, self.gid)
            self.programs = self.path / "programs"
            shutil.copytree(HERE / "inside", self.programs, ignore=shutil.ignore_patterns("__pycache__"))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)
        subprocess.run(["userdel", self.user], check=False, stderr=subprocess.DEVNULL)

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

    def run(self, row, mode):
        folder = self.fresh(row)
        try:
            argv = row.argv(self)
            if row.timed_inside:
                argv = ["/usr/bin/python3", "-I", "-S", str(self.programs / "timed.py"), *argv]
            command = mode.command(self, folder, argv)
            identity = {} if mode.as_root else {"user": self.uid, "group": self.gid, "extra_groups": []}
            runs = []
            for _ in range(row.repeats):
                start = time.monotonic()
                try:
                    done = subprocess.run(
                        command, cwd=folder, env=self.environment(), stdin=subprocess.DEVNULL, capture_output=True,
                        timeout=SLOWEST, **identity,
                    )
                except subprocess.TimeoutExpired:
                    raise Failed(f"did not end within {SLOWEST} s") from None
                whole = time.monotonic() - start
                runs.append(Run(self.outcome(row, folder, done, whole), whole))
            return sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def outcome(row, folder, done, whole):
        """The seconds of a run that did its work; otherwise the last thing it said."""
        if not row.timed_inside:
            if done.returncode != 0:
                raise Failed(last_words(done.stderr + done.stdout) or f"status {done.returncode}")
            return whole
        took = folder / "took.json"
        if not took.exists():
            raise Failed(last_words(done.stderr + done.stdout) or f"status {done.returncode}, and no word from inside")
        told = json.loads(took.read_text())
        if told["status"] != 0:
            raise Failed(last_words((folder / "stderr.txt").read_bytes()) or f"status {told['status']}")
        wrong = row.check(folder)
        if wrong:
            raise Failed(f"its work was not done: {wrong}")
        return told["seconds"]


def last_words(output):
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def row(stage, workload, modes, rounds):
    """By mode, what each round came to: a list of runs, or the reason why there is none."""
    outcomes = {mode.key: [] for mode in modes}
    for number in range(rounds + 1):
        # In turn, and each round begins with another one. The first round is not counted: it finds cold caches.
        first = number % len(modes)
        for mode in modes[first:] + modes[:first]:
            if isinstance(outcomes[mode.key], str):
                continue
            try:
                run = stage.run(workload, mode)
            except Failed as failed:
                outcomes[mode.key] = str(failed)
                continue
            if number > 0:
                outcomes[mode.key].append(run)
    return outcomes
