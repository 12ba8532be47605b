#!/usr/bin/env bash
# Lints the modules given, hack/tools, hack/licenses, the workflows of GitHub Actions, and all texts against docs/contribute/style.md. golangci-lint
# caches its results by the paths of the files, so it runs on a copy of the tree at a path that all clones share. It prints
# paths relative to the module.
set -euo pipefail
cd "$(dirname "$0")/.."
linter=$PWD/bin/golangci-lint
copy=${TENSORSTACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tensorstack-jobs}/lint
mkdir -p "$copy"
exec 9>"$copy.lock"
flock 9 # one clone at a time
find "$copy" -mindepth 1 -delete
find . \( -path ./.git -o -path ./bin \) -prune -o -type f -print0 | tar --create --null --files-from - | tar --extract --directory "$copy"
status=0
for module in "$@"; do
	echo "$module"
	(cd "$copy/$module" && "$linter" run ./...) || status=1
done
for tools in hack/tools hack/licenses; do
	echo "$tools"
	(cd "$copy/$tools" && GOWORK=off "$linter" run ./...) || status=1
done
echo .github/workflows
# The dependencies of actionlint conflict with the dependencies of hack/tools, so it is built separately.
go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12 -shellcheck= -pyflakes= .github/workflows/*.yaml || status=1
echo docs/contribute/style.md
go test -count=1 ./test/style || status=1
exit "$status"
