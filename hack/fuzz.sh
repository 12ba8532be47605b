#!/usr/bin/env bash
# Fuzzes each target for $FUZZTIME (1m). With the argument "turn", it fuzzes only one target, which the hash of the tree
# selects. The same tree gets the same target in every clone.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t targets < <(git grep --untracked -o '^func Fuzz[A-Za-z]*' -- '*_test.go' ':!hack' | sort)
if [ "${1:-}" = turn ]; then
	tree=$(git rev-parse 'HEAD^{tree}')
	targets=("${targets[$((16#${tree:0:8} % ${#targets[@]}))]}")
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for target in "${targets[@]}"; do
	package=$(dirname "${target%%:*}") name=${target##* }
	echo "fuzzing $name of $package"
	if ! (cd "$package" && go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-1m}" -fuzzminimizetime 10x .) 2>&1 | tee "$log"; then
		# Before Go 1.27, the end of the time can look like a failure: https://go.dev/issue/75804. A failure has an input.
		if grep -q 'Failing input written' "$log" || ! grep -qx '    context deadline exceeded' "$log"; then exit 1; fi
	fi
done
