#!/usr/bin/env bash
# Builds the program of a client for each platform given, and packs the files for its users into a folder. hack/tools/client
# describes these files. `make client` and `make release` call this script. Without platforms, it builds for all that are released.
#
#	hack/client.sh MODULE FOLDER [PLATFORM...]
set -euo pipefail
mkdir -p "$2"
output=$(cd "$2" && pwd)
for file in "$output"/*; do # all of them are deleted
	case ${file##*/} in
	kubectl-train_* | train.yaml | '*') ;;
	*)
		echo "hack/client.sh: $file is no file of a client: choose another folder" >&2
		exit 1
		;;
	esac
done
cd "$(dirname "$0")/.."
module=$1
platforms=("${@:3}")
[ ${#platforms[@]} -gt 0 ] || platforms=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64)
built=$(mktemp -d)
trap 'rm -r "$built"' EXIT
folders=()
for platform in "${platforms[@]}"; do
	GOOS=${platform%%/*} GOARCH=${platform#*/} hack/build.sh "$module" "$built/$platform"
	folders+=("$platform=$built/$platform")
done
rm -f "$output"/*
cd hack/tools
# Another version of Go could compress the archives differently.
GOTOOLCHAIN=$(../build.sh --toolchain) GOWORK=off go run ./client -root ../.. -module "$module" \
	-version "$(../build.sh --version "$module")" -folders "$(IFS=,; echo "${folders[*]}")" -output "$output"
