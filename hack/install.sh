#!/usr/bin/env bash
# Installs the controllers given into the local cluster like a user, from the images in bin/.
set -euo pipefail
cd "$(dirname "$0")/.."
eval "$(bin/localcluster env)"
step() { printf '\n\033[1m$ %s\033[0m\n' "$*" >&2; "$@"; }
for controller in "$@"; do
	bin/localcluster load-image "bin/$controller-controller.tar"
	deployment=(-n "t9k-$controller" "deployment/$controller-controller")
	installed=$(kubectl get "${deployment[@]}" --ignore-not-found -o name 2>/dev/null)
	manifests=deploy/$controller
	[ -d "$manifests/native" ] && manifests+=/native # kube-scheduler, which every cluster has
	step kubectl apply -k "$manifests"
	# A cluster of an earlier run can still run an older image.
	[ -z "$installed" ] || kubectl rollout restart "${deployment[@]}"
	step kubectl rollout status "${deployment[@]}" --timeout=120s
done
