#!/bin/sh
# Starts one process of the training. DeepSpeed runs this script once for each slot, and sets RANK, LOCAL_RANK and other variables.
set -eu
echo "starting rank $RANK as process $LOCAL_RANK of $(hostname)"
exec python3 -u /code/train.py "$@"
