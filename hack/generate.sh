#!/usr/bin/env bash
# Generates deep copies, CRDs and the API references of the controllers given.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/bin
mkdir -p docs/api
(cd common && "$bin/controller-gen" object paths=./api/...)
for controller in "$@"; do
	(
		cd "$controller"
		"$bin/controller-gen" object paths=./api/...
		"$bin/controller-gen" crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd
		"$bin/trimcrd" config/crd/*_*.yaml
	)
	# Types of the same group and name, of two controllers, would be one in a common reference: each gets a workspace of its own.
	dir=$(mktemp -d)
	cp -r common "$controller" "$dir"
	(
		cd "$dir"
		go work init ./common "./$controller"
		go work edit -replace tensorstack.dev/jobs/common@v0.1.0=./common
		"$bin/crd-ref-docs" --config "$OLDPWD/hack/crd-ref-docs.yaml" --renderer markdown --log-level ERROR \
			--source-path . --output-path "$OLDPWD/docs/api/$controller.md"
	)
	rm -r "$dir"
done
