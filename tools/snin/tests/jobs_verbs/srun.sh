# In the virtual machine, hosts being snin0 and following: a controller, agents, a Slurm of four nodes; srun of an MPI
# program, a rank a host. What it leaves in $OUT under NAME is judged by main.rs.
set -eu
. /root/common.sh
mpi=$1 way=$2 name=${3:-$1}
start_controller
# Another's slice has the first tree, so that the job's is none that everything would use anyway.
snin slice create other --on host0,host3 --socket /tmp/control
settings 'device = "snin%n"' 'agent = "/tmp/node/agent"' 'pairs = "/tmp/node/pairs"' 'shared = "/tmp/shared"'
for number in 1 2; do start_agent $number; done
start_slurm 4
capture snin1 snin2
UCX='UCX_TLS=rc_verbs,ud_verbs,self MPIR_CVAR_NOLOCAL=1 SNIN_VERBOSE=1'
# For rdma_rxe a count of 7, which is UCX's own, is for ever: a rank whose last packet a peer does not acknowledge that has
# ended already would wait in MPI_Finalize.
UCX="$UCX UCX_RC_VERBS_RETRY_COUNT=6 UCX_RC_VERBS_TIMEOUT=300ms"
libraries=/opt/$mpi/lib:/opt/$mpi/lib/$mpi
status=0
SNIN_STATS=1 timeout -s INT -k 2 120 srun --mpi="$way" ${PATTERN:+"--comment=--snin=$PATTERN"} -N2 -n2 -w host1,host2 bash -c "
    [ \$SLURM_PROCID != 0 ] || snin slice explain slurm/\$SLURM_JOB_ID --socket /tmp/control --json >$OUT/$name-slice.json
    [ \$SLURM_PROCID != 0 ] || cat \$SNIN_JOB_FILE >$OUT/$name-trees
    exec env LD_LIBRARY_PATH=$libraries $UCX /opt/$mpi/bin/pairs 100" >"$OUT/$name-said" 2>&1 || status=$?
echo $status >"$OUT/$name-status"
end_capture "$name" snin1 snin2
snin job stats slurm/1 --agents $nodes/host1/agent,$nodes/host2/agent --json >"$OUT/$name-stats.json"
# With the job its links, its files and what the agent knew of it are gone.
for k in $(seq 100); do [ -z "$(squeue -h)" ] && break; sleep 0.1; done
snin slice list --socket /tmp/control --json >"$OUT/$name-slices.json"
ls /tmp/shared $nodes/*/jobs >"$OUT/$name-left" 2>&1
