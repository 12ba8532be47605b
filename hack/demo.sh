#!/usr/bin/env bash
# Trains on a local Kubernetes: starts the cluster, installs the controller like a user, runs an example job, and prints the
# output of the training pods. It exits with 0 only if the job succeeded.
set -euo pipefail
cd "$(dirname "$0")/.."
job=digits-torchrun

bin/localcluster build pytorch
# The build of Kubernetes has compiled most packages of the controller.
hack/images.sh "linux/$(go env GOARCH)" pytorch &
bin/localcluster up
bin/localcluster training-image pytorch
wait $!
eval "$(bin/localcluster env)"
step() { printf '\n\033[1m$ %s\033[0m\n' "$*" >&2; "$@"; }

if [ "$(bin/localcluster kind)" = simulated ]; then
	exec hack/demo-simulated.sh
fi

hack/install.sh pytorch
# Delete the job of an earlier run, with its pods.
kubectl delete ptjob "$job" --ignore-not-found --cascade=foreground >/dev/null
step kubectl apply -k examples/pytorch/code
step kubectl apply -f examples/pytorch/torchrun.yaml

for pod in "$job-worker-0" "$job-worker-1"; do
	kubectl wait --for=create "pod/$pod" --timeout=60s >/dev/null
	kubectl logs -f "$pod" -c pytorch --prefix --pod-running-timeout=120s &
done
wait

kubectl wait --for=jsonpath='{.status.completionTime}' "ptjob/$job" --timeout=120s >/dev/null || true
step kubectl get ptjob "$job" -o wide
phase=$(kubectl get ptjob "$job" -o jsonpath='{.status.phase}')
if [ "$phase" != Succeeded ]; then
	kubectl describe ptjob "$job" >&2
	echo "Error: the job is $phase, not Succeeded; its status is printed above" >&2
	exit 1
fi
cat <<END

The job has succeeded. To look further:
  eval "\$(bin/localcluster env)"          # kubectl of this cluster
  kubectl describe ptjob $job
  kubectl logs $job-worker-0
  kubectl apply -f examples/pytorch/failing.yaml && kubectl get ptjob -w
  make down                               # removes the cluster
END
