#!/bin/bash
# Runs the tests. They make sessions, which needs root; without it everything is built as the caller and only the test
# programs are run by sudo. Arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
    if ! sudo -v; then
        echo "$0: the tests make namespaces and sessions: run them as root, or as a user who may use sudo" >&2
        exit 1
    fi
    host=$(rustc -vV | sed -n 's/^host: //p')
    runner=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$host")_RUNNER
    # Tests run cargo and other tools of the caller's PATH.
    export "$runner=sudo -E env PATH=$PATH"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
cargo test --locked --no-fail-fast "$@" 2>&1 | tee "$log" || status=$?

# What each program came to, once more at the end, where a reader of a long log looks.
echo
echo "== results =="
grep -E '^( +(Running|Doc-tests)|test result:|error: )' "$log" || true
awk '/^test result:/ { passed += $4; failed += $6 } END { printf "%d passed, %d failed\n", passed, failed }' "$log"
exit "$status"
