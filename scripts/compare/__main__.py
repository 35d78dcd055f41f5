"""Runs the same workloads bare, under gated and under other sandboxes, and writes docs/performance.md and its charts.

Run as root by scripts/compare.sh, in a mount namespace of its own. What is measured runs as a user made for it, on every side.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import growth
import machine
import measure
import modes
import report
import results
import workloads

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/compare.sh", description=__doc__.splitlines()[0])
    names = ",".join(w.key for w in workloads.ALL)
    parser.add_argument("--only", metavar="ROW,...", help=f"these rows alone, of {names}")
    parser.add_argument("--modes", metavar="MODE,...", help="these alone, of " + ",".join(m.key for m in modes.ALL))
    parser.add_argument("--rounds", type=int, help="how often each row is run in each mode (5, with --growth 3)")
    parser.add_argument("--binaries", type=Path, default=ROOT / "target/release", help="where gated-run is (target/release)")
    parser.add_argument("--results", type=Path, default=ROOT / "target/compare", help="where figures are kept (target/compare)")
    parser.add_argument("--growth", action="store_true",
                        help="measure instead how the cost of an operation grows; --only is then of " + ",".join(growth.KINDS))
    parser.add_argument("--most", type=int, default=10**6, help="with --growth: no sizes above this one (1000000)")
    parser.add_argument("--report", action="store_true", help="measure nothing and write the documents from the figures that are kept")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where performance.md is (docs)")
    return parser.parse_args()


def chosen(everything, text):
    """Those that are named, or all."""
    if text is None:
        return list(everything)
    by_key = {item.key: item for item in everything}
    unknown = [key for key in text.split(",") if key not in by_key]
    if unknown:
        sys.exit(f"compare: no such name: {', '.join(unknown)}; there are {', '.join(by_key)}")
    return [by_key[key] for key in text.split(",")]


def run(args, store):
    rows, reasons = workloads.usable(chosen(workloads.ALL, args.only))
    for key, reason in reasons.items():
        print(f"not run: {key}: {reason}", flush=True)
    with measure.Stage(args.binaries.resolve()) as stage:
        wanted, missing = modes.usable(chosen(modes.ALL, args.modes), stage)
        for title, reason in missing.items():
            print(f"not compared: {title}: {reason}", flush=True)
        measure.warm(stage, wanted)
        if args.only is None or not store.read("run"):
            store.write("run", {"machine": machine.describe(stage.binaries, measure.PLACE), "missing": missing})
        for row in rows:
            outcomes = measure.row(stage, row, wanted, args.rounds or 5)
            store.keep(row, outcomes)
            figures = store.figures(row)
            print(results.line(row, {mode.key: figures[mode.key] for mode in wanted if mode.key in figures}), flush=True)


def grow(args, store):
    unknown = set((args.only or "").split(",")) - set(growth.KINDS) - {""}
    if unknown:
        sys.exit(f"compare: nothing that grows is named {', '.join(sorted(unknown))}; there are {', '.join(growth.KINDS)}")
    with measure.Stage(args.binaries.resolve()) as stage:
        wanted, missing = modes.usable([modes.by_key("bare"), modes.by_key("gated")], stage)
        if missing:
            sys.exit(f"compare: {missing}")
        store.write("growth-machine", machine.describe(stage.binaries, measure.PLACE))
        measure.warm(stage, wanted)
        growth.run(stage, store, args.only and args.only.split(","), args.rounds or 3, args.most)


OWN_MOUNTS = "GATED_COMPARE_OWN_MOUNTS"


def in_own_mounts():
    """Executes this program again in a mount namespace of its own, if it is not in one."""
    if os.environ.pop(OWN_MOUNTS, None) is None:
        os.environ[OWN_MOUNTS] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv])


def main():
    args = arguments()
    # What was made is removed at an end from outside, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    store = results.Store(args.results)
    if not args.report:
        in_own_mounts()
        (grow if args.growth else run)(args, store)
    if args.report or (args.only is None and args.modes is None):
        report.write(args.docs, store)
        print(f"written: {args.docs}/performance.md and its charts")


if __name__ == "__main__":
    main()
