#!/bin/bash
# Starts two ranks as srun does: the same command twice, told apart by variables alone.
export MASTER_ADDR=127.0.0.1 WORLD_SIZE=2 MASTER_PORT=$("$PYTHON" port.py)
for rank in 0 1; do
  RANK=$rank LOCAL_RANK=$rank SLURM_PROCID=$rank SLURM_LOCALID=$rank \
    "$PYTHON" training.py "$@" >"out$rank.txt" 2>"err$rank.txt" &
  ranks[rank]=$!
done
code=0
for rank in 0 1; do
  wait "${ranks[rank]}" || code=$?
done
exit $code
