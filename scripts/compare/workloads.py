"""The rows: what each prepares in its fresh folder, what it runs there, and how one sees that it was done.

`prepare` runs as the user before the clock starts; `argv` is what is measured, with the fresh folder as its cwd.
"""

import os
import random
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import inputs

REPOSITORY_FILES = 3000
REMOVED_FILES = 8000
C_FILES = 40


@dataclass
class Workload:
    key: str
    title: str
    argv: Callable
    prepare: Callable = lambda folder: None
    # What is wrong with the folder afterwards, or "".
    check: Callable = lambda folder: ""
    # The ratio to bare that gated is to keep to, with the workspace performed and with it as scratch.
    target: float | None = None
    scratch_target: float | None = None
    # The figure is what comes on top of bare.
    in_milliseconds: bool = False
    timed_inside: bool = True
    # Changes nothing in its folder, which then serves for all its runs.
    reads_only: bool = False
    # In sessions that a daemon starts, instead of gated-run itself.
    by_daemon: bool = False
    # How often it is run for one figure, the median.
    repeats: int = 1
    # What is fetched before, as root.
    needs: Callable = lambda: None
    # Programs, and the Debian packages that have them.
    programs: dict = field(default_factory=dict)


def shell(script):
    return lambda stage: ["/bin/sh", "-euc", script]


def python(name, *args):
    return lambda stage: ["/usr/bin/python3", "-I", str(stage.programs / name), *args]


def words(rng, count):
    return " ".join(rng.choice(VOCABULARY) for _ in range(count))


VOCABULARY = (
    "a kernel holds one call until somebody has said what becomes of it and the tool that made it does not notice how long that "
    "took because time is measured outside of its process while files directories links sockets names go on as before"
).split()


def tree(folder, files=REPOSITORY_FILES, per_directory=30):
    """Source-like files of some kilobytes, always the same ones."""
    rng = random.Random(7)
    for number in range(files):
        directory = folder / f"part{number // (per_directory * 10)}" / f"module{number // per_directory}"
        if number % per_directory == 0:
            directory.mkdir(parents=True)
        lines = [words(rng, 8) for _ in range(rng.randint(10, 60))]
        (directory / f"file{number}.txt").write_text("\n".join(lines) + "\n")


def quiet(*argv, **more):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, **more)


def to_be_removed(folder):
    for number in range(REMOVED_FILES):
        directory = folder / "tree" / f"d{number // 100}"
        if number % 100 == 0:
            directory.mkdir(parents=True)
        (directory / f"f{number}").write_bytes(b"x")


def repository(folder):
    source = folder / "source"
    source.mkdir()
    tree(source)
    git = ["git", "-C", str(source), "-c", "user.name=A", "-c", "user.email=a@localhost", "-c", "init.defaultBranch=main"]
    quiet(*git, "init", "-q")
    quiet(*git, "add", "-A")
    quiet(*git, "commit", "-q", "-m", "All of it")


CLONE = """
git clone -q --no-hardlinks source clone
cd clone
git status --short
for n in 1 2 3 4 5; do echo more >> part0/module0/file$n.txt; done
git add -A
git -c user.name=A -c user.email=a@localhost commit -q -m more
git status --short
"""


def searched(folder):
    tree(folder / "tree", REPOSITORY_FILES * 2)


def c_files(folder):
    rng = random.Random(3)
    names = []
    for number in range(C_FILES):
        body = [f"static int f{number}_{k}(int x) {{ for (int i = 0; i < {rng.randint(3, 99)}; i++) x = x * {k + 3} + i; return x; }}"
                for k in range(20)]
        calls = " + ".join(f"f{number}_{k}(x)" for k in range(20))
        body.append(f"int g{number}(int x) {{ return {calls}; }}")
        (folder / f"c{number}.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + "\n".join(body) + "\n")
        names.append(f"c{number}")
    main = "".join(f"int g{n}(int);\n" for n in range(C_FILES))
    main += "int main(void) { int x = 0;\n" + "".join(f"x += g{n}(x);\n" for n in range(C_FILES)) + "return x == 42; }\n"
    (folder / "main.c").write_text(main)
    objects = " ".join(f"{name}.o" for name in [*names, "main"])
    (folder / "Makefile").write_text(f"program: {objects}\n\tcc -o $@ $^\n%.o: %.c\n\tcc -O1 -c -o $@ $<\n")


def archive(folder):
    tree(folder / "tree")
    quiet("tar", "-C", str(folder), "-cf", str(folder / "tree.tar"), "tree")
    quiet("rm", "-r", str(folder / "tree"))


def absent(*names):
    return lambda folder: "".join(f"{name} is still there " for name in names if (folder / name).exists())


def present(*names):
    return lambda folder: "".join(f"{name} is missing " for name in names if not (folder / name).exists())


def said_much(folder):
    size = os.path.getsize(folder / "stdout.txt")
    return "" if size > 1000 else f"it printed {size} bytes"


def said_passed(folder):
    return "" if b"180 passed" in (folder / "stdout.txt").read_bytes() else "not all tests passed"


def crate(folder):
    shutil.copytree(inputs.CACHE / "crate", folder, symlinks=True, dirs_exist_ok=True)


def npm_project(folder):
    shutil.copytree(inputs.CACHE / "npm" / "project", folder, dirs_exist_ok=True)
    shutil.copytree(inputs.CACHE / "npm" / "cache", folder / "cache")


def environment_of_python(folder):
    quiet("/usr/bin/python3", "-m", "venv", "--without-pip", str(folder / "venv"))


def suite(folder):
    shutil.copy(Path(__file__).parent / "inside" / "test_compared.py", folder)


def installed(folder):
    there = len(list(folder.glob("venv/lib/python3*/site-packages/*.dist-info")))
    return "" if there == len(inputs.WHEELS) else f"{there} packages are installed"


PIP = f"""
/usr/bin/python3 -m pip --python venv/bin/python --disable-pip-version-check --no-cache-dir -q \
    install --no-index --no-deps --find-links {inputs.CACHE}/wheels {" ".join(inputs.WHEELS)}
"""
NPM = "npm ci --offline --ignore-scripts --no-audit --no-fund --cache cache"
PYTEST = "/usr/bin/python3 -m pytest -q -p no:cacheprovider test_compared.py"


def times(count, command):
    return shell(f"i=0; while [ $i -lt {count} ]; do {command}; i=$((i+1)); done")


ALL = [
    Workload("start", "start and end of `true`", lambda stage: ["/bin/true"], target=8, in_milliseconds=True, timed_inside=False,
             repeats=15),
    Workload("served", "start and end of `true` by the daemon", lambda stage: ["/bin/true"], target=8, in_milliseconds=True,
             timed_inside=False, repeats=15, by_daemon=True),
    Workload("execs", "500 execs by a shell", times(500, "/bin/true"), target=1.2),
    Workload("files", "create, chmod, rename, unlink 3,000 files", python("files.py", "3000"), target=2.0),
    Workload("rm", "`rm -rf` of 8,000 files", shell("rm -rf tree"), to_be_removed, absent("tree"), target=2.5, scratch_target=1.8),
    Workload("git", "`git clone` of 3,000 files, status, commit", shell(CLONE), repository, present("clone/part9"), target=1.2,
             programs={"git": "git"}),
    Workload("grep", "`grep -r` over 6,000 files, 5 times", times(5, "grep -r kernel tree"), searched, said_much, target=1.02,
             reads_only=True),
    Workload("make", "`make -j2` of 40 C files", shell("make -s -j2"), c_files, present("program"), target=1.05,
             programs={"make": "make", "cc": "gcc"}),
    Workload("tar", "extraction of 3,000 files by tar", shell("tar -xf tree.tar"), archive, present("tree/part9"), target=1.5,
             scratch_target=1.25, programs={"tar": "tar"}),
    Workload("cargo", "`cargo build` of a crate with dependencies", shell("/usr/bin/cargo build --offline -j2"), crate,
             present("target/debug/compared"), target=1.05, needs=inputs.crate, programs={"/usr/bin/cargo": "cargo"}),
    Workload("npm", "`npm ci` from a local cache", shell(NPM), npm_project, present("node_modules/express", "node_modules/mocha"),
             target=1.15, needs=inputs.npm, programs={"npm": "npm"}),
    Workload("pip", "`pip install` of ten wheels", shell(PIP), environment_of_python, installed, target=1.15, needs=inputs.wheels,
             programs={"/usr/lib/python3/dist-packages/pip": "python3-pip"}),
    Workload("pytest", "Python test suite with subprocesses", shell(PYTEST), suite, said_passed, target=1.05,
             programs={"py.test-3": "python3-pytest"}),
    Workload("sqlite", "SQLite, 300 inserts with fsync, rollback journal", python("inserts.py", "300", "DELETE"),
             check=present("data.sqlite"), target=1.02),
    Workload("wal", "SQLite, 1,000 inserts with fsync, WAL", python("inserts.py", "1000", "WAL"),
             check=present("data.sqlite"), target=1.02),
    Workload("loopback", "20,000 Redis-style round trips over loopback", python("loopback.py", "20000"), target=1.02),
    Workload("find", "`find` over 6,000 files, 20 times", times(20, "find tree -type f -size +1k"), searched, said_much,
             target=1.02, reads_only=True),
    Workload("rg", "`rg` over 6,000 files, 10 times", times(10, "rg kernel tree"), searched, said_much, target=1.02, reads_only=True,
             programs={"rg": "ripgrep"}),
]


def usable(wanted):
    """Those whose programs and inputs are there, and what to say of the others."""
    there, reasons = [], {}
    for row in wanted:
        lacks = sorted({package for program, package in row.programs.items()
                        if not (Path(program).exists() if program.startswith("/") else shutil.which(program))})
        try:
            if lacks:
                raise inputs.Missing(f"apt-get install {' '.join(lacks)}")
            row.needs()
            there.append(row)
        except inputs.Missing as missing:
            reasons[row.key] = str(missing)
    return there, reasons
