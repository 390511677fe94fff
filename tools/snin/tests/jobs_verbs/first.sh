# In the virtual machine, hosts being snin0 and following: a controller, an agent, a Slurm of four nodes; srun of a
# two-rank MPI program. What it leaves in $OUT is judged by main.rs.
set -eu
. /root/common.sh
start_controller
# Another's slice has the first tree, so that the job's is none that everything would use anyway.
snin slice create other --on host0,host3 --socket /tmp/control
start_agent snin1 /tmp/agent "$(port_of host1)"
settings 'device = "snin%n"' 'agent = "/tmp/agent"' 'pairs = "/tmp/pairs"' 'shared = "/tmp/shared"'
start_slurm 4
capture snin1 snin2
UCX='UCX_TLS=rc_verbs,ud_verbs,self MPIR_CVAR_NOLOCAL=1 SNIN_VERBOSE=1'
LIBRARIES=/opt/mpich/lib:/opt/mpich/lib/mpich
status=0
timeout -s INT -k 2 40 srun --mpi=pmi2 -N2 -n2 -w host1,host2 bash -c "
    [ \$SLURM_PROCID = 1 ] || snin slice explain slurm/\$SLURM_JOB_ID --socket /tmp/control --json >$OUT/slice.json
    [ \$SLURM_PROCID = 1 ] || cat \$SNIN_JOB_FILE >$OUT/trees
    exec env LD_LIBRARY_PATH=$LIBRARIES $UCX /opt/mpich/bin/pairs 100" >"$OUT/said" 2>&1 || status=$?
end_capture snin1 snin2
echo $status >"$OUT/status"
snin job stats slurm/1 --agents /tmp/agent --json >"$OUT/stats.json"
# With the job its links, its files and what the agent knew of it are gone.
for k in $(seq 100); do [ -z "$(squeue -h)" ] && break; sleep 0.1; done
snin slice list --socket /tmp/control --json >"$OUT/slices.json"
ls /tmp/shared /tmp/jobs >"$OUT/left" 2>&1
