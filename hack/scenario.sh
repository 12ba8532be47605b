#!/usr/bin/env bash
# Prints how much code of each package a scenario of the conformance suite runs without a fault: files, and statements.
set -euo pipefail
cd "$(dirname "$0")/.."
scenario=${1:-a collective restarts twice and succeeds}
profile=$(mktemp)
trap 'rm -f "$profile"' EXIT
go test -count=1 ./kit/conformance -run "TestControllerDoesWhatIsRecorded/plain/^${scenario// /_}\$" \
	-coverprofile "$profile" -coverpkg "$(go list ./common/... | paste -sd,)" > /dev/null
awk -F '[: ]' 'NR > 1 && $NF > 0 {
		package = $1; sub("/[^/]*$", "", package)
		if (!($1 in seen)) { seen[$1]; files[package]++; total++ }
		statements[package] += $(NF - 1); all += $(NF - 1)
	}
	END {
		for (p in files) printf "%-50s %3d files %5d statements\n", p, files[p], statements[p] | "sort"
		close("sort"); printf "%-50s %3d files %5d statements\n", "all", total, all
	}' "$profile"
