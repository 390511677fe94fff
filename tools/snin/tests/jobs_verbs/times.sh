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
number=${OMPI_COMM_WORLD_RANK:-0} way=$1 said=$2
shift 2
. /root/env$number
# One kernel has all hosts, and no rank is to find that out.
export UCX_TLS=rc_verbs,ud_verbs,self
[ "$way" = with ] || unset LD_PRELOAD
exec "$@" >>"$said" 2>&1
C
stats() { snin job stats slurm/9 --agents "${agents#,}" --json; }
# MPI_Finalize hangs on rxe, so that the ranks are killed when all have said what they did: that is judged, not their exit
# status. Before, the agents are asked: what a queue pair counted since they last looked goes with its program.
ranks() { # COUNT RUN
    said="$OUT/times-$way-$1-$2"
    : >"$said"
    LD_LIBRARY_PATH=/opt/openmpi/lib:/opt/openmpi/lib/openmpi timeout -k 2 90 /opt/openmpi/bin/prterun \
        --personality ompi --allow-run-as-root --map-by :oversubscribe --bind-to none -np "$1" \
        bash /root/rank.sh "$way" "$said" /opt/openmpi/bin/pairs 20 stay >>"$said" 2>&1 &
    launcher=$!
    while kill -0 $launcher 2>/dev/null && [ "$(grep -c ' rounds, MPI_Init ' "$said")" -lt "$1" ]; do sleep 0.2; done
    # 1: of some pair one side alone was counted so far.
    stats >/dev/null || [ $? -eq 1 ]
    ! kill -0 $launcher 2>/dev/null || kill $launcher
    ended=0
    wait $launcher || ended=$?
    echo "prterun ended with $ended" >>"$said"
}
for run in $(seq "$2"); do
    for count in 2 4; do ranks $count $run; done
done
# Each host has pairs on several trees.
stats >"$OUT/times-$way-stats.json" && status=0 || status=$?
echo $status >"$OUT/times-$way-stats-status"
peer=$(cat /sys/class/infiniband/snin2/ports/1/gids/1)
timeout 120 bash /root/rank.sh "$way" "$OUT/peers-$way" peers snin0 "$peer"
