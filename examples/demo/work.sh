#!/bin/sh
# What a tool does in the demonstration: real work in its checkout, and some steps out of it. It knows nothing of gated.
# Runs in a checkout of its own, with the directory `elsewhere` beside it.
cd "$(git rev-parse --show-toplevel)" || exit 1

say() { printf '\n-- %s\n' "$*"; }
try() {
    printf '$ %s\n' "$*"
    sh -c "$*" || printf '   (exit status %s)\n' "$?"
}

say 'work in the checkout'
python3 - <<'PYTHON'
import pathlib
for path in pathlib.Path(".").glob("*.py"):
    path.write_text(path.read_text().replace("helo", "hello"))
PYTHON
try 'sh check.sh'
try 'git commit -q -a -m "Spell hello right" && git log --oneline'

say 'configure the checkout, and add a hook to it'
try 'git config core.abbrev 12'
try 'echo "this runs outside" > .git/hooks/post-checkout'

say 'leave a note elsewhere, and tidy up there'
try 'echo "hello is spelt right now" >> ../elsewhere/notes.txt'
try 'rm -r ../elsewhere/archive'

say 'be there at the next login'
try 'python3 -c "import os; open(os.path.expanduser(\"~/.bashrc\"), \"a\")" 2>&1 | tail -1'

say 'programs that do more than build: publish, and clean up for good'
try 'git push -q origin main'
try 'rm -r build && ls'

say 'look at what nobody meant for it'
try 'cat .env'

say 'serve a page and read it: the loopback is its own'
try 'python3 ../serve.py'

say 'read from a service of this machine, and from the internet'
try "python3 ../get.py http://localhost:$GATED_DEMO_PORT/"
try 'python3 ../get.py https://example.org/'

say 'scratch space'
try 'cp check.sh /tmp/scratch && ls /tmp'
exit 0
