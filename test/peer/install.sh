#!/usr/bin/env bash
# Installs the real peers that the tests of this module run against: Azurite from npm,
# Prometheus, promtool, Alertmanager, PostgreSQL, Chromium and Microsoft's Storage SDK for Python (with Python)
# from Debian; Playwright, which drives Chromium, axe-core, Grafana's schema and TypeScript from npm. Nothing is installed system-wide and
# no service is started: all of it lies under ${XDG_CACHE_HOME:-~/.cache}/qwatch.
# Run again it only checks what is there. Package peer (peer.go) reads the same layout.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/qwatch
azurite_version=$(<"$here/AZURITE_VERSION")
azurite=$cache/azurite-$azurite_version
debian=$cache/debian
postgres=$cache/postgres-15
python=$cache/azure-python
playwright_version=1.65.1 axe_version=4.14.1
chromium=$cache/chromium
schema_version=13.2.3 typescript_version=5.9.3
schema=$cache/grafana-schema-$schema_version-$typescript_version
browser=$cache/browser-$playwright_version-$axe_version

say() { printf 'peers: %s\n' "$*"; }
die() { printf 'peers: %s\n' "$*" >&2; exit 1; }
need() { command -v "$1" >/dev/null 2>&1 || die "$1 is missing: $2"; }

# version PROGRAM ARGS…: the first line a program says about itself, or nothing.
version() { "$@" 2>&1 | head -n 1 || true; }

# from_npm FOLDER PACKAGE@VERSION…: the packages from npm, all of them or no folder.
from_npm() {
  local folder=$1
  shift
  need npm "install npm, which $* come by"
  say "installing $*"
  rm -rf "$folder" "$folder.part"
  mkdir -p "$folder.part"
  npm install --no-save --no-audit --no-fund --no-package-lock --loglevel=error --prefix "$folder.part" "$@" >"$cache/npm.log" 2>&1 </dev/null ||
    { cat "$cache/npm.log" >&2; die "npm could not install $*"; }
  mv "$folder.part" "$folder"
}

azurite_is() { version node "$1/node_modules/azurite/dist/src/azurite.js" --version; }

install_azurite() {
  need node "install Node.js 20 or later"
  if [[ $(azurite_is "$azurite") != "$azurite_version" ]]; then
    from_npm "$azurite" "azurite@$azurite_version" # about a minute
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

# The libraries that Debian's PostgreSQL is linked with lie beside it, so that a machine needs none of
# them; package peer points the loader there.
postgres_libraries=(libpq5 libssl3 libicu72 libxml2 liblz4-1 libzstd1 libstdc++6 libldap-2.5-0 libsasl2-2
  libgssapi-krb5-2 libkrb5-3 libk5crypto3 libkrb5support0 libcom-err2 libkeyutils1 libgnutls30 libp11-kit0 libidn2-0
  libunistring2 libtasn1-6 libnettle8 libhogweed6 libgmp10 libffi8 libsystemd0 libcap2 libgcrypt20 libgpg-error0
  liblzma5 libpam0g libaudit1 libcap-ng0 zlib1g)

postgres_is() {
  local program
  for program in postgres initdb; do
    LD_LIBRARY_PATH=$1/lib version "$1/usr/lib/postgresql/15/bin/$program" --version | grep -q 'PostgreSQL) 15\.' || return 1
  done
}

install_postgres() {
  if ! postgres_is "$postgres"; then
    need apt-get "this peer is a Debian package (postgresql-15)"
    need dpkg "it unpacks the Debian packages"
    say "installing Debian's postgresql-15"
    rm -rf "$postgres" "$postgres.part"
    mkdir -p "$postgres.part/debs" "$postgres.part/lib"
    (
      cd "$postgres.part/debs"
      fetch_debs postgresql-15 "${postgres_libraries[@]}" || { cat apt.log >&2; exit 1; }
      for deb in ./*.deb; do dpkg -x "$deb" ..; done
      cd ..
      find lib usr/lib -type f -name '*.so.*' -path '*-linux-gnu*' ! -path '*/engines-*' ! -path '*/gconv/*' -exec mv -t lib {} +
      find usr/lib lib -type l -name '*.so.*' -path '*-linux-gnu*' -exec mv -t lib {} +
      rm -rf debs etc var usr/bin usr/sbin usr/share/doc usr/share/man usr/share/locale usr/share/lintian \
        usr/lib/postgresql/15/lib/bitcode usr/lib/postgresql/15/lib/*llvm*
      find lib usr/lib -depth -type d -name '*-linux-gnu*' -exec rm -rf {} +
    ) || die "apt-get could not bring postgresql-15"
    mv "$postgres.part" "$postgres"
  fi
  postgres_is "$postgres" || die "the programs in $postgres/usr/lib/postgresql/15/bin do not run"
  say "$(LD_LIBRARY_PATH=$postgres/lib version "$postgres/usr/lib/postgresql/15/bin/postgres" --version | cut -d' ' -f1-3)"
}

# Microsoft's SDK for Python, as a peer for what the Go SDK does not do: client-side encryption. Of the
# package of all of Azure only the core is unpacked.
python_packages=(python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libexpat1 libffi8 libssl3 zlib1g
  python3-azure python3-azure-storage python3-cryptography python3-cffi-backend python3-typing-extensions python3-isodate
  python3-six python3-requests python3-urllib3 python3-chardet python3-charset-normalizer python3-idna python3-certifi)

python_says() {
  env -i LD_LIBRARY_PATH="$1/lib" PYTHONHOME="$1/usr" PYTHONPATH="$1/usr/lib/python3/dist-packages" PYTHONDONTWRITEBYTECODE=1 \
    "$1/usr/bin/python3.11" -c 'import azure.storage.queue as q; print("azure-storage-queue", q.__version__)' 2>&1
}

install_python() {
  if [[ $(python_says "$python") != azure-storage-queue\ * ]]; then
    need apt-get "this peer is a Debian package (python3-azure-storage)"
    need dpkg "it unpacks the Debian packages"
    say "installing Debian's python3-azure-storage"
    rm -rf "$python" "$python.part"
    mkdir -p "$python.part/debs" "$python.part/lib"
    (
      cd "$python.part/debs"
      fetch_debs "${python_packages[@]}" || { cat apt.log >&2; exit 1; }
      modules=./usr/lib/python3/dist-packages/azure
      for deb in ./*.deb; do
        case $deb in
          ./python3-azure_*) dpkg-deb --fsys-tarfile "$deb" | tar -x -C .. "$modules/core" ;;
          ./python3-azure-storage_*) dpkg-deb --fsys-tarfile "$deb" | tar -x -C .. "$modules/storage/queue" ;;
          *) dpkg -x "$deb" .. ;;
        esac
      done
      cd ..
      find lib usr/lib -maxdepth 2 -name '*.so.*' -path '*-linux-gnu/*' -exec mv -t lib {} +
      rm -rf debs etc usr/share
    ) || die "apt-get could not bring python3-azure-storage"
    mv "$python.part" "$python"
  fi
  [[ $(python_says "$python") == azure-storage-queue\ * ]] || die "python in $python does not find its SDK: $(python_says "$python")"
  say "$(python_says "$python") for Python"
}

# Chromium with the libraries it is linked with beside it and a font, so that a machine needs none of them.
# Which packages those are apt-get says, as of a machine that has nothing installed; of them only libraries
# are unpacked, and not the C library, which is the machine's own.
chromium_says() { LD_LIBRARY_PATH=$1/lib version "$1/usr/lib/chromium/chromium" --version; }

install_chromium() {
  if [[ $(chromium_says "$chromium") != Chromium\ * ]]; then
    need apt-get "this peer is a Debian package (chromium)"
    need dpkg "it unpacks the Debian packages"
    say "installing Debian's chromium (230 MB)"
    rm -rf "$chromium" "$chromium.part"
    mkdir -p "$chromium.part/lib" "$chromium.part/apt/state/lists/partial" "$chromium.part/apt/archives/partial"
    (
      cd "$chromium.part/apt"
      touch status
      own=(-o "Dir::State::Lists=$PWD/state/lists" -o "Dir::State::status=$PWD/status" -o "Dir::Cache=$PWD" -o APT::Sandbox::User= -o Debug::NoLocking=1)
      { apt-get -q "${own[@]}" update && apt-get -q -y "${own[@]}" --no-install-recommends --download-only install chromium fonts-dejavu-core; } >apt.log 2>&1 </dev/null ||
        { cat apt.log >&2; exit 1; }
      for deb in archives/*.deb; do
        case ${deb##*/} in
          libc6_* | libperl* | libpam* | libllvm* | libz3* | libgl1-mesa-dri_* | libsystemd-shared_*) ;;
          chromium_* | chromium-common_* | fonts-dejavu-core_* | lib*) dpkg -x "$deb" .. ;;
        esac
      done
      cd ..
      find lib usr/lib -mindepth 2 -name '*.so*' -path '*-linux-gnu*' ! -path '*/gtk-3.0/*' ! -path '*/gdk-pixbuf*' -exec mv -n -t lib {} +
      rm -rf apt etc var bin sbin usr/bin usr/sbin usr/include usr/share/{doc,man,locale,lintian,icons,gtk-doc,bug,mime,glib-2.0,X11,themes} usr/lib/*-linux-gnu
      cat >fonts.conf <<FONTS
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig><dir>$chromium/usr/share/fonts</dir><cachedir>$chromium/fonts.cache</cachedir></fontconfig>
FONTS
    ) || die "apt-get could not bring chromium"
    mv "$chromium.part" "$chromium"
  fi
  [[ $(chromium_says "$chromium") == Chromium\ * ]] || die "chromium in $chromium does not run: $(chromium_says "$chromium")"
  say "$(chromium_says "$chromium" | cut -d' ' -f1-2)"
}

browser_is() {
  node -p "['playwright-core', 'axe-core'].map(p => require('$1/node_modules/' + p + '/package.json').version).join('-')" 2>/dev/null || true
}

install_browser() {
  if [[ $(browser_is "$browser") != "$playwright_version-$axe_version" ]]; then
    npm_config_ignore_scripts=true from_npm "$browser" "playwright-core@$playwright_version" "axe-core@$axe_version"
    ln -sfn "${browser##*/}" "$cache/browser"
  fi
  [[ $(browser_is "$browser") == "$playwright_version-$axe_version" ]] || die "playwright-core and axe-core in $browser are not whole"
  say "playwright-core and axe-core $playwright_version-$axe_version"
}

# Grafana's types of dashboard resources, and the compiler that checks values against them.
schema_is() {
  local of
  for of in @grafana/schema typescript; do
    node -p 'require(process.argv[1]).version' "$1/node_modules/$of/package.json" 2>/dev/null || true
  done | paste -sd-
}

install_schema() {
  if [[ $(schema_is "$schema") != "$schema_version-$typescript_version" ]]; then
    npm_config_ignore_scripts=true from_npm "$schema" "@grafana/schema@$schema_version" "typescript@$typescript_version"
    ln -sfn "${schema##*/}" "$cache/grafana-schema"
  fi
  [[ $(schema_is "$schema") == "$schema_version-$typescript_version" ]] || die "@grafana/schema and typescript in $schema are not whole"
  say "@grafana/schema and typescript $schema_version-$typescript_version"
}

mkdir -p "$cache"
need flock "install util-linux"
exec 9>"$cache/peers.lock"
flock 9 # one install at a time; the lock goes with this process
install_azurite
install_debian
install_postgres
install_python
install_chromium
install_browser
install_schema
