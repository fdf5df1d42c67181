#!/usr/bin/env bash
# Installs the real peers that the tests of this module run against: Azurite from npm,
# Prometheus, promtool and Alertmanager from Debian. Nothing is installed system-wide and
# no service is started: all of it lies under ${XDG_CACHE_HOME:-~/.cache}/qwatch.
# Run again it only checks what is there. Package peer (peer.go) reads the same layout.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/qwatch
azurite_version=$(<"$here/AZURITE_VERSION")
azurite=$cache/azurite-$azurite_version
debian=$cache/debian

say() { printf 'peers: %s\n' "$*"; }
die() { printf 'peers: %s\n' "$*" >&2; exit 1; }
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is missing: $2"; }

# version PROGRAM ARGS…: the first line a program says about itself, or nothing.
version() { "$@" 2>&1 | head -n 1 || true; }

azurite_is() { version node "$1/node_modules/azurite/dist/src/azurite.js" --version; }

install_azurite() {
  need node "install Node.js 20 or later"
  if [[ $(azurite_is "$azurite") != "$azurite_version" ]]; then
    need npm "install npm, which Azurite comes by"
    say "installing azurite@$azurite_version (about a minute)"
    rm -rf "$azurite" "$azurite.part"
    mkdir -p "$azurite.part"
    npm install --no-save --no-audit --no-fund --no-package-lock --loglevel=error \
      --prefix "$azurite.part" "azurite@$azurite_version" >"$cache/npm.log" 2>&1 </dev/null ||
      { cat "$cache/npm.log" >&2; die "npm could not install azurite@$azurite_version"; }
    mv "$azurite.part" "$azurite"
  fi
  [[ $(azurite_is "$azurite") == "$azurite_version" ]] ||
    die "azurite in $azurite does not answer --version with $azurite_version: $(azurite_is "$azurite")"
  say "azurite $azurite_version"
}

# Debian's Alertmanager reads its templates from a path below /usr that is compiled in. A path of the
# same length, relative to the folder it is started in, needs neither an install nor root.
templates=usr/share/prometheus//alertmanager

debian_ok() {
  local program
  for program in prometheus promtool prometheus-alertmanager; do
    "$debian/usr/bin/$program" --version >/dev/null 2>&1 || return 1
  done
  grep -qF "$templates" "$debian/usr/bin/prometheus-alertmanager"
}

# fetch_debs downloads into the current folder. A machine whose package lists were never
# fetched, or are out of date, gets lists of its own in a scratch folder: that needs no root.
fetch_debs() {
  apt-get -q download "$@" >apt.log 2>&1 </dev/null && return 0
  mkdir -p state/lists/partial apt/archives/partial
  local own=(-o "Dir::State::Lists=$PWD/state/lists" -o "Dir::Cache=$PWD/apt" -o APT::Sandbox::User=)
  { apt-get -q "${own[@]}" update && apt-get -q "${own[@]}" download "$@"; } >>apt.log 2>&1 </dev/null
}

install_debian() {
  if ! debian_ok; then
    need apt-get "these peers are Debian packages (prometheus, prometheus-alertmanager)"
    need dpkg "it unpacks the Debian packages"
    say "installing Debian's prometheus and prometheus-alertmanager"
    rm -rf "$debian" "$debian.part"
    mkdir -p "$debian.part/debs"
    (
      cd "$debian.part/debs"
      fetch_debs prometheus prometheus-alertmanager || { cat apt.log >&2; exit 1; }
      for deb in ./*.deb; do dpkg -x "$deb" ..; done
    ) || die "apt-get could not bring prometheus and prometheus-alertmanager"
    rm -rf "$debian.part/debs"
    LC_ALL=C sed -i "s#/usr/share/prometheus/alertmanager#$templates#g" "$debian.part/usr/bin/prometheus-alertmanager"
    mv "$debian.part" "$debian"
  fi
  debian_ok || die "the programs in $debian/usr/bin do not run"
  local program
  for program in prometheus promtool prometheus-alertmanager; do
    say "$(version "$debian/usr/bin/$program" --version | cut -d' ' -f1-3)"
  done
}

mkdir -p "$cache"
need flock "install util-linux"
exec 9>"$cache/peers.lock"
flock 9 # one install at a time; the lock goes with this process
install_azurite
install_debian
