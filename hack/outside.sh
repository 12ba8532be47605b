#!/usr/bin/env bash
# Takes the modules as others do, from a module proxy: no go.work, no siblings, no repository around them, and of everything the versions
# that a module's own go.mod pins. Each is built, vetted and tested by itself (without what takes long: go test -short), and a
# program of somebody else's uses the API of them all.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
cache=${TENSORSTACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensorstack-jobs}/outside
KUBEBUILDER_ASSETS=$(bin/localcluster assets)
# What is here has the version of what is released, and must not be taken for it by other builds: the modules get a cache of their
# own. The proxies before the configured one save downloads.
GOPROXY=file://$cache/proxy,file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)
GONOSUMDB=tensorstack.dev${GONOSUMDB:+,$GONOSUMDB}
GOMODCACHE=$cache/modules
# Go remembers which files a module of a version has, and here that changes: it is not to.
GODEBUG=goindex=0${GODEBUG:+,$GODEBUG}
# -mod=mod, since a go.sum in the repository cannot have the checksum of a sibling that is not released yet; -trimpath and no cgo, since
# the images are built so too, and both then share what is compiled.
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
	diff "$cache/taken/$module.mod" go.mod || { echo "Error: the go.mod of $module lacks what is built: make tidy" >&2; exit 1; }
	if [ -d "cmd/$module-controller" ]; then
		(cd / && GOBIN=$cache/taken/bin go install "$path/cmd/$module-controller@$version")
		"$cache/taken/bin/$module-controller" --version | grep -F " version $version "
	fi
	echo "$path $version: $((SECONDS - started)) s"
done <<<"$packed"

# What a command says matters only if it fails.
quietly() {
	local said
	said=$("$@" 2>&1) || { echo "$said" >&2; echo "Error: $* failed in $PWD" >&2; return 1; }
}

mkdir "$cache/taken/consumer"
cd "$cache/taken/consumer"
cp "$root"/hack/consumer/*.go .
quietly go mod init example.com/consumer
while read -r path version; do quietly go get "$path@$version"; done <<<"$packed"
quietly go mod tidy # as everybody does; of tests of dependencies it needs the go.mod only
go run .
echo "a program that uses all modules is built, and knows all kinds"
