# In the virtual machine: what happens where the job's trees do not lead, or only one end knows them.
set -u
. /root/common.sh
start_controller
settings 'agent = ""'
snin job begin test/a --on host0,host2 --config /root/jobs.toml
snin job env test/a --host host0 --for ucx --config /root/jobs.toml >/root/env
ping() { # NAME FROM TO: the client has the library's environment, the server what $server says
    (eval "$server"; exec timeout 20 ibv_rc_pingpong -g 1 -n 10 -d "snin$3") >"$OUT/$1-server" 2>&1 &
    sleep 1
    (. /root/env; eval "$client"; $as timeout 20 ibv_rc_pingpong -g 1 -n 10 -d "snin$2" localhost) >"$OUT/$1-client" 2>&1
    echo $? >"$OUT/$1-status"
    kill $! 2>/dev/null
    wait $! 2>/dev/null
}
as='' server='. /root/env' client=:
ping stranger 0 1
server='. /root/env; export SNIN_REQUIRE=0' client='export SNIN_REQUIRE=0'
ping unmanaged 0 1
client='export SNIN_AGENT=/tmp/nobody'
server='. /root/env; export SNIN_AGENT=/tmp/nobody'
ping no-agent 0 2
client='unset SNIN_JOB_FILE; export SNIN_AGENT=/tmp/nobody'
ping nobody 0 2

# Who says that another user's job is its own is told nothing; root here is told what root asks.
start_agent 0
sed "s#/tmp/node#$nodes/host0#" /root/jobs.toml >/root/jobs0.toml
snin job env test/a --host host0 --uid 4711 --config /root/jobs0.toml >/dev/null
as='setpriv --reuid=4712 --clear-groups' server='. /root/env; export SNIN_REQUIRE=0'
client="export SNIN_REQUIRE=1 SNIN_AGENT=$nodes/host0/pairs"
ping liar 0 2
as='setpriv --reuid=4711 --clear-groups' server='. /root/env'
ping owner 0 2

# Every way in which a program may come by the functions, and forks; with the library and without.
gid() { cat "/sys/class/infiniband/snin$1/ports/1/gids/1"; }
cd /root || exit
(. ./env; export SNIN_REQUIRE=1; timeout 60 handles snin0 "$(gid 2)" "$(gid 1)") >"$OUT/handles" 2>"$OUT/handles-said"
echo $? >"$OUT/handles-status"
timeout 60 handles snin0 "$(gid 2)" "$(gid 1)" >"$OUT/handles-without" 2>&1
exit 0
