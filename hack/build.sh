#!/usr/bin/env bash
# Builds the program of a module into a folder: the static binary; sbom.cdx.json, which lists its Go modules; LICENSE; and
# THIRD_PARTY_LICENSES, with the licenses of these modules and of Go. `make images`, the Dockerfile and hack/client.sh all call
# this script, so they build the same files. GOOS and GOARCH name the platform.
#
#	hack/build.sh MODULE FOLDER
#	hack/build.sh --version MODULE
#	hack/build.sh --revision MODULE
#	hack/build.sh --toolchain
set -euo pipefail
output=${2:-}
case $output in [!/]*) output=$PWD/$output ;; esac
cd "$(dirname "$0")/.."

version() { sed -n "s/^  $1: {version: \(v[^,}]*\).*/\1/p" versions.yaml; }

# The version of Go in the Dockerfile, which the go command downloads if necessary.
toolchain() { sed -n 's/^FROM .*golang:\([0-9.]*\)@sha256:.*/go\1/p' Dockerfile; }

# The modules of this repository that the program is built from, besides its own. Only tests need the module kit.
siblings() { sed -nE '/\/kit /d; s|^\ttensorstack\.dev/jobs/([a-z0-9-]+) v.*|\1|p' "$1/go.mod"; }

# The last commit that changed a file that the program is built from. Other commits change neither the binary nor the digest of
# the image.
revision() {
	local sources=("$1" $(siblings "$1"))
	if [ -n "${REVISION:-}" ]; then
		echo "$REVISION"
	elif ! git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		echo unknown
	else
		echo "$(git log -1 --format=%H -- "${sources[@]}")$([ -z "$(git status --porcelain -- "${sources[@]}")" ] || echo -dirty)"
	fi
}

case $1 in
--version | --revision | --toolchain)
	"${1#--}" "${@:2}"
	exit
	;;
esac

module=$1
program=$(ls "$module/cmd")
version=$(version "$module")
revision=$(revision "$module")
[ -n "$version" ] || { echo "Error: versions.yaml has no version of $module" >&2; exit 1; }
package=tensorstack.dev/jobs/common/version
mkdir -p "$output"
# The binary does not depend on the machine that builds it. All settings are the defaults of Go.
GOTOOLCHAIN=$(toolchain)
export GOTOOLCHAIN GOFLAGS='' GOEXPERIMENT='' GOFIPS140=off GOAMD64=v1 GOARM64=v8.0
# Dependencies have the versions in the go.mod of the module, regardless of go.work. Other modules of this repository are used
# from this tree.
pins=$(mktemp -d)
trap 'rm -r "$pins"' EXIT
cp "$module/go.mod" "$module/go.sum" "$pins"
for sibling in $(siblings "$module"); do
	GOWORK=off go mod edit -replace "tensorstack.dev/jobs/$sibling=../$sibling" "$pins/go.mod"
done
GOWORK=off go mod edit -droprequire tensorstack.dev/jobs/kit "$pins/go.mod"
(
	cd "$module"
	GOWORK=off CGO_ENABLED=0 go build -modfile="$pins/go.mod" -trimpath -buildvcs=false \
		-ldflags "-s -w -X $package.linkedVersion=$version -X $package.linkedRevision=$revision" \
		-o "$output/$program" "./cmd/$program"
	GOWORK=off CGO_ENABLED=0 go list -modfile="$pins/go.mod" -deps -json=Dir,EmbedFiles,ImportPath,Module "./cmd/$program" >"$pins/packages.json"
)
goroot=$(go env GOROOT)
cp LICENSE "$output"
# The tools run on this machine, regardless of the target platform.
export GOOS='' GOARCH='' GOWORK=off
(cd hack/tools && go run ./sbom -binary "$output/$program" -version "$version" -output "$output/sbom.cdx.json")
cd hack/licenses
go run . -goroot "$goroot" -output "$output/THIRD_PARTY_LICENSES" <"$pins/packages.json"
