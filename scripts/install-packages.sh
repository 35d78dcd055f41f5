#!/bin/sh
# Installs the Debian packages that something here needs, and nothing that is there already.
#   scripts/install-packages.sh run|bench|compare|fuzz|test|fidelity
# Each line of a list is PACKAGE:PROBE; the package counts as there if the command or file PROBE is. Ends with 1, saying
# what to install, if something is still missing.
set -eu

run="
gcc:cc
git:git
python3:python3
bsdutils:script
util-linux:setpriv
"
bench="
$run
dbus-daemon:dbus-daemon
iproute2:/sbin/ip
nftables:/sbin/nft
"
# Debian's cargo is what is measured, since everybody can execute it.
compare="
$run
util-linux:unshare
util-linux:findmnt
dbus-daemon:dbus-daemon
make:make
tar:tar
cargo:/usr/bin/cargo
npm:npm
python3-pip:/usr/lib/python3/dist-packages/pip
python3-pytest:py.test-3
ripgrep:rg
bubblewrap:bwrap
firejail:firejail
"
fuzz="
$run
g++:c++
"
test="
$run
make:make
iproute2:/sbin/ip
nftables:/sbin/nft
openssl:openssl
curl:curl
wget:wget
openssh-client:ssh
openssh-server:/usr/sbin/sshd
musl-tools:musl-gcc
python3-pip:/usr/lib/python3/dist-packages/pip
python3-requests:/usr/lib/python3/dist-packages/requests
python3-websockets:/usr/lib/python3/dist-packages/websockets
python3-pycares:/usr/lib/python3/dist-packages/pycares
libnetty-java:/usr/share/java/netty-transport.jar
postgresql:/usr/lib/postgresql
linux-libc-dev:/usr/include/asm-generic/unistd.h
libpython3.11-testsuite:/usr/lib/python3.11/test/test_os.py
dash:dash
tar:tar
rsync:rsync
sed:sed
python3-venv:python3,venv
nodejs:node
npm:npm
sqlite3:sqlite3
vim:vim
tmux:tmux
golang-go:go
default-jdk-headless:javac
python3-pytest:py.test-3
gdb:gdb
acl:getfacl
attr:getfattr
strace:strace
sudo:sudo
expect:expect
systemd:/lib/systemd/systemd-journald
systemd:systemd-analyze
systemd-container:systemd-nspawn
debootstrap:debootstrap
dbus-daemon:dbus-daemon
dbus-bin:dbus-send
xdg-dbus-proxy:xdg-dbus-proxy
openssh-client:ssh-agent
gpg-agent:gpg-agent
gpgconf:gpg-connect-agent
man-db:man
bash:bash
zsh:zsh
fish:fish
polkitd:/usr/lib/polkit-1/polkitd
xvfb:Xvfb
xdotool:xdotool
imagemagick:import
fonts-dejavu-core:/usr/share/fonts/truetype/dejavu
xfconf:/usr/share/dbus-1/services/org.xfce.Xfconf.service
xfce4-notifyd:/usr/share/dbus-1/services/org.xfce.xfce4-notifyd.Notifications.service
dunst:dunst
notify-osd:/usr/share/glib-2.0/schemas/com.canonical.NotifyOSD.gschema.xml
"
fidelity="
python3:python3
gcc:cc
make:make
perl:perl
dpkg-dev:dpkg-source
zlib1g-dev:/usr/include/zlib.h
tcl-dev:/usr/include/tcl8.6/tcl.h
libpython3.11-testsuite:/usr/lib/python3.11/test/test_os.py
git:/usr/bin/git
busybox:/usr/bin/busybox
util-linux:setpriv
"

case "${1-}" in
    run) wanted=$run ;;
    bench) wanted=$bench ;;
    compare) wanted=$compare ;;
    fuzz) wanted=$fuzz ;;
    test) wanted=$test ;;
    fidelity) wanted=$fidelity ;;
    *) echo "usage: $0 run|bench|compare|fuzz|test|fidelity" >&2; exit 2 ;;
esac

# Whether a probe finds what it looks for. `python3 -m venv` needs the module ensurepip, which Debian packages apart.
there() {
    case "$1" in
        *,venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

missing() {
    for entry in $wanted; do
        there "${entry#*:}" || printf '%s ' "${entry%%:*}"
    done
}

if ! command -v cargo >/dev/null 2>&1; then
    echo "$0: no Rust toolchain: install Rust 1.91 or newer (https://rustup.rs), then run this again" >&2
    exit 1
fi

packages=$(missing)
[ -n "$packages" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "$0: missing: $packages- and there is no apt-get here; install them by hand (the names are Debian's)" >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "$0: missing: $packages- run this as root, or: apt-get install $packages" >&2
        exit 1
    fi
    as_root=sudo
fi

echo "$0: installing $packages"
# shellcheck disable=SC2086  # a list of words
$as_root env DEBIAN_FRONTEND=noninteractive sh -c \
    'apt-get update -q && apt-get install -q -y --no-install-recommends "$@"' sh $packages || true

packages=$(missing)
if [ -n "$packages" ]; then
    echo "$0: still missing: $packages- apt-get install $packages" >&2
    exit 1
fi
