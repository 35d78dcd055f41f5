"""Figures of a comparison: medians and ratios, kept as one JSON file a row."""

import json
import statistics


class Store:
    """A directory with a file for each row, so that one row can be measured again."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def keep(self, row, outcomes):
        runs = {
            mode: outcome if isinstance(outcome, str) else [{"seconds": run.seconds, "whole": run.whole} for run in outcome]
            for mode, outcome in outcomes.items()
        }
        (self.directory / f"{row.key}.json").write_text(json.dumps({"row": row.key, "modes": runs}, indent=1))


def median(runs):
    return statistics.median(run.seconds for run in runs)


def ratio(runs, bare):
    """The median of what each round's run was of the bare one of the same round."""
    return statistics.median(run.seconds / other.seconds for run, other in zip(runs, bare))


def line(row, outcomes):
    bare = outcomes.get("bare")
    words = [f"{row.key:12}"]
    for mode, outcome in outcomes.items():
        if isinstance(outcome, str):
            words.append(f"{mode}: {outcome}")
        elif mode == "bare" or not isinstance(bare, list) or not bare:
            words.append(f"{mode} {median(outcome):.3f} s")
        elif row.in_milliseconds:
            words.append(f"{mode} +{(median(outcome) - median(bare)) * 1000:.1f} ms")
        else:
            words.append(f"{mode} {ratio(outcome, bare):.3f}")
    return "  ".join(words)
