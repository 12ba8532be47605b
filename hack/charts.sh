#!/usr/bin/env bash
# Makes a Helm chart of each controller given, in $CHARTS, and packs it. A chart consists of the objects that kustomize builds
# from deploy/, and of the templates of deploy/chart, which apply the values. kustomize and helm are in $BIN.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=${BIN:-bin}
charts=${CHARTS:-bin/charts}
rm -rf "$charts"
for controller in "$@"; do
	chart=$charts/$controller-controller
	mkdir -p "$chart/files"
	cp -r deploy/chart/templates "$chart"
	version=$(hack/build.sh --version "$controller")
	sed "s#IMAGE#tensorstack/$controller-controller#" deploy/chart/values.yaml >"$chart/values.yaml"
	"$programs/kustomize" build "deploy/$controller/crd" >"$chart/files/crd.yaml"
	"$programs/kustomize" build "$controller/config/servicemonitor" >"$chart/files/servicemonitor.yaml"
	"$programs/kustomize" build "$controller/config/securemetrics" >"$chart/files/securemetrics.yaml"
	if [ "$controller" = scheduler ]; then
		for engine in native volcano; do "$programs/kustomize" build "deploy/scheduler/$engine/controller" >"$chart/files/$engine.yaml"; done
		cat deploy/chart/engine.values.yaml >>"$chart/values.yaml"
		sed '/"namespaced"/d; /"networkPolicies": {"$ref"/d' deploy/chart/values.schema.json >"$chart/values.schema.json"
	else
		"$programs/kustomize" build "deploy/$controller/controller" >"$chart/files/controller.yaml"
		cat deploy/chart/{namespaced,networkpolicies}.values.yaml >>"$chart/values.yaml"
		sed '/"engine"/d; /"mutatingAdmissionPolicies"/d' deploy/chart/values.schema.json >"$chart/values.schema.json"
	fi
	if [ -d "$controller/config/kueue" ]; then
		"$programs/kustomize" build "$controller/config/kueue/objects" >"$chart/files/kueue.yaml"
		cat deploy/chart/kueue.values.yaml >>"$chart/values.yaml"
	else
		sed -i '/"kueue"/d' "$chart/values.schema.json"
		rm "$chart/templates/kueue.yaml"
	fi
	cat >"$chart/Chart.yaml" <<-END
		apiVersion: v2
		name: $controller-controller
		description: The $controller-controller of TensorStack Jobs, with its API
		type: application
		version: ${version#v}
		appVersion: $version
		kubeVersion: ">=1.34.0-0"
		home: https://tensorstack.dev/jobs
	END
	# The archive contains the times of the files. Fixed times make it reproducible.
	find "$chart" -exec touch --date=@0 {} +
	"$programs/helm" lint --quiet "$chart"
	"$programs/helm" package "$chart" --destination "$charts"
done
