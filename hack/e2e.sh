#!/usr/bin/env bash
# Runs the end-to-end tests against the cluster of $KUBECONFIG, where the controllers must be installed. Without $KUBECONFIG, it
# starts the local cluster and installs the controllers there. The arguments are a label filter and the controllers.
# $E2E_PROCESSES (4) specs run at a time, except for serial ones. With E2E_TRAINING=oldest, all pods run the oldest PyTorch and
# DeepSpeed of versions.yaml instead of the newest. A spec on real nodes waits for $E2E_PATIENCE (5m) for a state. Ginkgo writes a
# JSON report about these specs to the file $E2E_REPORT, an absolute path.
set -euo pipefail
cd "$(dirname "$0")/.."
case "$1" in
scheduling | nodes) folder=scheduling ;;
kueue | multikueue | "kueue && !multikueue") folder=kueue ;;
*) folder=e2e ;;
esac
if [ $folder != e2e ]; then # on separate control planes with simulated nodes
	cd test
	E2E=true exec ../bin/ginkgo -v --no-color --procs="${E2E_PROCESSES:-4}" --timeout=90m --poll-progress-after=5m \
		--label-filter="$1" ./$folder
fi
if [ -z "${KUBECONFIG:-}" ] || [ "$KUBECONFIG" = "$(bin/localcluster kubeconfig)" ]; then
	images=(pytorch tensorflow deepspeed tensorboard)
	if [ "${E2E_TRAINING:-newest}" = oldest ]; then
		oldest() { sed -nE "s/^$1: \{oldest: \"([^\"]+)\".*/$1:\1/p" versions.yaml; }
		images+=("$(oldest pytorch)" "$(oldest deepspeed)")
	fi
	bin/localcluster build "${images[@]}"
	bin/localcluster up
	if [ "$(bin/localcluster kind)" = simulated ]; then
		echo "Error: the nodes of the local cluster are simulated, and the end-to-end tests need real ones." >&2
		echo "Run as root on Debian, or set KUBECONFIG to a cluster with the controllers installed." >&2
		exit 1
	fi
	bin/localcluster training-image "${images[@]}"
	bin/localcluster component-image versitygw
	CHROMIUM=$(bin/localcluster browser)
	export CHROMIUM
	hack/install.sh "${@:2}"
	eval "$(bin/localcluster env)"
fi
E2E_FAILURES=$(mktemp)
export PATH=$PWD/bin:$PATH E2E=true E2E_FAILURES
trap 'rm -f "$E2E_FAILURES"' EXIT
if (cd test && ginkgo -v --no-color --procs="${E2E_PROCESSES:-4}" --timeout=80m --poll-progress-after=5m --label-filter="$1" \
	${E2E_REPORT:+"--output-dir=$(dirname "$E2E_REPORT")" "--json-report=$(basename "$E2E_REPORT")"} ./e2e); then
	exit
fi
# A component that has ended, or pods that do not start or end, can explain the failure.
kubectl get pods --all-namespaces | head -n 40 || true
bin/localcluster status || true
logs=$(dirname "$(bin/localcluster kubeconfig)")/logs
tail -n 4 "$logs"/kube-controller-manager.log "$logs"/kubelet.log 2>/dev/null | cut -c 1-300 || true
cat "$E2E_FAILURES" # last, because the record of a run can be cut to its end
exit 1
