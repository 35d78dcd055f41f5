"""Runs the same workloads bare, under gated and under other sandboxes, and writes docs/performance.md and its charts.

Run as root by scripts/compare.sh. What is measured runs as a user made for it, on every side.
"""

import argparse
import signal
import sys
from pathlib import Path

import measure
import modes
import results
import workloads

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/compare.sh", description=__doc__.splitlines()[0])
    names = ",".join(w.key for w in workloads.ALL)
    parser.add_argument("--only", metavar="ROW,...", help=f"these rows alone, of {names}")
    parser.add_argument("--modes", metavar="MODE,...", help="these alone, of " + ",".join(m.key for m in modes.ALL))
    parser.add_argument("--rounds", type=int, default=5, help="how often each row is run in each mode (5)")
    parser.add_argument("--binaries", type=Path, default=ROOT / "target/release", help="where gated-run is (target/release)")
    parser.add_argument("--results", type=Path, default=ROOT / "target/compare", help="where figures are kept (target/compare)")
    return parser.parse_args()


def chosen(everything, text):
    if text is None:
        return list(everything)
    by_key = {item.key: item for item in everything}
    unknown = [key for key in text.split(",") if key not in by_key]
    if unknown:
        sys.exit(f"compare: no such name: {', '.join(unknown)}; there are {', '.join(by_key)}")
    return [by_key[key] for key in text.split(",")]


def main():
    args = arguments()
    # What was made is removed at an end from outside, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows = chosen(workloads.ALL, args.only)
    wanted = chosen(modes.ALL, args.modes)
    store = results.Store(args.results)
    rows, reasons = workloads.usable(rows)
    for key, reason in reasons.items():
        print(f"not run: {key}: {reason}", flush=True)
    with measure.Stage(args.binaries.resolve()) as stage:
        wanted = modes.usable(wanted, stage)
        for row in rows:
            rounds = measure.row(stage, row, wanted, args.rounds)
            store.keep(row, rounds)
            print(results.line(row, rounds), flush=True)


if __name__ == "__main__":
    main()
