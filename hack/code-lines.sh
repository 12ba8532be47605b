#!/usr/bin/env bash
# Prints the number of code lines of each module that is installed, and of their sum, at a commit (default: HEAD). Tests,
# generated files, comments and blank lines do not count. FOLDERS=true prints them for each folder.
set -euo pipefail
cd "$(dirname "$0")/.."
git grep -cvE '^[[:space:]]*(//.*)?$' "${1:-HEAD}" -- \
	{cli,common,deepspeed,pytorch,scheduler,tensorboard,tensorflow}/'*.go' ':!*_test.go' ':!*/zz_generated*' |
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
