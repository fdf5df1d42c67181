#!/usr/bin/env bash
# Builds the real Kubernetes peers that the drills of this folder run against, from their modules: an API server
# with its own etcd and kube-controller-manager (one program, ./controlplane), Helm, and KEDA's operator and
# metrics adapter (./keda). Nothing is installed system-wide: the programs lie under
# ${XDG_CACHE_HOME:-~/.cache}/qwatch/kubernetes. The first run takes about 20 minutes on two cores; run again it only
# checks what is there. cluster.go in package kube reads the same layout.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/qwatch
bin=$cache/kubernetes
helm=v4.3.1
GO=${GO:-go}

say() { printf 'kubernetes: %s\n' "$*"; }
die() { printf 'kubernetes: %s\n' "$*" >&2; exit 1; }

# stamp FILES…: what a program is built from, in one line.
stamp() { { "$GO" env GOVERSION GOARCH; cat "$@"; } | sha256sum | cut -d' ' -f1; }

# built NAME STAMP: whether the program is there and was built from just that.
built() { [[ -x $bin/$1 && -f $bin/$1.stamp && $(<"$bin/$1.stamp") == "$2" ]]; }

# install NAME STAMP COMMAND…: runs the command, which writes $part, unless the program is there.
install() {
  local name=$1 want=$2
  shift 2
  if ! built "$name" "$want"; then
    say "building $name (minutes)"
    part=$bin/$name.part
    rm -f "$part"
    "$@" || die "$name could not be built"
    printf '%s\n' "$want" >"$bin/$name.stamp"
    mv "$part" "$bin/$name"
  fi
  say "$name is there"
}

build_controlplane() {
  local kubernetes v=k8s.io/component-base/version
  kubernetes=$(cd "$here/controlplane" && "$GO" list -m -f '{{.Version}}' k8s.io/kubernetes)
  local minor=${kubernetes#v1.}
  (cd "$here/controlplane" && CGO_ENABLED=0 nice -n 19 "$GO" build -trimpath -o "$part" -ldflags \
    "-s -w -X $v.gitVersion=$kubernetes -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} -X $v.gitTreeState=clean" .)
}

build_helm() {
  local dir=$bin/helm.d
  mkdir -p "$dir"
  GOBIN=$dir CGO_ENABLED=0 nice -n 19 "$GO" install -trimpath -ldflags "-s -w -X helm.sh/helm/v4/internal/version.version=$helm" \
    "helm.sh/helm/v4/cmd/helm@$helm" && mv "$dir/helm" "$part"
}

# build_keda operator|adapter: with Go's own settings, as KEDA's scalers are built (../keda), so that what they have in
# common is compiled once.
build_keda() {
  (cd "$here/keda" && nice -n 19 "$GO" build -ldflags '-s -w' -o "$part" "github.com/kedacore/keda/v2/cmd/$1")
}

# build_crds collects the custom resources: KEDA's as its module has them, the Prometheus operator's made from its types.
build_crds() {
  local keda monitoring=github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1
  rm -rf "$part" && mkdir -p "$part"
  keda=$(cd "$here" && "$GO" list -mod=mod -m -f '{{.Dir}}' github.com/kedacore/keda/v2)
  cp "$keda"/config/crd/bases/*.yaml "$part/"
  chmod -R u+w "$part"
  (cd "$here" && GOFLAGS=-mod=mod nice -n 19 "$GO" tool controller-gen crd:allowDangerousTypes=true,maxDescLen=0 "paths=$monitoring" "output:crd:dir=$part")
  rm -rf "${bin:?}/crds"
}

command -v flock >/dev/null 2>&1 || die "flock is missing: install util-linux"
mkdir -p "$bin"
exec 9>"$bin/lock"
flock 9 # one install at a time; the lock goes with this process
install crds "$(stamp <(cd "$here" && "$GO" list -mod=mod -m github.com/kedacore/keda/v2 sigs.k8s.io/controller-tools \
  github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring))" build_crds
install controlplane "$(stamp "$here"/controlplane/{go.mod,go.sum,*.go})" build_controlplane
install helm "$(stamp <(printf '%s' "$helm"))" build_helm
install keda-operator "$(stamp "$here"/keda/{go.mod,go.sum})" build_keda operator
install keda-adapter "$(stamp "$here"/keda/{go.mod,go.sum})" build_keda adapter
