#!/bin/sh
# Writes man pages and completions: install-pages.sh GATEDCTL MAN BASH ZSH FISH, the last four being directories. gatedctl
# makes them from the definitions of its own command line and those of the other programs.
set -eu
gatedctl=$1 man=$2 bash=$3 zsh=$4 fish=$5

pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
"$gatedctl" generate "$pages"

install -d "$man/man1" "$man/man8" "$bash" "$zsh" "$fish"
find "$pages" -name '*.1' -exec install -m 0644 -t "$man/man1" {} +
find "$pages" -name '*.8' -exec install -m 0644 -t "$man/man8" {} +
find "$pages" -name '_*' -exec install -m 0644 -t "$zsh" {} +
find "$pages" -name '*.fish' -exec install -m 0644 -t "$fish" {} +
for file in "$pages"/*.bash "$pages"/bash/*; do
    [ ! -f "$file" ] || install -m 0644 "$file" "$bash/$(basename "$file" .bash)"
done
