#!/bin/bash
# Measures a decision, then whole sessions, and shows one table at the end. Sessions need root; without it everything is
# built as the caller and only the benchmark is run by sudo. An argument is the one part of the table to measure: calls,
# programs, reads, network, start, decision, memory or daemon.
set -euo pipefail
cd "$(dirname "$0")/.."

part=${1:-}
case $part in
'' | calls | programs | reads | network | start | decision | memory | daemon) ;;
*)
    echo "usage: $0 [calls|programs|reads|network|start|decision|memory|daemon]" >&2
    exit 2
    ;;
esac

# The highest priority, on both sides of every comparison: what else runs on the machine is not what a session costs.
first=(nice -n -20)
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -v; then
        echo "$0: the benchmark starts sessions: run it as root, or as a user who may use sudo" >&2
        exit 1
    fi
    first=(sudo -E env "PATH=$PATH" nice -n -20)
fi

# Built before anything is measured, and run where cargo put it.
programs=$(cargo bench --locked --no-run --bench decision --bench session 2>&1 | tee /dev/stderr)
program_of() {
    sed -n "s|.*Executable benches/$1.*(\(.*\))|\1|p" <<<"$programs"
}

if [ -z "$part" ] || [ "$part" = decision ]; then
    cargo bench --locked --bench decision
fi
"${first[@]}" "$(program_of session)" ${part:+"$part"}
