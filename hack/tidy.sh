#!/usr/bin/env bash
# Tidies the go.mod of each module given. Modules require their siblings by version, and committed go.mod files have no
# replacements. While this script runs, a replacement points to the tree, because the version may not be published yet.
set -euo pipefail
cd "$(dirname "$0")/.."
for module in "$@"; do
	dir=$(mktemp -d)
	cp "$module/go.mod" "$dir/go.mod"
	cp "$module/go.sum" "$dir/go.sum"
	for sibling in "$@"; do
		GOWORK=off go mod edit -replace "$(cd "$sibling" && GOWORK=off go list -m)=$PWD/$sibling" "$dir/go.mod"
	done
	(cd "$module" && GOWORK=off go mod tidy -modfile="$dir/go.mod")
	for sibling in "$@"; do
		GOWORK=off go mod edit -dropreplace "$(cd "$sibling" && GOWORK=off go list -m)" "$dir/go.mod"
	done
	cp "$dir/go.mod" "$module/go.mod"
	cp "$dir/go.sum" "$module/go.sum"
	rm -r "$dir"
done
