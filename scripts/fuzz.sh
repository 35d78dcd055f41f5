#!/bin/bash
# Fuzzes: each target of fuzz/ for FUZZ_SECONDS (ten minutes), FUZZ_JOBS (two) at a time, from the inputs in fuzz/corpus. Arguments
# are the names of the only targets to run. What is found new goes to target/fuzz/found/TARGET and stays there for the next
# time; what fails is in fuzz/artifacts/TARGET. `scripts/fuzz.sh --minimise` puts into fuzz/corpus what all of that comes to.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzzer=${FUZZER:-target/tools/bin/cargo-fuzz}
seconds=${FUZZ_SECONDS:-600}
jobs=${FUZZ_JOBS:-2}
built=$PWD/${CARGO_TARGET_DIR:-target}/fuzz
found=$built/found
# What a fuzzer looks for here is a panic: nothing but raw system calls is unsafe, so that no sanitizer is needed, and with it no
# nightly compiler.
options=(--sanitizer none --target-dir "$built")

minimise=
if [ "${1-}" = --minimise ]; then
    minimise=1
    shift
fi
if [ $# -gt 0 ]; then
    targets=("$@")
else
    mapfile -t targets < <("$fuzzer" fuzz list)
fi

"$fuzzer" fuzz build "${options[@]}"

if [ -n "$minimise" ]; then
    for target in "${targets[@]}"; do
        mkdir -p "$found/$target"
        cp -n fuzz/corpus/"$target"/* "$found/$target"
        "$fuzzer" fuzz cmin "${options[@]}" "$target" "$found/$target"
        # The first ones of each size cover the most for their bytes; the rest is for whoever goes on from here.
        rm -f fuzz/corpus/"$target"/*
        find "$found/$target" -type f -size -16k -printf '%s %p\n' | sort -n | awk '{ print $2 }' >"$found/$target.list"
        total=$(wc -l <"$found/$target.list")
        awk -v each=$(((total + 23) / 24)) 'NR % each == 0' "$found/$target.list" | xargs -r cp -t "fuzz/corpus/$target"
        rm "$found/$target.list"
    done
    exit
fi

run() {
    local target=$1
    mkdir -p "$found/$target"
    if "$fuzzer" fuzz run "${options[@]}" "$target" "$found/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -max_len=16384 -timeout=20 -rss_limit_mb=4096 >"$found/$target.log" 2>&1; then
        echo "$target: nothing found, $(grep -Eo 'Done [0-9]+ runs' "$found/$target.log" || echo 'no runs')"
    else
        echo "$target: failed; the end of $found/$target.log:"
        tail -n 25 "$found/$target.log"
        return 1
    fi
}

status=0
running=0
for target in "${targets[@]}"; do
    if [ "$running" -ge "$jobs" ]; then
        wait -n || status=1
        running=$((running - 1))
    fi
    run "$target" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || status=1
    running=$((running - 1))
done
exit "$status"
