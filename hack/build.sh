#!/usr/bin/env bash
# Builds the files of a controller's image into a folder: the static binary, and sbom.cdx.json, which lists its Go modules.
# `make images` and the Dockerfile both call this script, so their images have the same content. GOOS and GOARCH name the platform.
#
#	hack/build.sh MODULE FOLDER
#	hack/build.sh --version MODULE
#	hack/build.sh --revision MODULE
set -euo pipefail
output=${2:-}
case $output in [!/]*) output=$PWD/$output ;; esac
cd "$(dirname "$0")/.."

version() { sed -n "s/^  $1: {version: \(v[^,}]*\).*/\1/p" versions.yaml; }

# The last commit that changed a file that the controller is built from. Other commits change neither the binary nor the digest
# of the image.
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
# The binary does not depend on the machine that builds it. The version of Go is the one in the Dockerfile, which the go command
# downloads if necessary. All settings are the defaults of Go.
GOTOOLCHAIN=go$(sed -n 's/^FROM .*golang:\([0-9.]*\)@sha256:.*/\1/p' Dockerfile)
export GOTOOLCHAIN GOFLAGS='' GOEXPERIMENT='' GOFIPS140=off GOAMD64=v1 GOARM64=v8.0
# Dependencies have the versions in the go.mod of the module, regardless of go.work. The module common is used from this tree.
# Only tests need the module kit.
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
# The tool runs on this machine, regardless of the target platform.
GOOS='' GOARCH='' GOWORK=off go run ./sbom -binary "$output/$module-controller" -version "$version" -output "$output/sbom.cdx.json"
