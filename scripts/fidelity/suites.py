"""The test suites: what each needs, its units (what is run in one go, in a fresh place) and how their results are read."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from results import FAIL, KNOWN, PASS, SKIP

HERE = Path(__file__).resolve().parent


class Results(dict):
    """Test to result. Of a name that occurs twice, `NAME #2` is the second."""

    def put(self, name, result):
        unique, number = name, 1
        while unique in self:
            number += 1
            unique = f"{name} #{number}"
        self[unique] = result


def sources(cache, package):
    """The unpacked Debian source of a package, fetched once."""
    if not (cache / package).is_dir():
        subprocess.run([HERE / "sources.sh", cache, package], check=True)
    return cache / package


def built(directory, *commands):
    """Runs the commands there unless they were all done before."""
    done = directory / ".built-for-fidelity"
    if not done.exists():
        for command in commands:
            print(f"  {command}", flush=True)
            log = directory / "fidelity-build.log"
            with open(log, "ab") as output:
                status = subprocess.run(command, shell=True, cwd=directory, stdout=output, stderr=subprocess.STDOUT)
            if status.returncode != 0:
                raise SystemExit(f"{directory}: `{command}` fails, see {log}")
        done.touch()
    return directory


class Suite:
    def may_be_empty(self, unit):
        """Whether a unit may have no tests for this program."""
        return False


class CPython(Suite):
    """Of the interpreter in /usr/bin: the modules of its `test` package that are about what a session comes between."""

    name = "cpython"
    MODULES = (
        "test_os", "test_posix", "test_shutil", "test_subprocess", "test_signal", "test_socket", "test_tempfile",
        "test_pathlib", "test_asyncio",
    )
    SHORT = ("test_os", "test_posix", "test_shutil", "test_tempfile", "test_pathlib")
    PYTHON = "/usr/bin/python3.11"
    # All others have their files where each change is performed by the supervisor. It asks a socket for the name that it was bound
    # to, to connect there: of one outside of /tmp a session says the last component only, and the other end waits for ever.
    IN_TMP = ("test_socket",)
    # Where they fail, threads of theirs race with what the `test` package makes of a failure, and it crashes: `unittest` runs them.
    APART = {"test_socket": "UDPLITE"}
    APART_RAN = re.compile(r"^\w+ \(test\.(test_\w+\.\w+\.\w+)\) \.\.\. (skipped)?", re.MULTILINE)
    APART_FAILED = re.compile(r"^(?:ERROR|FAIL): \w+ \(test\.(test_\w+\.\w+\.\w+)\)", re.MULTILINE)

    def prepare(self, cache):
        if not Path("/usr/lib/python3.11/test/test_os.py").exists():
            raise SystemExit("no test suite of Python: apt-get install libpython3.11-testsuite")

    def units(self, short):
        return self.SHORT if short else self.MODULES

    def source(self):
        return None

    def programs(self):
        return (Path(self.PYTHON),)

    def command(self, unit):
        # Nothing large, nothing on the network, no display.
        resources = "all,-largefile,-extralargefile,-network,-urlfetch,-gui,-audio"
        temp = "/tmp" if unit in self.IN_TMP else "$HOME/temp"
        test = f"{self.PYTHON} -m test -v -u {resources} --tempdir {temp} --junit-xml ../results.xml {unit}"
        first = f"mkdir ../temp && export TMPDIR={temp} && "
        if unit in self.APART:
            first += f"{test} -i '*{self.APART[unit]}*'; echo apart: && "
            test = f"{self.PYTHON} -m unittest -v -k {self.APART[unit]} test.{unit}"
        return ["/bin/sh", "-c", f"{first}exec {test}"]

    def read(self, unit, ended):
        results = Results()
        _, _, apart = ended.output.partition("\napart:\n")
        for name, skipped in self.APART_RAN.findall(apart):
            results[name] = SKIP if skipped else PASS
        for name in self.APART_FAILED.findall(apart):
            results[name] = FAIL
        try:
            tree = ElementTree.parse(ended.place / "home/results.xml")
        except (OSError, ElementTree.ParseError):
            return results
        for case in tree.iter("testcase"):
            kinds = {child.tag for child in case}
            result = FAIL if kinds & {"failure", "error"} else SKIP if "skipped" in kinds else PASS
            # Subtests that fail are cases of the same name.
            name = case.get("name").removeprefix("test.")
            if results.get(name) != FAIL:
                results[name] = result
        return results


class Tap:
    """Lines of the Test Anything Protocol."""

    LINE = re.compile(r"^(not )?ok (\d+)(?: - | )?(.*)$", re.MULTILINE)

    @classmethod
    def read(cls, unit, text):
        results = Results()
        for bad, number, rest in cls.LINE.findall(text):
            words, _, directive = rest.partition(" # ")
            directive = directive or (rest[2:] if rest.startswith("# ") else "")
            if directive.startswith("TODO"):
                result = KNOWN if bad else PASS
            elif directive.lower().startswith("skip"):
                result = SKIP
            else:
                result = FAIL if bad else PASS
            results.put(f"{unit} {number} {words.strip()}".strip(), result)
        if re.search(r"^1\.\.0", text, re.MULTILINE):
            results.put(f"{unit} all", SKIP)
        return results


class Git(Suite):
    """Of /usr/bin/git: its own scripts t0000 to t3999, which need helpers that its source builds."""

    name = "git"
    SHORT = ()
    GROUPS = "t[0-3][0-9][0-9][0-9]-*.sh"

    def prepare(self, cache):
        # What its programs can do is what decides which tests are skipped: of the installed ones, as they are.
        options = "NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_TCLTK=1 NO_OPENSSL=1 NO_PYTHON=1 NO_INSTALL_HARDLINKS=1"
        self.tree = built(
            sources(cache, "git"),
            f"make -j$(nproc) CFLAGS='-O1 -Wall' {options} GIT-BUILD-OPTIONS t/helper/test-tool",
            "make -C templates SHELL_PATH=/bin/sh PERL_PATH=/usr/bin/perl",
            "chmod -R a+rX .",
        )
        self.scripts = sorted(path.name for path in (self.tree / "t").glob(self.GROUPS))

    def units(self, short):
        return self.SHORT if short else self.scripts

    def source(self):
        return self.tree

    def programs(self):
        return (Path("/usr/bin/git"), self.tree / "t/helper/test-tool")

    def command(self, unit):
        script = (
            'cd "$SOURCE/t"; export GIT_TEST_INSTALLED=/usr/bin TEST_OUTPUT_DIRECTORY=$HOME/work GIT_TEST_CHAIN_LINT=0;'
            f' exec ./{unit} --root="$HOME/work/trash" --no-chain-lint'
        )
        return ["/bin/bash", "-c", script]

    def read(self, unit, ended):
        return Tap.read(unit.removesuffix(".sh"), ended.output)


class Busybox(Suite):
    """Of /usr/bin/busybox: the testsuite of its source, with the configuration that Debian builds it with."""

    name = "busybox"
    LINE = re.compile(r"^(PASS|FAIL|SKIPPED|UNTESTED): (.*)$", re.MULTILINE)
    RESULTS = {"PASS": PASS, "FAIL": FAIL, "SKIPPED": SKIP, "UNTESTED": SKIP}

    def prepare(self, cache):
        # Each run would build this `echo` for itself.
        echo = "cc -Os -o testsuite/echo-ne scripts/echo.c"
        self.tree = built(sources(cache, "busybox"), echo, "chmod -R a+rX .")
        tests = self.tree / "testsuite"
        new_style = {path.stem for path in tests.glob("*.tests")}
        old_style = {path.name for path in tests.iterdir() if path.is_dir() and not path.name.startswith(".")}
        self.applets = sorted(new_style | old_style)

    def units(self, short):
        return () if short else self.applets

    def source(self):
        return self.tree

    def programs(self):
        return (Path("/usr/bin/busybox"),)

    def command(self, unit):
        # It writes beside the tests and the program.
        script = (
            'cp -r "$SOURCE/testsuite" . && cp "$SOURCE/debian/config/pkg/deb" .config && ln -s /usr/bin/busybox busybox'
            f" && cd testsuite && exec ./runtest -v {unit}"
        )
        return ["/bin/bash", "-c", script]

    def may_be_empty(self, unit):
        # Tests of the source, and folders whose tests are left out unless a variable asks for them.
        return unit in ("all_sourcecode", "ash", "hush")

    def read(self, unit, ended):
        results = Results()
        for word, test in self.LINE.findall(ended.output):
            results.put(f"{unit}: {test}", self.RESULTS[word])
        return results


class Sqlite(Suite):
    """Of SQLite's source as Debian has it: its own tests in Tcl that are about files, locks, the WAL, crashes and processes."""

    name = "sqlite"
    PATTERNS = (
        "wal*.test", "lock*.test", "crash*.test", "journal*.test", "jrnlmode*.test", "pager*.test", "io*.test", "sync*.test",
        "tempdb*.test", "temptable*.test", "tempfault.test", "attach*.test", "backup*.test", "vacuum*.test", "incrvacuum*.test",
        "shared*.test", "mmap*.test", "multiplex*.test", "delete_db.test", "unixexcl.test", "symlink*.test", "cffault.test",
        "oserror.test", "syscall.test", "filefmt.test", "filectrl.test", "shell[0-9]*.test", "exclusive*.test", "superlock.test",
        "snapshot*.test", "quota*.test", "savepoint*.test", "rollback*.test", "readonly.test", "openv2.test", "uri*.test",
        "tkt-5d863f876e.test", "dbstatus*.test", "fallocate.test", "chunksize.test", "bigfile*.test", "nolock.test", "zerodamage.test",
    )
    OK = re.compile(r"^(\S+)\.\.\. (Ok|Omitted)\s*$", re.MULTILINE)
    NOT_OK = re.compile(r"^! (\S+) (?:expected|got)", re.MULTILINE)
    # Repeated until a transaction of random length is not cut short by the crash: how often is chance, bare too.
    BY_CHANCE = re.compile(r"^(crash-4\.[23])\.\d+")
    END = re.compile(r"^(\d+) errors out of (\d+) tests", re.MULTILINE)

    def prepare(self, cache):
        source = sources(cache, "sqlite3")
        self.tree = built(
            source,
            "mkdir -p build && cd build && ../configure --with-tcl=/usr/lib/tcl8.6 CFLAGS=-O1 && make testfixture sqlite3",
            "chmod -R a+rX .",
        )
        tests = self.tree / "test"
        self.tests = sorted({path.name for pattern in self.PATTERNS for path in tests.glob(pattern)})

    def units(self, short):
        return () if short else self.tests

    def source(self):
        return self.tree

    def programs(self):
        return (self.tree / "build/testfixture", self.tree / "build/sqlite3")

    def command(self, unit):
        # Some start `testfixture` and `sqlite3` where they are, by a relative path.
        script = (
            f'ln -s "$SOURCE"/build/testfixture "$SOURCE"/build/sqlite3 . && exec ./testfixture "$SOURCE/test/{unit}" --verbose=1'
        )
        return ["/bin/bash", "-c", script]

    def read(self, unit, ended):
        results = Results()
        name = unit.removesuffix(".test")
        for test, word in self.OK.findall(ended.output):
            result = PASS if word == "Ok" else SKIP
            if self.BY_CHANCE.match(test):
                repeated = self.BY_CHANCE.sub(r"\1.N", test)
                results[f"{name}: {repeated}"] = result
            else:
                results.put(f"{name}: {test}", result)
        for test in dict.fromkeys(self.NOT_OK.findall(ended.output)):
            results.put(f"{name}: {test}", FAIL)
        ends = self.END.findall(ended.output)
        if ends:
            results[f"{name}: no errors"] = PASS if ends[-1][0] == "0" else FAIL
        return results


SUITES = {suite.name: suite for suite in (CPython, Git, Busybox, Sqlite)}
