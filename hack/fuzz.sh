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
for target in "${targets[@]}"; do
	package=$(dirname "${target%%:*}") name=${target##* }
	echo "fuzzing $name of $package"
	(cd "$package" && go test -run '^$' -fuzz "^$name\$" -fuzztime "${FUZZTIME:-1m}" -fuzzminimizetime 10x .)
done
