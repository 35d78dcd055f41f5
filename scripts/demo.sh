#!/bin/bash
# The demonstration: scripts/demo.sh DIRECTORY-OF-THE-BINARIES
# On a terminal, a shell under gated-run in a workspace of its own; without one, a small script with scripted answers, and
# what came of it. As root (with sudo: for the user who called it) or as a user who may use sudo. Everything that it makes
# lies in one directory below /var/tmp and is removed at the end, unless GATED_DEMO_KEEP is set.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
gated_run=$(cd "${1:?usage: $0 DIRECTORY-OF-THE-BINARIES}" && pwd)/gated-run
[ -x "$gated_run" ] || { echo "$0: no $gated_run; run make build" >&2; exit 1; }

# Files are made by whom the tool runs as; gated-run itself needs root.
as_user=()
as_root=()
owner=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "$0: run this as root, or as a user who may use sudo" >&2; exit 1; }
    as_root=(sudo)
elif [ -n "${SUDO_UID-}" ]; then
    home=$(getent passwd "$SUDO_UID" | cut -d : -f 6)
    as_user=(setpriv --reuid "$SUDO_UID" --regid "$SUDO_GID" --init-groups env HOME="$home")
    owner=(-o "$SUDO_UID" -g "$SUDO_GID")
fi

demo=$("${as_user[@]}" mktemp -d /var/tmp/gated-demo.XXXXXX)
service=
cleanup() {
    [ -z "$service" ] || kill "$service" || true
    if [ -n "${GATED_DEMO_KEEP-}" ]; then
        echo "Kept: $demo"
    else
        rm -rf -- "$demo"
    fi
}
trap cleanup EXIT
cd "$demo"
install "${owner[@]}" -m 0644 "$here"/examples/demo/* .
trap 'exit 130' INT
trap 'exit 143' TERM HUP

"${as_user[@]}" bash -euo pipefail <<'PREPARE'
mkdir -p project/build elsewhere/archive
echo 'made by a build' >project/build/out
echo 'a list of things' >elsewhere/notes.txt
echo 'years of work' >elsewhere/archive/report.txt
cd project
cat >README.md <<'README'
# A small project
`sh check.sh` says whether hello.py is right.
README
printf 'print("helo")\n' >hello.py
cat >check.sh <<'CHECK'
#!/bin/sh
# Fails unless the program greets.
said=$(python3 hello.py)
echo "hello.py says: $said"
[ "$said" = hello ]
CHECK
echo 'API_KEY=of-no-use' >.env
printf '.env\nbuild/\n' >.gitignore
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
git init -q -b main
git config user.name 'A demonstration'
git config user.email demo@localhost
git add -A
git commit -q -m 'A small project'
PREPARE

# Contents and names of what is there, but for git's objects.
tree() {
    find project elsewhere -path '*/.git/objects' -prune -o -type f -exec sha256sum {} +
}

# What all sessions of this script have in common; the profile is the built-in one for coding agents.
run() {
    "${as_root[@]}" env GATED_DEMO_PORT="${GATED_DEMO_PORT-}" PS1='gated \W\$ ' HISTFILE= GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null \
        "$gated_run" --embedded --events "$demo/events.jsonl" --audit "$demo/audit.jsonl" "$@"
}

tree >before
cd project
status=0
if [ -t 0 ] && [ -t 1 ] && { : >/dev/tty; } 2>/dev/null; then
    cat <<INTRODUCTION

A shell under gated. In $demo/project it may change what it likes; for the rest you are asked here.
  echo hello > new.txt                 goes through: this is the workspace
  echo hello > ../elsewhere/new.txt    waits for you: answer o (once), s (session) or d (deny), then Enter
  git config core.abbrev 12            asks, because git obeys that file outside, too
  touch ~/.bashrc                      asks, because your shell does
  rm -r ../elsewhere                   asks whether rm -r may run, and for each thing that would go
  cat .env                             asks: it holds a key
  git push                             asks: it leaves the machine
  python3 -m http.server               goes through: the loopback is the session's own
  getent hosts example.org             asks before a query leaves the machine
Every decision goes to $demo/audit.jsonl first. Leave with exit.

INTRODUCTION
    run -- bash --norc --noprofile || status=$?
    # Otherwise it is that of the last command in the shell.
    [ "$status" -eq 125 ] || status=0
else
    mkdir ../service
    echo 'a service of this machine, outside of the session' >../service/index.html
    python3 -u -m http.server --bind 127.0.0.1 --directory ../service 0 >../service/log 2>&1 &
    service=$!
    until GATED_DEMO_PORT=$(sed -n 's/.* port \([0-9]*\) .*/\1/p' ../service/log) && [ -n "$GATED_DEMO_PORT" ]; do
        kill -0 "$service"
        sleep 0.05
    done
    export GATED_DEMO_PORT
    echo "== a tool at work, what it does held by $gated_run"
    run --consent "script:$demo/answers.toml" -- sh ../work.sh || status=$?
fi

cd ..

echo
echo "== what was asked, and what was answered"
python3 "$here/scripts/demo-report.py" "$demo"
echo
echo "== what is different now"
tree >after
awk '{ name = substr($0, 67) }
    NR == FNR { before[name] = $1; next }
    { after[name] = $1 }
    !(name in before) { print "new      " name }
    name in before && before[name] != $1 { print "changed  " name }
    END { for (name in before) if (!(name in after)) print "gone     " name }' before after | sort -k 2
exit "$status"
