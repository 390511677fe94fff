# In the virtual machine: the controller and two agents as daemons, over TLS. Messages of one agent to the other go
# by real queue pairs along the tree that was granted; users of host1 have requests of its port by its agent.
set -eu
cd "$(dirname "$0")"
. ./common.sh
ends="certificate = \"$PWD/pki/NAME.crt\"
key = \"$PWD/pki/NAME.key\"
ca_certificate = \"$PWD/pki/ca.crt\""
# The fabric's own GUIDs are what the controller knows hosts by.
start_controller
one=$(port_of host1) two=$(port_of host2)
end_all
set -e
rm -rf pki
snin pki init --dir pki >/dev/null
for name in controller/ctl1 "agent/$one" "agent/$two"; do snin pki issue "$name" --dir pki >/dev/null; done

# Windows as long as an emulated processor needs them.
cat >controller.toml <<C
listen = ["tls://127.0.0.1:18516"]
api = ["tls://127.0.0.1:18518"]
topology = "$PWD/fabric"
state_dir = "/tmp/with-tls"
control_socket = "/tmp/control"
requests_per_user = 2
policy = "strict"
window_us = 400000
lead_us = 120000
clock_error_us = 5000
drain_us = 10000
repeat_us = 100000
${ends//NAME/controller-ctl1}
C
snin-controller --config controller.toml 2>"$OUT/agents-controller.log" &
until_it_is 'the controller answers' snin controller status --socket /tmp/control

agent() { # NUMBER GUID PEER
    local other=$((3 - $1))
    cat >"agent$1.toml" <<C
device = "snin$1"
guid = "$2"
listen = "tls://127.0.0.1:1852$1"
peers = { "$3" = "tls://127.0.0.1:1852$other" }
controller = "tls://127.0.0.1:18516"
controller_api = "tls://127.0.0.1:18518"
control_socket = "/tmp/agent$1"
pair_socket = "/tmp/users$1"
metrics_listen = "127.0.0.1:1853$1"
poll = "hybrid"
rate = 100000000
message = 4096
resend_ms = 1000
stall_ms = 10000
connect_ms = 5000
heartbeat_ms = 5000
silence_ms = 10000
linger_ms = 5000
acknowledgement_us = 30000
${ends//NAME/agent-$2}
C
    snin-agent --config "agent$1.toml" 2>"$OUT/agents-$1.log" &
    until_it_is "agent $1 answers" snin agent status --socket "/tmp/agent$1"
}
agent 1 "$one" "$two"
agent 2 "$two" "$one"

has_sent() { snin agent status --socket /tmp/agent1 --json | tr -d ' ' | grep -q '"messages":200\b'; }
snin agent send --peer "$two" --count 200 --size 1000 --rate 100 --socket /tmp/agent1 >/dev/null
# Asked for before anything else: on a busy machine it is given back before long.
granted() { snin controller grants --socket /tmp/control --json >"$OUT/agents-grants.json" && grep -q host1 "$OUT/agents-grants.json"; }
until_it_is 'it is granted' granted
snin agent flows --socket /tmp/agent1 --json >"$OUT/agents-flows.json"
until_it_is 'all messages are there' has_sent
for number in 1 2; do snin agent status --socket "/tmp/agent$number" --json >"$OUT/agents-status$number.json"; done
snin controller status --socket /tmp/control --json >"$OUT/agents-controller.json"
# By the agents' own queue pairs, as an operator asks for it.
snin controller link-test host1 --messages 300 --socket /tmp/control --json >"$OUT/agents-link-test.json"
snin agent status --socket /tmp/agent2 --json >"$OUT/agents-after-test.json"

as() { # USER NAME COMMAND...: leaves its answer, what it says on stderr and its exit code
    local user=$1 name=$2 status=0
    shift 2
    setpriv --reuid="$user" --clear-groups snin "$@" >"$OUT/asked-$name" 2>"$OUT/asked-$name.error" || status=$?
    echo $status >"$OUT/asked-$name.status"
}
agent=--agent=/tmp/users1
as 4711 first request $agent --to host2 --windows 500 --json
as 4711 second request $agent --to host0 --at +1h --for 60s --json
as 4711 third request $agent --to host0 --at +3h --for 60s --json
as 4711 foreign request $agent --from host3 --to host2 --at +5h --for 60s --json
as 4712 other request $agent --to host0 --at +7h --for 60s --json
id=$(tr -d ' \n' <"$OUT/asked-first" | sed -E 's/.*"id":([0-9]+).*/\1/')
as 4712 steals release $agent "$id" --json
as 4711 list controller requests $agent --json
as 4711 gives release $agent "$id" --json
as 4711 after controller requests $agent --json
exec 3<>/dev/tcp/127.0.0.1/18531
printf 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n' >&3
cat <&3 >"$OUT/agents-metrics"
