"""What a workload is run under: nothing, gated, other sandboxes; the command line of each and what it lacks where it lacks it.

All are confined to the same: changes in the fresh folder alone, a network of their own or none, everything else as they
recommend.
"""

import shutil
from dataclasses import dataclass
from typing import Callable

import daemon
import inputs


@dataclass
class Mode:
    key: str
    title: str
    command: Callable
    # The reason why it cannot be used here, with what to install, or "".
    missing: Callable = lambda stage: ""
    as_root: bool = False
    # The same by the daemon, if there is such a thing.
    by_daemon: Callable | None = None

    def does(self, row):
        return not row.by_daemon or self.key == "bare" or self.by_daemon is not None

    def for_row(self, row):
        if row.by_daemon and self.by_daemon is not None:
            return Mode(self.key, self.title, self.by_daemon)
        return self


PROFILE = """\
schema = 1

[profile]
name = "compare-{name}"
extends = ["base"]

[vars]
workspace = "@cwd"
{scratch}
[[rule]]
id = "workspace"
access = ["write"]
path = ["{{workspace}}/**"]
level = "allow"
"""
SCRATCH = """
[scratch]
path = ["{workspace}/**"]
"""


def profile(name, scratch=""):
    return PROFILE.format(name=name, scratch=scratch)


def gated(name):
    def command(stage, folder, argv):
        return [
            str(stage.binaries / "gated-run"), "--embedded", "--consent", "none", "--user", stage.user,
            "--audit", str(stage.path / "audit.jsonl"), "--profile", str(stage.path / f"{name}.toml"), "--", *argv,
        ]

    return command


def gated_by_daemon(name):
    def command(stage, folder, argv):
        return [
            "env", f"DBUS_SYSTEM_BUS_ADDRESS={daemon.address(stage)}", str(stage.binaries / "gated-run"),
            "--profile", str(stage.path / f"{name}.toml"), "--", *argv,
        ]

    return command


def no_gated(stage):
    if (stage.binaries / "gated-run").exists():
        return ""
    return f"no gated-run in {stage.built}: make build"


def bubblewrap(stage, folder, argv):
    return [
        "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind", str(folder), str(folder),
        "--unshare-all", "--die-with-parent", "--new-session", "--chdir", str(folder), "--", *argv,
    ]


def firejail(stage, folder, argv):
    return [
        "firejail", "--quiet", "--noprofile", "--read-only=/", f"--read-write={folder}", "--private-tmp", "--keep-var-tmp", "--private-dev",
        "--net=none", "--caps.drop=all", "--nonewprivs", "--noroot", "--seccomp", "--", *argv,
    ]


# What is not Debian's is looked for here: in the cache, for everybody to execute.
SANDLOCK = inputs.CACHE / "sandlock/bin/python3"
NONO_PY = inputs.CACHE / "nono-py/bin/python3"
NONO = inputs.CACHE / "nono/bin/nono"


def sandlock(kind):
    def command(stage, folder, argv):
        return [str(SANDLOCK), "-I", str(stage.programs / "sandlock_run.py"), kind, str(folder), *argv]

    return command


def nono_py(stage, folder, argv):
    return [str(NONO_PY), "-I", str(stage.programs / "nono_run.py"), str(folder), *argv]


def nono(stage, folder, argv):
    return [str(NONO), "--silent", "run", "--read", "/", "--allow", str(folder), "--allow", "/tmp", "--", *argv]


def in_venv(python, package):
    place = python.parents[1]
    return lambda stage: "" if python.exists() else f"no {python}: python3 -m venv {place} && {place}/bin/pip install {package}"


def no_nono(stage):
    return "" if NONO.exists() else f"no {NONO}: cargo install nono-cli --root {NONO.parents[1]}"


def command_of(name, package):
    return lambda stage: "" if shutil.which(name) else f"no {name}: apt-get install {package}"


ALL = [
    Mode("bare", "bare", lambda stage, folder, argv: argv),
    Mode("gated", "gated", gated("workspace"), no_gated, as_root=True, by_daemon=gated_by_daemon("workspace")),
    Mode("scratch", "gated, scratch", gated("scratch"), no_gated, as_root=True),
    Mode("bubblewrap", "bubblewrap", bubblewrap, command_of("bwrap", "bubblewrap")),
    Mode("firejail", "firejail", firejail, command_of("firejail", "firejail")),
    Mode("sandlock", "sandlock", sandlock("landlock"), in_venv(SANDLOCK, "sandlock")),
    Mode("sandlock-cow", "sandlock, copy on write", sandlock("cow"), in_venv(SANDLOCK, "sandlock")),
    Mode("sandlock-policy", "sandlock, policy function", sandlock("policy"), in_venv(SANDLOCK, "sandlock")),
    Mode("nono-py", "nono, Python package", nono_py, in_venv(NONO_PY, "nono-py")),
    Mode("nono", "nono", nono, no_nono),
]


def by_key(key):
    return next(mode for mode in ALL if mode.key == key)


PROFILES = {"workspace": "", "scratch": SCRATCH}


def usable(wanted, stage):
    """Those that are installed, and by title what the others lack."""
    for name, scratch in PROFILES.items():
        (stage.path / f"{name}.toml").write_text(profile(name, scratch))
    reasons = {mode.title: mode.missing(stage) for mode in wanted}
    return [mode for mode in wanted if not reasons[mode.title]], {title: reason for title, reason in reasons.items() if reason}
