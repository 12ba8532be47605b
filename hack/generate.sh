#!/usr/bin/env bash
# Generates deep copies, CRDs, manifests and the references of the controllers given, the lists of modules, and the pages in the plugin.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
bin=$root/bin
mkdir -p docs/api docs/reference
fields=$(mktemp -d)
trap 'rm -r "$fields"' EXIT
"$bin/registry" -root .
(cd common && "$bin/controller-gen" object paths=./api/...)
for controller in "$@"; do
	# An API that other modules use is in common, which was generated before.
	module=$controller
	api=./api
	if [ -d "common/api/$controller" ]; then
		module=common
		api=./api/$controller
	else
		(cd "$controller" && "$bin/controller-gen" object paths=./api/...)
	fi
	(cd "$module" && "$bin/controller-gen" crd:generateEmbeddedObjectMeta=true paths="$api/..." output:crd:dir="$root/$controller/config/crd")
	"$bin/trimcrd" "$controller"/config/crd/*_*.yaml
	{
		echo "# The objects of config/controller, written by make generate. The tests of a module read only files of the module."
		"$bin/kustomize" build "$controller/config/controller"
	} >"$controller/config/controller.yaml"
	if [ -d "$controller/config/rights" ]; then
		{
			echo "# The objects of config/rights, written by make generate."
			"$bin/kustomize" build "$controller/config/rights"
		} >"$controller/config/rights.yaml"
	fi
	# The patches of a component name the controller, so that components of several controllers can be combined.
	for component in networkpolicies securemetrics; do
		if [ "$controller/$component" = scheduler/networkpolicies ]; then continue; fi
		mkdir -p "$controller/config/$component"
		for file in "deploy/base/$component"/*.yaml; do
			{
				echo "# Written by make generate from $file."
				sed "s/NAME/$controller/g" "$file"
			} >"$controller/config/$component/${file##*/}"
		done
	done
	# The module is also tested without its siblings and the examples.
	if [ "$module" = common ]; then
		mkdir -p "kit/controlplane/crds/$controller"
		cp "$controller"/config/crd/*_*.yaml "kit/controlplane/crds/$controller"
	elif [ -d "$controller/testdata" ]; then
		{
			echo "# The objects of examples/$controller, written by make generate."
			awk 'FNR == 1 && NR > 1 { print "---" } 1' "examples/$controller"/*.yaml
		} >"$controller/testdata/examples.yaml"
	fi
	# crd-ref-docs would merge types of two controllers with the same group and name, so each gets a separate workspace.
	dir=$(mktemp -d)
	cp -r common "$controller" "$dir"
	# Leave out kinds of other controllers that share types with this one.
	case $controller in
	scheduler) rm -r "$dir"/common/api/{batch,kueue,tensorboard} ;;
	tensorboard)
		rm -r "$dir"/common/api/{kueue,scheduler}
		find "$dir/common/api/batch" -name '*.go' ! -name doc.go ! -name scheduler.go -delete
		;;
	*) rm -r "$dir"/common/api/{kueue,scheduler} "$dir"/common/api/tensorboard/v1beta1/{tensorboard,zz_generated.deepcopy}.go ;;
	esac
	(
		cd "$dir"
		GOWORK=off go mod edit -droprequire tensorstack.dev/jobs/kit "$controller/go.mod" # only tests need it
		go work init ./common "./$controller"
		required=$(sed -n 's|^\ttensorstack.dev/jobs/common ||p' "$controller/go.mod")
		go work edit -replace "tensorstack.dev/jobs/common@$required=./common"
		"$bin/crd-ref-docs" --config "$root/hack/crd-ref-docs.yaml" --renderer markdown --log-level ERROR \
			--source-path . --output-path "$fields/$controller.md"
	)
	rm -r "$dir"
done
"$bin/reference" -api "$fields" -output docs "$@"
# kubectl train docs prints these pages. A module embeds only its own files, so cli has copies.
rm -rf cli/docs/pages
for page in docs/train/*.md docs/operate/*.md docs/reference/jobs.md "${@/%//README.md}"; do
	mkdir -p "cli/docs/pages/${page%/*}"
	cp "$page" "cli/docs/pages/$page"
done
(cd common && "$bin/surface" -output exported.txt api/{batch,scheduler,tensorboard}/v1beta1 framework controller manager \
	plan/view:Settings network:Policies progress:Pod,Reading,State,Target)
