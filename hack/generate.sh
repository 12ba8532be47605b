#!/usr/bin/env bash
# Generates deep copies, CRDs and the API reference of the controllers given.
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
done
"$bin/crd-ref-docs" --config hack/crd-ref-docs.yaml --renderer markdown --log-level ERROR \
	--source-path . --output-path docs/api/reference.md
