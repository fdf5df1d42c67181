#!/usr/bin/env bash
# Fails when `go generate` would change a file: what is committed must be current.
# usage: tools/generated.sh [GO]
set -euo pipefail
go=${1:-go}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sums() { git ls-files -z --cached --others --exclude-standard | xargs -0r sha256sum 2>/dev/null || true; }
before=$(sums)
"$go" generate ./...
if changed=$(diff <(printf '%s\n' "$before") <(sums)); then exit 0; fi
echo "generated files are not current; commit what make generate wrote:" >&2
sed -nE 's/^> [0-9a-f]+ +//p' <<<"$changed" >&2
exit 1
