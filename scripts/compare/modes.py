"""What a workload is run under: nothing, gated, other sandboxes; the command line of each and what it lacks where it lacks it.

All are confined to the same: changes in the fresh folder alone, a network of their own or none, everything else as they
recommend.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Callable


@dataclass
class Mode:
    key: str
    title: str
    command: Callable
    # The reason why it cannot be used here, with what to install, or "".
    missing: Callable = lambda stage: ""
    as_root: bool = False


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


def gated(name, scratch=""):
    def command(stage, folder, argv):
        profile = stage.path / f"{name}.toml"
        if not profile.exists():
            profile.write_text(PROFILE.format(name=name, scratch=scratch))
        return [
            str(stage.binaries / "gated-run"), "--embedded", "--consent", "none", "--user", stage.user,
            "--audit", str(stage.path / "audit.jsonl"), "--profile", str(profile), "--", *argv,
        ]

    return command


def no_gated(stage):
    if (stage.binaries / "gated-run").exists():
        return ""
    return f"no gated-run in {stage.binaries}: make build"


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


def command_of(name, package):
    return lambda stage: "" if shutil.which(name) else f"no {name}: apt-get install {package}"


ALL = [
    Mode("bare", "bare", lambda stage, folder, argv: argv),
    Mode("gated", "gated", gated("workspace"), no_gated, as_root=True),
    Mode("scratch", "gated, scratch", gated("scratch", SCRATCH), no_gated, as_root=True),
    Mode("bubblewrap", "bubblewrap", bubblewrap, command_of("bwrap", "bubblewrap")),
    Mode("firejail", "firejail", firejail, command_of("firejail", "firejail")),
]


def usable(wanted, stage):
    there = []
    for mode in wanted:
        reason = mode.missing(stage)
        if reason:
            print(f"not compared: {mode.title}: {reason}", flush=True)
        else:
            there.append(mode)
    return there
