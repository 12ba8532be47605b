#!/usr/bin/env bash
# Builds the images of the controllers given for the platforms given, without a container runtime. Of each it leaves in bin/
# an OCI layout with all platforms (<controller>.oci), its digest in a registry (.digest), and of this machine's platform the archive
# (.tar) and the SBOM (.cdx.json), which is in the image too.
#
#	hack/images.sh "linux/amd64 linux/arm64" pytorch tensorflow
set -euo pipefail
cd "$(dirname "$0")/.."
native=linux/$(go env GOHOSTARCH)
for module in "${@:2}"; do
	image=bin/$module-controller
	# What an earlier build has left there, of other platforms, would stay beside it.
	rm -rf "$image" "$image".{oci,digest,tar,cdx.json}
	folders=()
	for platform in $1; do
		folder=bin/build/$module/$platform
		rm -rf "$folder"
		GOOS=${platform%%/*} GOARCH=${platform#*/} hack/build.sh "$module" "$folder"
		folders+=("$platform=$folder")
		[ "$platform" != "$native" ] || cp "$folder/$module-controller" "$folder/sbom.cdx.json" bin/
	done
	[ ! -f bin/sbom.cdx.json ] || mv bin/sbom.cdx.json "$image.cdx.json"
	bin/image -name "$(sed -n 's/^ *image: //p' "$module/config/manager/deployment.yaml")" -revision "$(hack/build.sh --revision "$module")" \
		-folders "$(IFS=,; echo "${folders[*]}")" -layout "$image.oci" -archive "$image.tar" | tee "$image.digest"
done
