#!/bin/bash
# Fetches the Debian source of packages into a directory and unpacks each into DIR/PACKAGE.
#   scripts/fidelity/sources.sh DIR PACKAGE...
# The machine's own list of packages often has no sources (deb-src): a private configuration of apt is derived from it, with the
# same servers and keys. Nothing of the machine's apt changes.
set -euo pipefail

dir=$(realpath -m "$1")
shift
mkdir -p "$dir"/apt/{lists/partial,cache/archives/partial,parts}
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
    [ -f "$list" ] || continue
    sed -E 's/^deb[[:space:]]/deb-src /; s/^(Types:).*/\1 deb-src/' "$list" >"$dir/apt/parts/$(basename "$list")"
done
cat >"$dir/apt/apt.conf" <<END
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$dir/apt/parts";
Dir::State::lists "$dir/apt/lists";
Dir::Cache "$dir/apt/cache";
APT::Sandbox::User "root";
END
export APT_CONFIG=$dir/apt/apt.conf
apt-get -q update

cd "$dir"
for package in "$@"; do
    # Of the version that is installed, where the program that is tested is the installed one.
    version=$(dpkg-query -W -f '${source:Version}' "$package" 2>/dev/null || true)
    rm -rf "${package:?}" "${package}"_*
    apt-get -q source --download-only "$package${version:+=$version}"
    dpkg-source --no-check -x "$package"_*.dsc "$package"
done
