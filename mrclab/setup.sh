#!/bin/sh
# Set-up, idempotent: Debian packages, then the virtual environment. Called by ./lab
# with the stamp to write when every step has passed. Progress goes to standard
# error; the details go to a log whose place is printed when a step fails.
set -eu
want=$1
command=${2-}
root=$MRCLAB_ROOT
venv=$MRCLAB_VENV
stamp=$venv/.mrclab-setup
owner=$venv/.mrclab-checkout
caller=$PPID

# mininet brings mnexec; gcc and the libc headers compile the switch engine, Python's the endpoint.
packages="mininet gcc libc6-dev iproute2 iputils-ping ethtool tcpdump python3 python3-venv python3-dev util-linux procps"

fail() {
    printf 'lab: %s\n' "$1" >&2
    exit 2
}

is_installed() {
    dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed
}

missing_packages() {
    for package in $packages; do
        is_installed "$package" || printf '%s ' "$package"
    done
}

# step TEXT COMMAND...: runs it with its output in the log and shows that time passes.
step() {
    try "$@" || fail "set-up stopped at '$1'; the whole log is $log"
}

# The same for what the lab can do without: 1 when it failed.
try() {
    text=$1
    shift
    printf '  %s ...' "$text" >&2
    begin=$(date +%s)
    printf '\n== %s\n' "$text" >>"$log"
    "$@" >>"$log" 2>&1 </dev/null &
    pid=$!
    trap 'kill "$pid" 2>/dev/null || true; printf "\nlab: set-up interrupted; run the same command again\n" >&2; exit 130' INT TERM
    while kill -0 "$pid" 2>/dev/null; do
        if [ -t 2 ]; then
            printf '\r  %s ... %ds' "$text" $(($(date +%s) - begin)) >&2
        fi
        # Nobody waits for it any more. apt is left to finish: cut short it leaves dpkg broken.
        case $text in
            Debian*) ;;
            *) kill -0 "$caller" 2>/dev/null || kill "$pid" 2>/dev/null || true ;;
        esac
        sleep 1
    done
    kill -0 "$caller" 2>/dev/null || { wait "$pid" || true; exit 130; }
    if wait "$pid"; then
        trap - INT TERM
        [ ! -t 2 ] || printf '\r  %s ...' "$text" >&2
        printf ' done (%ds)\n' $(($(date +%s) - begin)) >&2
        return 0
    fi
    printf ' failed\n' >&2
    tail -n 8 "$log" | sed 's/^/    | /' >&2
    return 1
}

# The endpoint as machine code, when this version of it is not compiled yet. The lab runs without.
compile_endpoint() {
    "$venv/bin/python" -m hosts.compile --check && return 0
    try "compile the endpoint (a minute or two)" "$venv/bin/python" -m hosts.compile ||
        printf 'lab: the endpoint runs uncompiled, at half the speed; %s\n' "the whole log is $log" >&2
}

pick_python() {
    for python in /usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10; do
        if command -v "$python" >/dev/null 2>&1 &&
            "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}

apt_install() {
    # 300 s: another apt may hold the lock on a machine that has just booted.
    DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -y -q --no-install-recommends install $1
}

command -v dpkg-query >/dev/null 2>&1 && command -v apt-get >/dev/null 2>&1 ||
    fail "this is not Debian or Ubuntu (no dpkg and apt-get); use the lab VM: vagrant up"

lack=$(missing_packages)
if [ -n "$lack" ] && [ "$(id -u)" != 0 ]; then
    fail "set-up needs root once to install Debian packages ($lack): run sudo ./lab setup"
fi

mkdir -p "$(dirname "$venv")" 2>/dev/null || true
[ -w "$(dirname "$venv")" ] ||
    fail "can't write the virtual environment $venv: run sudo ./lab setup, or set MRCLAB_VENV to a folder of yours"

for file in "$venv" "$venv.lock" "$venv.setup.log"; do
    [ ! -e "$file" ] || [ -w "$file" ] ||
        fail "the set-up is out of date and $file is not yours: run sudo ./lab setup"
done

# One set-up at a time; the second one waits and finds the stamp.
exec 9>"$venv.lock"
if command -v flock >/dev/null 2>&1; then
    flock 9
fi
if [ "$(cat "$stamp" 2>/dev/null || true)" = "$want" ] && [ -z "$lack" ]; then
    if [ "$command" = setup ]; then
        log=$venv.setup.log
        (cd "$root" && compile_endpoint)
        printf 'lab: this machine is set up\n' >&2
    fi
    exit 0
fi

# A second checkout with other requirements must not pull the environment from under the first.
of=$(cat "$owner" 2>/dev/null || true)
if [ -n "$of" ] && [ "$of" != "$root" ] && [ -e "$of/lab" ]; then
    fail "the virtual environment $venv is that of the checkout $of, which needs other packages: unset MRCLAB_VENV, or set it to another folder"
fi

log=$venv.setup.log
: >"$log"
printf 'lab: setting up (once; log: %s)\n' "$log" >&2

if [ -n "$lack" ]; then
    step "Debian package lists" apt-get -o DPkg::Lock::Timeout=300 -q update
    step "Debian packages: $lack" apt_install "$lack"
fi

python=$(pick_python) || fail "no Python 3.10 or newer with the venv module: apt-get install python3 python3-venv"
rm -f "$stamp"
# A whole environment of the same Python is brought up to date; anything else is made anew.
if [ "$("$venv/bin/python" -V 2>&1)" != "$("$python" -V 2>&1)" ] ||
    ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    step "virtual environment ($("$python" -V 2>&1))" "$python" -m venv --clear "$venv"
fi
step "Python packages (pinned, about 60)" "$venv/bin/python" -m pip install \
    --disable-pip-version-check --no-input --only-binary :all: --requirement "$root/requirements.txt"
step "check that they load" "$venv/bin/python" -c \
    'import mininet.net, p4runtime_sh.p4runtime, scapy.layers.inet6, grpc, cffi, pydantic, ruamel.yaml, click, rich, jinja2, matplotlib, pyroute2'
printf '%s\n' "$root" >"$owner"
(cd "$root" && compile_endpoint)
printf '%s\n' "$want" >"$stamp"
printf 'lab: set-up done\n' >&2
