#!/usr/bin/env bash
# Builds the controller of a module into a folder, as its image holds it: the static binary, and sbom.cdx.json, which lists the Go
# modules that are in it. `make images` and the Dockerfile both call it, so that both images hold the same. GOOS and GOARCH name the platform.
#
#	hack/build.sh MODULE FOLDER
#	hack/build.sh --version MODULE
#	hack/build.sh --revision MODULE
set -euo pipefail
output=${2:-}
case $output in [!/]*) output=$PWD/$output ;; esac
cd "$(dirname "$0")/.."

version() { sed -n "s/^  $1: {version: \(v[^,}]*\).*/\1/p" versions.yaml; }

# The last commit that changed what the controller is built from: one that changed something else leaves the binary, and the digest
# of the image, as they are.
revision() {
	if [ -n "${REVISION:-}" ]; then
		echo "$REVISION"
	elif ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		echo unknown
	else
		echo "$(git log -1 --format=%H -- common "$1")$([ -z "$(git status --porcelain -- common "$1")" ] || echo -dirty)"
	fi
}

case $1 in
--version | --revision)
	"${1#--}" "$2"
	exit
	;;
esac

module=$1
version=$(version "$module")
revision=$(revision "$module")
[ -n "$version" ] || { echo "Error: versions.yaml has no version of $module" >&2; exit 1; }
manager=tensorstack.dev/jobs/common/manager
mkdir -p "$output"
# Nothing of the binary depends on who builds it: this is the Go of the Dockerfile, which the go command fetches if it is another one, and
# what Go does by default.
GOTOOLCHAIN=go$(sed -n 's/^FROM .*golang:\([0-9.]*\)@sha256:.*/\1/p' Dockerfile)
export GOTOOLCHAIN GOFLAGS='' GOEXPERIMENT='' GOFIPS140=off GOAMD64=v1 GOARM64=v8.0
# The versions that the module's own go.mod pins, whatever else is in go.work; of common, what is here. Only tests need
# the kit.
pins=$(mktemp -d)
trap 'rm -r "$pins"' EXIT
cp "$module/go.mod" "$module/go.sum" "$pins"
GOWORK=off go mod edit -replace tensorstack.dev/jobs/common=../common -droprequire tensorstack.dev/jobs/kit "$pins/go.mod"
(
	cd "$module"
	GOWORK=off CGO_ENABLED=0 go build -modfile="$pins/go.mod" -trimpath -buildvcs=false \
		-ldflags "-s -w -X $manager.linkedVersion=$version -X $manager.linkedRevision=$revision" \
		-o "$output/$module-controller" "./cmd/$module-controller"
)
cd hack/tools
# On this machine, whatever it builds for.
GOOS='' GOARCH='' GOWORK=off go run ./sbom -binary "$output/$module-controller" -version "$version" -output "$output/sbom.cdx.json"
