#!/bin/sh
# Puts man pages and completions in place: install-pages.sh GATEDCTL MAN BASH ZSH FISH, the last four being directories.
# gatedctl writes them from the definitions of the command lines.
set -eu
gatedctl=$1 man=$2 bash=$3 zsh=$4 fish=$5

pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
"$gatedctl" generate "$pages"

install -d "$man/man1" "$man/man8" "$bash" "$zsh" "$fish"
install -m 0644 -t "$man/man1" "$pages"/man/man1/*
install -m 0644 -t "$man/man8" "$pages"/man/man8/*
install -m 0644 -t "$bash" "$pages"/bash-completion/*
install -m 0644 -t "$zsh" "$pages"/zsh/*
install -m 0644 -t "$fish" "$pages"/fish/*
