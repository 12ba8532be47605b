#!/usr/bin/env bash
# The demo for machines that cannot run containers. It runs the same job on simulated nodes, with the controller as a process.
# Nothing trains.
set -euo pipefail
cd "$(dirname "$0")/.."
job=digits-torchrun
step() { printf '\n\033[1m$ %s\033[0m\n' "$*" >&2; "$@"; }

echo "The nodes of this cluster are simulated: the job's pods have a status, but nothing trains. See README.md." >&2
kubectl delete ptjob "$job" --ignore-not-found >/dev/null 2>&1 || true
step kubectl apply -f pytorch/config/crd/batch.tensorstack.dev_pytorchtrainingjobs.yaml
kubectl wait --for=jsonpath='{.status.acceptedNames.kind}'=PyTorchTrainingJob \
	crd/pytorchtrainingjobs.batch.tensorstack.dev --timeout=30s >/dev/null
log=bin/pytorch-controller.log
bin/pytorch-controller --kubeconfig "$KUBECONFIG" --leader-elect=false --image unused \
	--metrics-bind-address 0 --health-probe-bind-address 0 >"$log" 2>&1 &
trap 'kill %1' EXIT

# An annotation tells the simulated nodes how long the pods run.
kubectl patch --local -f examples/pytorch/torchrun.yaml --type=json -o yaml --patch '[{"op": "add",
	"path": "/spec/replicaSpecs/0/template/metadata",
	"value": {"annotations": {"simulation.tensorstack.dev/run-seconds": "5"}}}]' |
	step kubectl apply -f -
kubectl wait --for=jsonpath='{.status.completionTime}' "ptjob/$job" --timeout=120s >/dev/null || tail "$log" >&2
step kubectl get ptjob "$job" -o wide
[ "$(kubectl get ptjob "$job" -o jsonpath='{.status.phase}')" = Succeeded ]
