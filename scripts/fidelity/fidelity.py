#!/usr/bin/env python3
"""Runs the test suites of programs that Debian ships, bare and inside of a session, and compares test by test.

As root: sessions need it. The suites themselves run as an ordinary user. Ends with 1 if any test came to something else
inside than bare and tests/fidelity/accepted.toml does not say why, or if that file says so of a test that does not differ.

What each unit came to is kept in the cache: a run that was stopped goes on with what is missing, as long as gated, the profile,
the command and the program that is tested are the same.
"""

import argparse
import concurrent.futures
import json
import os
import signal
import sys
import time
from pathlib import Path

import places
from kept import Kept
from results import ABSENT, Accepted, Tally, table
from suites import SUITES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# How often a unit with a difference is run again on both sides.
AGAIN = 2


class Runner:
    def __init__(self, options, suite, profile):
        self.options, self.suite, self.profile = options, suite, profile
        self.logs = options.cache / "logs" / suite.name / profile
        self.logs.mkdir(parents=True, exist_ok=True)
        files = (options.gated_run, options.gated_run.with_name("gated-session"), HERE / "side.sh", self.profile_file())
        self.kept = Kept(options.cache / "kept" / suite.name / profile, (*files, *suite.programs()))

    def profile_file(self):
        return HERE / f"{self.profile}.toml"

    def once(self, unit, side, round_number):
        """The results of one unit on one side, and how long it took."""
        began = time.monotonic()
        with places.run(
            side,
            self.suite.command(unit),
            gated_run=self.options.gated_run,
            profile=self.profile_file(),
            source=self.suite.source(),
            limit=self.options.limit,
        ) as ended:
            seconds = time.monotonic() - began
            (self.logs / f"{unit}.{side}.{round_number}").write_text(ended.output)
            # Some name their tests by where they run.
            results = {test.replace(str(ended.place), "PLACE"): came for test, came in self.suite.read(unit, ended).items()}
        if not ended.in_time:
            results[f"{unit}: ends in {self.options.limit} s"] = "fail"
        return results, seconds

    def unit(self, unit):
        """Both sides; again where something differs that is not accepted. All that it came to, round by round."""
        command = self.suite.command(unit)
        rounds = [] if self.options.afresh else self.kept.rounds(unit, command)
        if not rounds and self.options.trust_same:
            rounds = [pair for pair in self.kept.rounds(unit)[-1:] if not self.surprises(pair)]
        if self.options.report:
            return unit, rounds
        if not rounds:
            for side in places.SIDES:
                for old in self.logs.glob(f"{unit}.{side}.*"):
                    old.unlink()
        while not rounds or (len(rounds) <= AGAIN and self.surprises(rounds[-1])):
            # Side by side in turn: neither finds the caches of the other warm in every round.
            order = places.SIDES if len(rounds) % 2 == 0 else tuple(reversed(places.SIDES))
            pair = {side: self.once(unit, side, len(rounds)) for side in order}
            if places.STOPPED.is_set():
                break
            rounds.append(pair)
            self.kept.keep(unit, command, rounds)
        return unit, rounds

    def surprises(self, pair):
        (bare, _), (inside, _) = pair["bare"], pair["inside"]
        found = []
        for test in bare.keys() | inside.keys():
            results = bare.get(test, ABSENT), inside.get(test, ABSENT)
            if results[0] != results[1] and not self.options.accepted.takes(self.suite.name, self.profile, test, *results):
                found.append(test)
        return found


def compare(runner, units):
    """Runs all units and tells of each as it ends; of those that ended, if it is told to stop."""
    tally = Tally(runner.suite.name, runner.profile, len(units))
    pool = concurrent.futures.ThreadPoolExecutor(runner.options.jobs)
    running = [pool.submit(runner.unit, unit) for unit in units]
    try:
        for done in concurrent.futures.as_completed(running):
            add(runner, tally, *done.result())
    except KeyboardInterrupt:
        places.STOPPED.set()
        print("stopping", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    return tally


def add(runner, tally, unit, rounds):
    """What one unit came to."""
    suite, profile, accepted = runner.suite, runner.profile, runner.options.accepted
    if not rounds:
        return
    first = rounds[0]
    tally.units += 1
    for side in places.SIDES:
        tally.seconds[side] += first[side][1]
    tests = {test for pair in rounds for side in places.SIDES for test in pair[side][0]}
    told = []
    for test in sorted(tests):
        seen = [tuple(pair[side][0].get(test, ABSENT) for side in places.SIDES) for pair in rounds]
        tally.add(test, *seen[-1])
        accepted.saw(suite.name, profile, test)
        line = f"{test}: " + "; ".join(f"bare {bare}, inside {inside}" for bare, inside in seen)
        differing = [pair for pair in seen if pair[0] != pair[1]]
        wrong = [pair for pair in differing if not accepted.takes(suite.name, profile, test, *pair)]
        if not wrong:
            if differing:
                tally.accepted.append(line)
        # The same difference in more than one round, with the bare side as steady as that: it is the session's.
        elif len({bare for bare, _ in seen}) == 1 and len(wrong) > 1:
            tally.failures.append(line)
            told.append(line)
        else:
            tally.unstable.append(line)
            told.append(f"unstable: {line}")
    if not tests and not suite.may_be_empty(unit):
        tally.failures.append(f"{unit}: no result on either side")
        told.append(tally.failures[-1])
    if not runner.options.report:
        seconds = ", ".join(f"{side} {first[side][1]:.1f} s" for side in places.SIDES)
        print(f"  {suite.name} {profile} {unit}: {len(tests)} tests, {seconds}", flush=True)
    for line in told:
        print(f"    {line}", flush=True)


def stop(*_):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE[:UNIT]", help=f"of {', '.join(SUITES)}; all by default")
    parser.add_argument("--gated-run", type=Path, default=ROOT / "target/release/gated-run")
    parser.add_argument("--cache", type=Path, default=ROOT / "target/fidelity", help="sources, logs and results")
    parser.add_argument("--profile", action="append", choices=("allow-all", "judged"), help="both by default")
    parser.add_argument("--accepted", type=Path, default=ROOT / "tests/fidelity/accepted.toml")
    parser.add_argument("--short", action="store_true", help="the few units that are quick")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="units at a time")
    parser.add_argument("--afresh", action="store_true", help="run what has kept results too")
    parser.add_argument("--trust-same", action="store_true", help="what was the same with other binaries is not run again")
    parser.add_argument("--report", action="store_true", help="run nothing: the table of what is kept")
    parser.add_argument("--limit", type=int, default=900, help="seconds that one unit may take on one side")
    options = parser.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("sessions are started by root: run this as root, or with sudo")
    if not options.gated_run.is_file():
        raise SystemExit(f"no {options.gated_run}: cargo build --release")
    options.gated_run, options.cache = options.gated_run.resolve(), options.cache.resolve()
    options.accepted = Accepted(options.accepted)

    wanted = {}
    for word in options.suites or SUITES:
        name, _, unit = word.partition(":")
        if name not in SUITES:
            raise SystemExit(f"no suite {name}: {', '.join(SUITES)}")
        wanted.setdefault(name, []).append(unit)

    signal.signal(signal.SIGTERM, stop)
    # A background job ignores these, and so would all that it starts; what has a handler is back to the default after execve(2).
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    tallies, whole = [], set()
    for name, chosen in wanted.items():
        suite = SUITES[name]()
        print(f"{name}: preparing", flush=True)
        suite.prepare(options.cache / "sources")
        units = suite.units(options.short)
        if all(chosen):
            units = chosen
        elif not options.short and not options.profile and not options.report:
            whole.add(name)
        if not units:
            continue
        for profile in options.profile or ("allow-all", "judged"):
            if places.STOPPED.is_set():
                break
            tallies.append(compare(Runner(options, suite, profile), units))

    stopped = places.STOPPED.is_set()
    stale = list(options.accepted.stale(set() if stopped else whole))
    report = [table(tallies), ""]
    for tally in tallies:
        for heading, lines in (("differs", tally.failures), ("unstable", tally.unstable)):
            report += [f"{heading}: {tally.suite} {tally.profile}: {line}" for line in lines]
    report += [f"accepted, but does not differ so: {entry['suite']} {entry['test']}" for entry in stale]
    options.cache.mkdir(parents=True, exist_ok=True)
    (options.cache / "report.md").write_text("\n".join(report) + "\n")
    details = {
        f"{tally.suite} {tally.profile}": {test: list(pair) for test, pair in sorted(tally.counts.items())} for tally in tallies
    }
    (options.cache / "results.json").write_text(json.dumps(details, indent=0))
    print("\n" + "\n".join(report))
    sys.exit(1 if stopped or stale or any(tally.failures for tally in tallies) else 0)


if __name__ == "__main__":
    main()
