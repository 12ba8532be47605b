#!/usr/bin/env bash
# Uses the modules like other projects do, from a module proxy: without go.work and the repository, and with the versions that
# the go.mod of each module pins. Each module is built, vetted and tested alone, with go test -short. Then a program of
# another module imports the APIs of all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=${TENSORSTACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensorstack-jobs}/outside
KUBEBUILDER_ASSETS=$(bin/localcluster assets)
# The modules of the tree have the versions of released ones. They get a separate module cache, so that other builds do not use
# them. The proxies before the configured one save downloads.
GOPROXY=file://$cache/proxy,file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
GONOSUMDB=tensorstack.dev${GONOSUMDB:+,$GONOSUMDB}
GOMODCACHE=$cache/modules
# Go caches an index of the files of each version. Here the content of a version changes, so the index is turned off.
GODEBUG=goindex=0${GODEBUG:+,$GODEBUG}
# -mod=mod is needed because go.sum has no checksum of siblings that are not released yet. -trimpath and no cgo are the settings
# of the images, so both builds share the compiled packages.
GOWORK=off GOFLAGS="-mod=mod -modcacherw -trimpath" CGO_ENABLED=0
export KUBEBUILDER_ASSETS GODEBUG GOPROXY GONOSUMDB GOMODCACHE GOWORK GOFLAGS CGO_ENABLED
rm -rf "$cache"/{proxy,taken} "$GOMODCACHE"/{,cache/download/}tensorstack.dev
mkdir -p "$cache/taken/bin"
packed=$(bin/pack -output "$cache/proxy")
while read -r path version; do
	module=${path##*/}
	started=$SECONDS
	cd "$cache/taken"
	cp -r "$(go mod download -json "$path@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')" "$module"
	cd "$module"
	cp go.mod "$cache/taken/$module.mod"
	go build ./...
	go test -short -vet=all -timeout 20m ./... </dev/null
	diff "$cache/taken/$module.mod" go.mod || { echo "Error: the go.mod of $module lacks dependencies: run make tidy" >&2; exit 1; }
	if [ -d cmd ]; then
		program=$(ls cmd)
		(cd / && GOBIN=$cache/taken/bin go install "$path/cmd/$program@$version")
		case $program in
		kubectl-*) "$cache/taken/bin/$program" version --client ;;
		*) "$cache/taken/bin/$program" --version ;;
		esac | grep -F " $version "
	fi
	echo "$path $version: $((SECONDS - started)) s"
done <<<"$packed"

# Print the output of a command only if it fails.
quietly() {
	local said
	said=$("$@" 2>&1) || { echo "$said" >&2; echo "Error: $* failed in $PWD" >&2; return 1; }
}

mkdir "$cache/taken/consumer"
cd "$cache/taken/consumer"
cp "$root"/hack/consumer/*.go .
quietly go mod init example.com/consumer
while read -r path version; do quietly go get "$path@$version"; done <<<"$packed"
quietly go mod tidy # it needs only the go.mod files of the tests of dependencies
go run .
echo "a program that imports all APIs builds and has all kinds"
