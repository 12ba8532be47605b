#!/usr/bin/env bash
# Prints the modules of versions.yaml, or those of the roles given: library, framework, controller, client.
set -euo pipefail
cd "$(dirname "$0")/.."
roles=${*:-library framework controller client}
sed -nE "s/^  ([a-z0-9-]+): \{version: [^,]+, role: (${roles// /|})[,}].*/\1/p" versions.yaml | grep . ||
	{ echo "Error: versions.yaml has no module with a role of: $roles" >&2; exit 1; }
