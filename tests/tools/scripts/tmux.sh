# A server with a shell in a pane: keys go in, files and the screen come out.
export TERM=screen SHELL=/bin/sh
run() { tmux -f /dev/null "$@"; }
# Looks until a command succeeds; gives up after half a minute, showing the pane.
until_true() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || { echo "waited for: $*"; run capture-pane -p -t work; exit 1; }
        sleep 0.05
    done
}
shows() { run capture-pane -p -t work | grep -q -x "$1"; }
# Whether the shell waits for keys: the prompt is the last thing on the screen.
prompts() { [ "$(run capture-pane -p -t work | sed '/^$/d' | tail -n 1)" = 'ready>' ]; }
runs_sleep() { [ "$(run display-message -p -t work '#{pane_current_command}')" = sleep ]; }
is_gone() { ! run has-session; }

run new-session -d -s work -x 80 -y 24 -c "$PWD" 'PS1="ready> " exec sh'
until_true prompts
run send-keys -t work 'echo from tmux > file; echo "seen $((6 * 7))"' Enter
until_true shows 'seen 42'
until_true prompts
run send-keys -t work 'sleep 1000' Enter
until_true runs_sleep
run send-keys -t work C-c
until_true prompts
run send-keys -t work 'stty size; tty | sed "s/[0-9]*$//"' Enter
until_true shows '24 80'
until_true shows '/dev/pts/'
run split-window -d -t work -c "$PWD" 'echo second > second; exec sleep 1000'
until_true test -s second
echo "panes $(run list-panes -t work | wc -l)"
echo "socket $(find /tmp/tmux-"$(id -u)" -type s | wc -l)"
echo "file $(cat file)"
run kill-server
until_true is_gone
echo "ended yes"
