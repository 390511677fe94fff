#!/bin/sh
# What a person types who has a fabric as processes: $1 is the command, $2 a folder, $3 the fabric.
# Prints what went wrong and ends with 1.
set -u
snin=$1 folder=$2 fabric=$3
fail() { echo "$1" >&2; exit 1; }
says() { # says PATTERN COMMAND...
    pattern=$1; shift
    said=$("$@" 2>&1) || fail "$*: $said"
    echo "$said" | grep -q -e "$pattern" || fail "$*: no $pattern in: $said"
}
refuses() {
    pattern=$1; shift
    said=$("$@" 2>&1) && fail "$*: goes, but says $said"
    echo "$said" | grep -q -e "$pattern" || fail "$*: no $pattern in: $said"
}
snin() { "$snin" "$@"; }

"$snin" up "$fabric" --folder "$folder" 2>"$folder.said" &
up=$!
trap 'kill $up 2>/dev/null; wait $up' EXIT
n=0
until grep -q "hosts up after" "$folder.said"; do
    n=$((n + 1)); [ $n -lt 1200 ] || fail "it does not come up: $(cat "$folder.said")"
    sleep 0.1
done
grep -q "snin up --env" "$folder.said" || fail "it does not say how to talk to it: $(cat "$folder.said")"

eval "$("$snin" up --env "$folder")"
says "grants connections" snin controller status
says "DLID" snin path n1 n2
says "master" snin sm status
says "nodes" snin emulator status
# Names as people and Slurm have them.
refuses "n3/mlx5_0/1 (0x.*) or n3/mlx5_1/1 (0x.*): name one of them" snin path n3 n1
says "DLID" snin path n3/mlx5_1 n1
says "DLID" snin path "n1 mlx5_0" n2
says "2 hosts (n1 mlx5_0, n2 mlx5_0)" snin slice create job/1 --on "n[1-2]"
refuses "no host is called .n9." snin slice resize job/1 --on "n[1-2,9]"
says "given back" snin slice delete job/1
says "possible" snin slice explain --on "n[1-2]"
says "job/2: 2 hosts" snin job begin job/2 --on "n[1-2]"
says "export SNIN_JOB" snin job env job/2 --host n1 --dry-run
says "given back" snin job end job/2
says "n1 mlx5_0 to n2 mlx5_0" snin request --from n1 --to n2 --windows 2
says "1000 of 1000" snin controller link-test n1
says "n1 mlx5_0/1 to A/1" snin owner n1/1

# Its agents are asked and told as those of hosts are.
says "port 0x.*, listens at the software port of" snin agent status
says "controller heard" snin agent status
says "peer" snin agent flows
says "3 messages to send" snin agent send --peer n2 --count 3 --size 4096
n=0
until snin agent histogram 2>/dev/null | grep -q "^ 3 "; do
    n=$((n + 1)); [ $n -lt 300 ] || fail "three messages do not arrive: $(snin agent histogram 2>&1)"
    sleep 0.1
done
says "CONTROLLER_FOUND" snin agent events
says "tree" snin agent mesh
kill $up
wait $up || fail "snin up ends with $?"
trap - EXIT
refuses "nothing runs there" snin up --env "$folder"
