#!/bin/sh
# Tells the running system what `make install` or `make uninstall` has changed. As root; does nothing where PID 1 is not
# systemd. Sessions live on: only the daemon is started anew, if it runs.
set -eu
[ -d /run/systemd/system ] || exit 0

systemctl daemon-reload
journalctl --update-catalog
systemd-sysusers
systemd-tmpfiles --create
# The bus reads its policy by itself in most, not in all implementations.
busctl --quiet call org.freedesktop.DBus /org/freedesktop/DBus org.freedesktop.DBus ReloadConfig
systemctl try-restart gatedd.service 2>/dev/null || ! systemctl is-active --quiet gatedd.service
