# In the virtual machine: two jobs of two hosts each at once, host0 and host2, host1 and host3. With the argument
# `slices` each has links of its own and the preload library; without it both use base addresses.
set -eu
. /root/common.sh
way=$1
environment() { :; }
if [ "$way" = slices ]; then
    start_controller
    settings 'agent = ""' 'device = "snin%n"'
    snin job begin test/a --on host0,host2 --config /root/jobs.toml
    snin job begin test/b --on host1,host3 --config /root/jobs.toml
    for host in 0 1 2 3; do
        job=test/a
        [ $((host % 2)) = 0 ] || job=test/b
        snin job env $job --host host$host --for ucx --config /root/jobs.toml >/root/env$host
    done
    environment() { echo "export SNIN_VERBOSE=1"; cat "/root/env$1"; }
fi

pair() { # FROM TO PROGRAM ARGUMENT...: a server at TO, a client at FROM
    local from=$1 to=$2 server k
    shift 2
    (eval "$(environment "$to")"; exec timeout 40 "$@" -d "snin$to") >"$OUT/$way-server$to" 2>&1 &
    server=$!
    # A client that is too early finds nobody, and is told so.
    for k in $(seq 50); do
        (eval "$(environment "$from")"; exec timeout 40 "$@" -d "snin$from" localhost) >"$OUT/$way-client$from" 2>&1 && break
        kill -0 $server 2>/dev/null || break
        sleep 0.2
    done
    wait $server
}

pair 0 2 ib_write_bw -x 1 -F -s 4096 -n 200 -p 18601 &
first=$!
pair 1 3 ibv_rc_pingpong -g 1 -n 100 -s 1024 -p 18602 &
second=$!
wait $first
wait $second
pair 0 2 ib_send_lat -c UD -x 1 -F -n 100 -p 18603 &
first=$!
pair 1 3 ib_read_lat -x 1 -F -n 100 -p 18604 &
second=$!
wait $first
wait $second
