#!/usr/bin/env bash
# Runs the integration specs of the scheduler-controller and the tensorboard-controller three times, and compares the
# requests with which the controllers write with those in test/testdata/recording.txt of their modules. The two need not be
# equal, since one write can report several changes. Read each difference. With the argument "update", it writes
# the files. The API server is that of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$(bin/localcluster assets)}
export KUBEBUILDER_ASSETS
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for run in 1 2 3; do
	mkdir "$folder/$run"
	CONTROLPLANE_RECORDING="$folder/$run" go test -count=1 ./scheduler/test ./tensorboard/test
done
for module in scheduler tensorboard; do
	recorded=$module/test/testdata/recording.txt
	sort -u "$folder"/*/"$module-controller.txt" > "$folder/$module"
	if [ "${1:-}" = update ]; then
		cp "$folder/$module" "$recorded"
	else
		diff "$recorded" "$folder/$module" || true
	fi
done
