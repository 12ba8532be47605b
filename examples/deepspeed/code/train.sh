#!/bin/sh
# Starts one process of the training. DeepSpeed runs this once for each slot, with RANK, LOCAL_RANK and the like in its environment.
set -eu
echo "starting rank $RANK as process $LOCAL_RANK of $(hostname)"
exec python3 -u /code/train.py "$@"
