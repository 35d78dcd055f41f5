#!/bin/sh
# A stand-in for a coding agent: it runs its tool calls through the shell that it was told to use, and reports on each.
call() {
    "${SHELL:-/bin/sh}" -c "$1"
    echo "call $1: $?"
}
echo "agent: $*"
call 'echo made >made'
call 'cat made'
call 'exit 3'
echo piped | "${SHELL:-/bin/sh}" -c 'cat'
call "echo outside >\"\$OUTSIDE/x\""
call 'echo mark >>"${MARK:-/tmp/mark}"; wc -l <"${MARK:-/tmp/mark}"'
call 'sh -c "echo nested"'
printf 'echo from a script with $1; exit 4\n' >script
"${SHELL:-/bin/sh}" ./script words
echo "script: $?"
