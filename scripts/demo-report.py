#!/usr/bin/env python3
"""Prints what the events and the audit log of a demonstration say: demo-report.py DIRECTORY."""

import json
import os
import pathlib
import pwd
import sys

ANSWERS = {
    "approved": "yes",
    "denied": "no",
    "timeout": "no answer in time",
    "not_permitted": "not permitted",
    "cancelled": "withdrawn",
}


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line] if path.exists() else []


def command(argv):
    return " ".join([pathlib.PurePath(word).name if at == 0 else word for at, word in enumerate(argv)])


def main():
    demo = pathlib.Path(sys.argv[1])
    events = lines(demo / "events.jsonl")
    home = pwd.getpwuid(int(os.environ.get("SUDO_UID", os.getuid()))).pw_dir

    def short(path):
        for prefix, name in ((f"{demo}/", ""), (f"{home}/", "~/")):
            if path.startswith(prefix):
                return name + path[len(prefix):]
        return path

    decided = [event for event in events if event["event"] == "consent_decided"]
    rows = [("access", "object", "by", "rule", "answer")]
    for event in decided:
        answer = ANSWERS.get(event["decision"], event["decision"])
        if event["decision"] == "approved":
            answer += f", for this {event['lifetime']}"
        rows.append((
            event["operation"], short(event["object"]), command(event["argv"])[:32], event["rule"]["id"], answer,
        ))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    counts = {}
    for event in events:
        counts[event["event"]] = counts.get(event["event"], 0) + 1
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"\nevents: {told}")
    records = lines(demo / "audit.jsonl")
    print(f"audit log: {demo / 'audit.jsonl'}, {len(records)} records; the last:")
    if records:
        print(json.dumps(records[-1], indent=2))


main()
