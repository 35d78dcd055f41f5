#!/bin/bash
# Boots a system from layers: boot.sh RUN LAYERS. Started by boot.rs as root in a mount namespace of its own and in a control
# group that it made; runs systemd-nspawn until the system is off. Whatever is mounted here goes with it.
set -euo pipefail
run=$1 layers=$2

mount -t tmpfs -o mode=0755 gated-system "$run"
mkdir "$run"/{upper,work,root}
mount -t overlay -o "lowerdir=$layers,upperdir=$run/upper,workdir=$run/work" overlay "$run/root"
# Propagation of mounts, which nspawn serves there, is not wanted from the machine's.
mkdir -p /run/systemd/nspawn
mount -t tmpfs tmpfs /run/systemd/nspawn

options=()
[ -d /run/systemd/system ] || options+=(--keep-unit)
# Everything that a kernel gives its first system: sessions make namespaces, mounts and rulesets of their own. No network. With
# --keep-unit it leaves it to whoever started it to begin again: 133 stands for a system that was told to reboot.
status=133
while [ "$status" -eq 133 ]; do
    status=0
    setpriv --pdeathsig KILL systemd-nspawn --quiet --directory "$run/root" --boot --console=pipe --register=no \
        --private-network --capability=all --system-call-filter=@known --machine="gated-$$" \
        --link-journal=no --resolv-conf=off --timezone=off "${options[@]}" </dev/null || status=$?
done
exit "$status"
