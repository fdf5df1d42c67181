#!/usr/bin/env bash
# Fails when the program calls into a vulnerability known in a module it requires. One in
# Go's standard library is said, not failed: its cure is a newer Go, not a change of this tree.
# usage: tools/vuln.sh VULNDB_MODULE@VERSION [GO]
set -euo pipefail
database=${1:?usage: vuln.sh VULNDB_MODULE@VERSION [GO]}
go=${2:-go}
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=$("$go" mod download -json "$database" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",$/\1/p')
[[ -d $dir/data/osv ]] || { echo "no database in $database" >&2; exit 1; }
status=0
found=$("$go" tool -modfile=tools/go.mod govulncheck -db "file://$dir/data/osv" ./... 2>&1) || status=$?
case $status in
  0) exit 0 ;;
  3) ;; # it found something
  *) printf '%s\n' "$found" >&2; exit "$status" ;;
esac
if grep -qE '^[[:space:]]+Module: ' <<<"$found"; then
  printf '%s\n' "$found" >&2
  exit 1
fi
echo "vulnerabilities in Go's own library, mended by building with a newer Go:"
grep -E '^Vulnerability #|Found in:|Fixed in:' <<<"$found"
