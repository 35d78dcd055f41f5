# A server with a shell in a pane: keys go in, files and the screen come out.
export TERM=screen SHELL=/bin/sh
run() { tmux -f /dev/null "$@"; }
run new-session -d -s work -x 80 -y 24 -c "$PWD" 'PS1="> " exec sh'
# Looks until the pane shows a line; gives up after twenty seconds.
shows() {
    tries=0
    while ! run capture-pane -p -t work | grep -q -x "$1"; do
        tries=$((tries + 1))
        [ "$tries" -lt 400 ] || { run capture-pane -p -t work; exit 1; }
        sleep 0.05
    done
}
run send-keys -t work 'echo from tmux > file; echo "seen $((6 * 7))"' Enter
shows 'seen 42'
run send-keys -t work 'sleep 1000; echo "interrupted $?"' Enter
shows '> sleep 1000; echo "interrupted $?"'
run send-keys -t work C-c
run send-keys -t work 'stty size; tty | sed "s/[0-9]*$//"' Enter
shows '24 80'
shows '/dev/pts/'
run split-window -d -t work -c "$PWD" 'echo second > second; exec sleep 1000'
tries=0
until [ -s second ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 400 ]
    sleep 0.05
done
echo "panes $(run list-panes -t work | wc -l)"
echo "socket $(find /tmp/tmux-"$(id -u)" -type s | wc -l)"
echo "file $(cat file)"
run kill-server
tries=0
while run has-session 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt 400 ]
    sleep 0.05
done
echo "ended yes"
