# What the scripts of this test share. They run in the virtual machine, as root.
mkdir -p /dev/shm
grep -q ' /dev/shm ' /proc/mounts || mount -t tmpfs shm /dev/shm
hostname vm0
printf '127.0.0.1 localhost vm0 host0 host1 host2 host3\n' >/etc/hosts

# Devices go only when no program has them open.
end_all() {
    local pid
    set +e # a program that has ended cannot be killed
    for pid in $(jobs -p) $(cat /tmp/slurm/slurm*.pid /tmp/slurm/munge/pid 2>/dev/null); do
        kill -KILL "$pid" 2>/dev/null
    done
    [ ! -d /tmp/slurm ] || cp /tmp/slurm/*.log "$OUT"
}
trap end_all EXIT

until_it_is() { # WHAT COMMAND...: waits for a command to succeed
    local what=$1 k
    shift
    for k in $(seq 150); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
    echo "never: $what" >&2
    return 1
}

# What on machines of their own hosts would each have under one name is in a folder of each here, and slurmd of each
# sees its own at /tmp/node.
nodes=/tmp/nodes

start_controller() {
    rm -rf /tmp/controller /tmp/control /tmp/sessions /tmp/node $nodes
    cat >/root/controller.toml <<C
listen = ["unix:///tmp/sessions"]
topology = "${FABRIC:-/root/fabric}"
name = "ctl1"
state_dir = "/tmp/controller"
control_socket = "/tmp/control"
C
    # Where another manager wrote the tables.
    [ -z "${TABLES:-}" ] || echo "tables = \"$TABLES\"" >>/root/controller.toml
    snin-controller --config /root/controller.toml 2>"$OUT/controller.log" &
    until_it_is 'the controller answers' snin controller status --socket /tmp/control
}

port_of() { # HOST
    snin controller fabric --socket /tmp/control --json | tr -d ' \n' | tr '{' '\n' | grep "\"name\":\"$1\"" |
        sed -E 's/.*"port":"([^"]*)".*/\1/'
}

start_agent() { # NUMBER OF ITS HOST
    local own=$nodes/host$1
    mkdir -p "$own"
    cat >"/root/agent$1.toml" <<C
device = "snin$1"
guid = "$(port_of "host$1")"
listen = "unix://$own/peers"
control_socket = "$own/agent"
jobs = "$own/jobs"
pair_socket = "$own/pairs"
C
    snin-agent --config "/root/agent$1.toml" 2>"$OUT/agent$1.log" &
    until_it_is "agent $1 answers" snin agent status --socket "$own/agent" --json
}

settings() { # LINE...
    {
        printf 'controller = "/tmp/control"\njobs = "/tmp/node/jobs"\ngid_index = 1\n'
        printf 'preload = "/usr/local/bin/libsnin_preload.so"\nlog_file = "%s/hooks.log"\n' "$OUT"
        printf '%s\n' "$@"
    } >/root/jobs.toml
}

start_slurm() { # NODES
    local d=/tmp/slurm c
    rm -rf $d
    mkdir -p $d/state $d/munge $d/hooks
    head -c 128 /dev/urandom >$d/munge/key
    chmod 400 $d/munge/key
    munged --force --key-file=$d/munge/key --socket=$d/munge/socket --pid-file=$d/munge/pid \
        --log-file=$d/munge/log --seed-file=$d/munge/seed --num-threads=1
    cat >$d/slurm.conf <<C
ClusterName=snin
SlurmctldHost=vm0(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$d/munge/socket
CredType=cred/munge
StateSaveLocation=$d/state
SlurmdSpoolDir=/tmp/node/spool
TmpFS=/tmp/node/tmp
SlurmctldPidFile=$d/slurmctld.pid
SlurmdPidFile=$d/slurmd-%n.pid
SlurmctldLogFile=$d/slurmctld.log
SlurmdLogFile=$d/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_min_interval=10000,batch_sched_delay=0
ReturnToService=2
MailProg=/bin/true
SlurmdParameters=config_overrides
C
    for ((node = 0; node < $1; node++)); do
        echo "NodeName=host$node NodeAddr=127.0.0.1 Port=$((17010 + node)) CPUs=2 RealMemory=64"
    done >>$d/slurm.conf
    echo "PartitionName=all Nodes=host[0-$(($1 - 1))] Default=YES State=UP" >>$d/slurm.conf
    # Its cgroups have to be there, though nothing is done with them.
    echo 'CgroupPlugin=cgroup/v1' >$d/cgroup.conf
    mount -t tmpfs cgroup /sys/fs/cgroup
    for c in freezer cpuset memory devices cpuacct; do
        mkdir /sys/fs/cgroup/$c
        mount -t cgroup -o $c $c /sys/fs/cgroup/$c
    done
    snin slurm install --slurm-conf $d/slurm.conf --hooks $d/hooks --config /root/jobs.toml --write >/dev/null
    export SLURM_CONF=$d/slurm.conf
    slurmctld -f $d/slurm.conf -i
    mkdir -p /tmp/node
    for ((node = 0; node < $1; node++)); do
        mkdir -p $nodes/host$node/{spool,tmp}
        # PMIx has sockets in these folders, and the host's name.
        unshare --mount --uts bash -c "hostname host$node && mount --bind $nodes/host$node /tmp/node &&
            exec slurmd -f $d/slurm.conf"
    done
    until_it_is 'nodes are idle' test_idle "$1"
}

test_idle() {
    [ "$(sinfo -h -t idle -o %D)" = "$1" ]
}

capture() { # DEVICE...: each packet is in the file as soon as tcpdump runs
    local device
    CAPTURES=
    for device in "$@"; do
        tcpdump -Z root -U --immediate-mode -i "$device" -nn -s 64 -w "/tmp/capture-$device" udp port 4791 2>"/tmp/tcpdump-$device" &
        CAPTURES="$CAPTURES $!:$device"
        until_it_is "tcpdump listens at $device" grep -q 'listening on' "/tmp/tcpdump-$device"
    done
}

is_captured() { # PID DEVICE: whether tcpdump has every packet that its filter let through
    kill -USR1 "$1"
    sleep 0.1
    tail -n 1 "/tmp/tcpdump-$2" | grep -qE '([1-9][0-9]*) packets captured, \1 packets received by filter'
}

end_capture() { # NAME DEVICE...: leaves `COUNT FROM > TO` a line in $OUT/NAME-packets-DEVICE
    local device one name=$1
    shift
    for one in $CAPTURES; do
        until_it_is "all packets of ${one#*:} are captured" is_captured "${one%:*}" "${one#*:}"
        kill -INT "${one%:*}"
        wait "${one%:*}"
    done
    for device in "$@"; do
        tcpdump -Z root -nn -q -r "/tmp/capture-$device" 2>/dev/null |
            sed -E 's/^.* IP ([0-9.]+)\.[0-9]+ > ([0-9.]+)\.[0-9]+.*/\1 > \2/' | sort | uniq -c >"$OUT/$name-packets-$device"
    done
}
