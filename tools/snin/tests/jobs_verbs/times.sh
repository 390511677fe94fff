# In the virtual machine: what the preload library, which asks the hosts' agents, adds to meeting peers, and how long
# ranks of Open MPI take until MPI_Init returns and until all have met; with the argument `with` or `without` it, so
# many times.
set -eu
. /root/common.sh
way=$1
start_controller
settings 'device = "snin%n"' 'agent = "/tmp/node/agent"' 'pairs = "/tmp/node/pairs"'
snin job begin slurm/9 --on host0,host1,host2,host3 --config /root/jobs.toml
agents=''
for number in 0 1 2 3; do
    start_agent $number
    agents="$agents,$nodes/host$number/agent"
    sed "s#/tmp/node#$nodes/host$number#" /root/jobs.toml >"/root/jobs$number.toml"
    # As Slurm does it on each node.
    for hook in prolog task-prolog; do
        SLURM_JOB_ID=9 SLURM_JOB_UID=0 SLURM_PROCID=0 SLURMD_NODENAME=host$number \
            snin hook $hook --config "/root/jobs$number.toml"
    done | grep -E ' (SNIN|LD|UCX|OMPI)' >/root/env$number
done
cat >/root/rank.sh <<'C'
number=${OMPI_COMM_WORLD_RANK:-0} way=$1
shift
. /root/env$number
# One kernel has all hosts, and no rank is to find that out.
export UCX_TLS=rc_verbs,ud_verbs,self
[ "$way" = with ] || unset LD_PRELOAD
exec "$@"
C
# MPI_Finalize hangs on rxe, so that the ranks are ended: what they printed before is judged, not their exit status.
ranks() { # COUNT RUN
    LD_LIBRARY_PATH=/opt/openmpi/lib:/opt/openmpi/lib/openmpi timeout -s INT -k 2 90 /opt/openmpi/bin/prterun \
        --personality ompi --allow-run-as-root --map-by :oversubscribe --bind-to none -np "$1" \
        bash /root/rank.sh "$way" /opt/openmpi/bin/pairs 20 stop >"$OUT/times-$way-$1-$2" 2>&1 || true
}
for run in $(seq "$2"); do
    for count in 2 4; do ranks $count $run; done
done
# Each host has pairs on several trees.
snin job stats slurm/9 --agents "${agents#,}" --json >"$OUT/times-$way-stats.json" && stats=0 || stats=$?
echo $stats >"$OUT/times-$way-stats-status"
peer=$(cat /sys/class/infiniband/snin2/ports/1/gids/1)
timeout 120 bash /root/rank.sh "$way" peers snin0 "$peer" >"$OUT/peers-$way" 2>&1
