#!/bin/bash
# One command on one side of a comparison, as root:
#   side.sh bare|inside PLACE PROFILE GATED_RUN SOURCE -- COMMAND...
# In PLACE there are home/work, where it runs, and gated/, with passwd and group. SOURCE, a directory, appears at PLACE/source.
# Both sides have the same user, environment, umask and limits, no terminal, and a /tmp and a /dev/shm of their own: a session
# has them by itself, the bare side gets them here. All mounts are in a mount namespace of this command.
set -euo pipefail

if [ "${GATED_FIDELITY_STAGE-}" != 2 ]; then
    exec env GATED_FIDELITY_STAGE=2 unshare --mount --propagation private "$BASH" "$0" "$@"
fi
side=$1 place=$2 profile=$3 gated_run=$4 source=$5
shift 6

mount --bind "$place/gated/passwd" /etc/passwd
mount --bind "$place/gated/group" /etc/group
if [ -n "$source" ]; then
    mount --rbind "$source" "$place/source"
fi
cd "$place/home/work"
umask 022
ulimit -c 0
environment=(
    env --ignore-environment "HOME=$place/home" USER=gated-test LOGNAME=gated-test SHELL=/bin/sh
    LANG=C.UTF-8 TZ=UTC PATH=/usr/bin:/bin "SOURCE=$place/source"
)
if [ "$side" = bare ]; then
    mount -t tmpfs -o mode=1777 none /tmp
    mount -t tmpfs -o mode=1777 none /dev/shm
    exec setsid --wait setpriv --reuid 60777 --regid 60777 --init-groups "${environment[@]}" "$@" </dev/null
fi
exec setsid --wait "${environment[@]}" "$gated_run" --embedded --user gated-test --profile "$profile" --consent none \
    --events "$place/gated/events.jsonl" --audit "$place/gated/audit.jsonl" -- "$@" </dev/null
