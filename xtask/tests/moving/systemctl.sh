#!/bin/sh
# What systemd does with the two units, for a machine on which it does not run: the lines are those of the unit files.
set -e
ended() { [ ! -d "/proc/$1" ] || grep -q '^State:.*zombie' "/proc/$1/status"; }
running() { [ -e "/run/main.$1" ] && ! ended "$(cat "/run/main.$1")"; }
line() { sed -n "s/^$2=-\{0,1\}//p" "/usr/lib/systemd/system/$1.service"; }
# Several lines run one after another, until one fails.
run() { sh -e -c "$(line "$@")"; }
# For half a minute.
until_it() {
    for _ in $(seq 300); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    echo "systemctl: $* does not come true" >&2
    exit 1
}
stop() {
    if ! running "$1"; then return 0; fi
    main=$(cat "/run/main.$1")
    case $1 in
        tsubame) MAINPID=$main run tsubame ExecStop ;;
        apache2) run apache2 ExecStop ;;
    esac
    until_it ended "$main"
}
answers() { curl -s -o /dev/null http://localhost/; }
export APACHE_STARTED_BY_SYSTEMD=true
command=$1 unit=${2%.service}
case $command in
    start)
        if running "$unit"; then exit 0; fi
        case $unit in
            tsubame)
                grep -q '^Conflicts=apache2.service' /usr/lib/systemd/system/tsubame.service
                stop apache2
                (eval "exec $(line tsubame ExecStart)") </dev/null >/run/journal 2>&1 &
                echo $! > /run/main.tsubame
                ;;
            apache2)
                stop tsubame
                run apache2 ExecStart
                until_it test -s /run/apache2/apache2.pid
                cp /run/apache2/apache2.pid /run/main.apache2
                ;;
        esac
        until_it answers
        running "$unit"
        ;;
    stop) stop "$unit" ;;
    reload) MAINPID=$(cat "/run/main.$unit") run "$unit" ExecReload ;;
    is-active) if running "$unit"; then echo active; else echo inactive; exit 3; fi ;;
    *) exec /usr/bin/systemctl "$@" ;;
esac
