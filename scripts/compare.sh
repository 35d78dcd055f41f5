#!/bin/bash
# Runs workloads bare, under gated and under other sandboxes, and prints and keeps the figures: scripts/compare.sh --help.
# Sessions need root, so it asks sudo where it is not root. The binaries are those of target/release, or of --binaries.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -v; then
        echo "$0: the comparison starts sessions: run it as root, or as a user who may use sudo" >&2
        exit 1
    fi
    as_root=(sudo)
fi
exec "${as_root[@]}" /usr/bin/python3 -B "$here/compare" "$@"
