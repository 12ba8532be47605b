#!/usr/bin/env bash
# Builds the images of the controllers given for the platforms given, without a container runtime. For each controller it leaves
# in bin/: an OCI layout with all platforms (<controller>.oci) and its digest in a registry (.digest); for the platform of this
# machine also the archive (.tar), the binary, and the SBOM (.cdx.json), which the image contains too. Images that were built
# from the same files before, in any clone, are copied from the cache.
#
#	hack/images.sh "linux/amd64 linux/arm64" pytorch tensorflow
set -euo pipefail
cd "$(dirname "$0")/.."
native=linux/$(go env GOHOSTARCH)
cache=${TENSORSTACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensorstack-jobs}/controllers
kept=3 # images of each controller in the cache

# The inputs of an image: the files of the module, of common and of the build tools, and the values that are written into it.
inputs() {
	echo "$2 $(hack/build.sh --revision "$1")"
	find common "$1" hack/build.sh hack/images.sh hack/licenses hack/tools Dockerfile LICENSE versions.yaml -type f -print0 | sort -z | xargs -0 sha256sum
}

build() {
	local module=$1 platforms=$2 output=$3 folders=() platform folder
	for platform in $platforms; do
		folder=$output/build/$platform
		GOOS=${platform%%/*} GOARCH=${platform#*/} hack/build.sh "$module" "$folder"
		folders+=("$platform=$folder")
		[ "$platform" != "$native" ] || cp "$folder/$module-controller" "$output/$module-controller"
		[ "$platform" != "$native" ] || cp "$folder/sbom.cdx.json" "$output/$module-controller.cdx.json"
	done
	bin/image -name "tensorstack/$module-controller:$(hack/build.sh --version "$module")" -revision "$(hack/build.sh --revision "$module")" \
		-folders "$(IFS=,; echo "${folders[*]}")" -layout "$output/$module-controller.oci" -archive "$output/$module-controller.tar" \
		>"$output/$module-controller.digest"
	rm -r "$output/build"
}

for module in "${@:2}"; do
	image=$module-controller
	key=$module-$(inputs "$module" "$1" | sha256sum | head -c 16)
	if [ ! -d "$cache/$key" ]; then
		mkdir -p "$cache"
		new=$(mktemp -d "$cache/.$module-XXXXXX")
		trap 'rm -rf "$new"' EXIT
		build "$module" "$1" "$new"
		mv -T "$new" "$cache/$key" 2>/dev/null || [ -d "$cache/$key" ] # another clone built the same image first
		find "$cache" -maxdepth 1 -name "$module-*" -printf '%T@ %p\0' | sort -zrn | tail -zn "+$((kept + 1))" | cut -zd' ' -f2- | xargs -0 rm -rf
	fi
	touch "$cache/$key" # mark it as used, since the oldest are deleted first
	# An earlier build can have left files of other platforms.
	rm -rf bin/"$image" bin/"$image".{oci,digest,tar,cdx.json}
	cp -r --reflink=auto "$cache/$key/." bin/
	cat "bin/$image.digest"
done
