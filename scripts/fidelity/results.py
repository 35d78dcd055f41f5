"""What tests came to on both sides, what of the difference is accepted, and the table at the end."""

import fnmatch
import tomllib
from pathlib import Path

PASS, FAIL, SKIP, KNOWN, ABSENT = "pass", "fail", "skip", "known failure", "absent"
RESULTS = {PASS, FAIL, SKIP, KNOWN, ABSENT}


class Accepted:
    """The entries of accepted.toml. One that accepts nothing of what was run is a mistake, as one without a reason is."""

    KEYS = {"suite", "profile", "test", "bare", "inside", "reason"}

    def __init__(self, file):
        self.file = Path(file)
        self.entries = tomllib.loads(self.file.read_text()).get("difference", [])
        for entry in self.entries:
            where = f"{self.file}: {entry.get('test')}"
            missing = (self.KEYS - {"profile"}) - entry.keys()
            if missing or entry.keys() - self.KEYS:
                raise SystemExit(f"{where}: keys {sorted(self.KEYS)}, of which only `profile` may be left out")
            if not {entry["bare"], entry["inside"]} <= RESULTS or entry["bare"] == entry["inside"]:
                raise SystemExit(f"{where}: `bare` and `inside` are two of {sorted(RESULTS)}")
            if len(entry["reason"]) < 20:
                raise SystemExit(f"{where}: no reason")
        self.used = set()
        self.seen = set()

    def takes(self, suite, profile, test, bare, inside):
        """Whether this difference is accepted; remembers the entry for `stale`."""
        for number, entry in enumerate(self.entries):
            if self._speaks_of(entry, suite, profile, test) and (entry["bare"], entry["inside"]) == (bare, inside):
                self.used.add(number)
                return True
        return False

    def saw(self, suite, profile, test):
        """A test was run that entries may speak of."""
        for number, entry in enumerate(self.entries):
            if number not in self.seen and self._speaks_of(entry, suite, profile, test):
                self.seen.add(number)

    def stale(self, whole_suites):
        """Entries whose tests were run and did not differ so, or that name no test of a suite that was run as a whole."""
        for number, entry in enumerate(self.entries):
            is_met = number in self.seen or entry["suite"] in whole_suites
            if is_met and number not in self.used:
                yield entry

    @staticmethod
    def _speaks_of(entry, suite, profile, test):
        if entry["suite"] != suite or entry.get("profile", profile) != profile:
            return False
        # Names hold brackets: only `*` is special.
        return fnmatch.fnmatchcase(test, entry["test"].replace("[", "[[]"))


class Tally:
    """Of one suite under one profile."""

    def __init__(self, suite, profile, of_units):
        self.suite, self.profile = suite, profile
        self.units, self.of_units = 0, of_units
        self.counts = {}
        self.accepted, self.failures, self.unstable = [], [], []
        self.seconds = {"bare": 0.0, "inside": 0.0}

    def add(self, test, bare, inside):
        self.counts.setdefault(test, (bare, inside))

    def count(self, side, result):
        index = 0 if side == "bare" else 1
        return sum(1 for pair in self.counts.values() if pair[index] == result)


def table(tallies):
    """Markdown."""
    lines = [
        "| suite | profile | units | tests | passed bare, inside | skipped bare, inside | failed bare, inside | "
        "known failures bare, inside | accepted | unstable | differ | seconds bare, inside |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for tally in tallies:
        def both(*results, tally=tally):
            bare, inside = (sum(tally.count(side, result) for result in results) for side in ("bare", "inside"))
            return f"{bare}, {inside}"
        lines.append(
            f"| {tally.suite} | {tally.profile} | {tally.units} of {tally.of_units} | {len(tally.counts)} | {both(PASS)} | "
            f"{both(SKIP)} | {both(FAIL, ABSENT)} | {both(KNOWN)} | {len(tally.accepted)} | "
            f"{len(tally.unstable)} | {len(tally.failures)} | {tally.seconds['bare']:.0f}, {tally.seconds['inside']:.0f} |"
        )
    return "\n".join(lines)
