#!/usr/bin/env bash
# Prints the number of code lines of each module in versions.yaml except kit, and their sum, at a commit (default: HEAD).
# Tests, generated files, comments and blank lines do not count. FOLDERS=true prints them for each folder.
set -efuo pipefail # -f: git expands the patterns
cd "$(dirname "$0")/.."
git grep -cvE '^[[:space:]]*(//.*)?$' "${1:-HEAD}" -- \
	$(hack/modules.sh | grep -vx kit | sed 's|$|/*.go|') ':!*_test.go' ':!*/test/*' ':!*/zz_generated*' |
	awk -F: -v folders="${FOLDERS:-}" '
		{
			place = $2
			sub(folders ? "/[^/]*$" : "/.*", "", place)
			lines[place] += $3
			sum += $3
		}
		END {
			for (place in lines) printf "%6d %s\n", lines[place], place | "sort -k2"
			close("sort -k2")
			printf "%6d\n", sum
		}'
