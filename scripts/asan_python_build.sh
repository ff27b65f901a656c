#!/usr/bin/env bash
# Builds a CPython with AddressSanitizer, and proves that it finds what a stock Python hides. See --help.
# shellcheck disable=SC2329 # the stages are called by their names
set -euo pipefail
unset CDPATH
export LC_ALL=C.UTF-8

# What a user keeps in the environment for other builds must not reach this one.
unset CC CXX CPP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS LINKCC CONFIG_SITE MAKEFLAGS DESTDIR
unset CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_PRELOAD LD_LIBRARY_PATH
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONMALLOC PYTHONDEVMODE PYTHONWARNINGS VIRTUAL_ENV
unset APT_CONFIG LSAN_OPTIONS UBSAN_OPTIONS
export ASAN_OPTIONS=detect_leaks=0 # the interpreter keeps memory to its end: every tool of the build would fail

readonly SITE=https://www.python.org/ftp/python
readonly SAFE='^/[A-Za-z0-9/._+,@-]*$' # what make and configure can handle in a path
readonly STAGES=(source unpack configure build install test)
# sha256 of SITE's Python-VERSION.tar.xz; of the .tgz where Debian ships that. Others: --sha256.
readonly KNOWN="
3.11.2   2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849 .tgz
3.11.2   29e4b8f5f1658542a8c13e2dd277358c9c48f2b2f7318652ef1675e402b9d2af
3.11.14  8d3ed8ec5c88c1c95f5e558612a725450d2452813ddad5e58fdb1a53b1209b78
3.11.15  272179ddd9a2e41a0fc8e42e33dfbdca0b3711aa5abf372d3f2d51543d09b625
3.12.3   56bfef1fdfc1221ce6720e43a661e3eb41785dd914ce99698d8c7896af4bdaa1
3.12.12  fb85a13414b028c49ba18bbd523c2d055a30b56b18b92ce454ea2c51edc656c4
3.12.13  c08bc65a81971c1dd5783182826503369466c7e67374d1646519adf05207b684
3.13.5   93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640
3.13.12  2a84cd31dd8d8ea8aaff75de66fc1b4b0127dd5799aa50a64ae9a313885b4593
3.13.13  2ab91ff401783ccca64f75d10c882e957bdfd60e2bf5a72f8421793729b78a71
3.14.3   a97d5549e9ad81fe17159ed02c68774ad5d266c72f8d9a0b5a9c371fe85d902b
3.14.4   d923c51303e38e249136fc1bdf3568d56ecb03214efdef48516176d3d7faaef8
"

usage() {
  cat <<'TEXT'
usage: asan_python_build.sh SOURCE [OPTION...]

Builds a CPython in which every allocation goes through AddressSanitizer, so that extensions built with
-fsanitize=address run in it without LD_PRELOAD. It takes some minutes and 1 GB, 250 MB when it is done.

SOURCE is one of
  --version X.Y.Z         from python.org; a version that is not known here also needs --sha256
  --tarball FILE          a source archive that you have
  --distribution[=NAME]   the system's own source package (Debian, Ubuntu), by default of its python3;
                          neither the system's package lists nor its sources are touched

OPTION
  --sha256 HEX            what the archive must be
  --prefix DIR            where it is installed (default: ./asan-python); must not be there yet
  --jobs N                how many compilers at once (default: as many as there are processors)
  --keep                  keep sources and objects in DIR.build afterwards
  --help                  this text

An interrupted build goes on where it stopped when it is started again in the same way. The whole log is in
DIR.build/log, and at the end in DIR/build.log. Exit status: 0 done, 1 a stage failed, 2 bad usage.
TEXT
}

refuse() {
  printf 'asan-python: %s\n' "$1" >&2
  [[ -z "${2:-}" ]] || printf '             %s\n' "$2" >&2
  exit 2
}

known_sha256() { awk -v wanted="$1" '$1 == wanted && NF == 2 { print $2 }' <<<"$KNOWN"; }

known_version() { awk -v wanted="$1" '$2 == wanted { print $1 }' <<<"$KNOWN"; }

sha256_of() { sha256sum <"$1" | cut -d' ' -f1; }

read_arguments() {
  source_kind='' version='' tarball='' package='' sha256='' prefix=asan-python jobs='' keep=''
  while (($#)); do
    case "$1" in
      --version | --tarball | --sha256 | --prefix | --jobs)
        (($# > 1)) || refuse "$1 needs a value" "asan_python_build.sh --help"
        set -- "$1=$2" "${@:3}"
        continue
        ;;
      --version=*) version="${1#*=}" source_kind+="version " ;;
      --tarball=*) tarball="${1#*=}" source_kind+="tarball " ;;
      --distribution) source_kind+="distribution " ;;
      --distribution=*) package="${1#*=}" source_kind+="distribution " ;;
      --sha256=*) sha256="${1#*=}" ;;
      --prefix=*) prefix="${1#*=}" ;;
      --jobs=*) jobs="${1#*=}" ;;
      --keep) keep=yes ;;
      --help | -h)
        usage
        exit 0
        ;;
      *) refuse "there is no option $1" "asan_python_build.sh --help" ;;
    esac
    shift
  done
  source_kind="${source_kind% }"
}

check_arguments() {
  jobs="${jobs:-$(nproc)}"
  [[ "$jobs" =~ ^[1-9][0-9]{0,3}$ ]] || refuse "--jobs $jobs is no number of compilers"
  [[ -z "$sha256" || "$sha256" =~ ^[0-9a-f]{64}$ ]] ||
    refuse "--sha256 takes 64 hexadecimal digits in lower case" "sha256sum FILE"
  [[ -n "$prefix" ]] || refuse "--prefix is empty"
  case "$source_kind" in
    version)
      [[ "$version" =~ ^3\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?$ ]] ||
        refuse "--version $version is not like 3.12.3" "known here: $(known_versions)"
      sha256="${sha256:-$(known_sha256 "$version")}"
      [[ -n "$sha256" ]] || refuse "the checksum of Python $version is not known here, only of $(known_versions)" \
        "take it from the release's page on python.org: --sha256 HEX"
      ;;
    tarball)
      [[ -f "$tarball" && -r "$tarball" ]] || refuse "$tarball is no file that can be read"
      tarball="$(realpath -- "$tarball")"
      ;;
    distribution)
      command -v apt-get >/dev/null || refuse "--distribution needs apt-get" "use --version or --tarball"
      package="${package:-$(system_python)}"
      [[ "$package" =~ ^[a-z0-9][a-z0-9.+-]+$ ]] || refuse "--distribution=$package is no package's name" \
        "--distribution=python3.11"
      ;;
    '') refuse "say what to build" "--version X.Y.Z, --tarball FILE or --distribution" ;;
    *) refuse "one source is enough: $source_kind" "--version, --tarball or --distribution" ;;
  esac
  local tool missing=''
  for tool in gcc g++ make tar xz flock sha256sum; do
    command -v "$tool" >/dev/null || missing+=" $tool"
  done
  [[ -z "$missing" ]] || refuse "missing:$missing" "apt-get install g++ make tar xz-utils util-linux coreutils"
}

known_versions() { awk 'NF == 2 { printf "%s%s", gap, $1; gap = ", " }' <<<"$KNOWN"; }

system_python() {
  local found
  found="$(/usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])' 2>/dev/null)" || found=''
  echo "$found"
}

# Neither configure nor make can handle a path with a space in it: such a folder gets a second name without.
plain() {
  local name
  if [[ "$1" =~ $SAFE ]]; then
    echo "$1"
    return
  fi
  mkdir -m 700 "$links" 2>/dev/null || true
  if [[ -L "$links" || ! -O "$links" ]]; then
    echo "$links belongs to somebody else" >&2
    return 1
  fi
  name="$links/$(printf '%s' "$1" | sha256sum | cut -c1-16)"
  ln -sfn -- "$1" "$name"
  echo "$name"
}

# The second names of folders are of no use any more.
forget_names() {
  local name
  for name in "$plain_work" "$plain_prefix"; do
    [[ "$name" != "$links"/* ]] || rm -f -- "$name"
  done
  rmdir -- "$links" 2>/dev/null || true
}

# The stages. Each runs in a process of its own with its output in the log; $work/note is shown to the user.

do_source() {
  case "$source_kind" in
    version) fetch_release ;;
    tarball) ln -sfn -- "$tarball" "$work/source.tar" ;;
    distribution) fetch_source_package ;;
  esac
  local found whose=''
  found="$(sha256_of "$work/source.tar")"
  if [[ -n "$sha256" && "$found" != "$sha256" ]]; then
    echo "sha256 is $found, and must be $sha256: not the archive that was meant"
    [[ "$source_kind" == tarball ]] || rm -f -- "$work/source.tar"
    return 1
  fi
  whose="$(known_version "$found")"
  echo "sha256 $found${whose:+, as python.org has it for $whose}" >>"$work/note"
}

fetch_release() {
  local url
  url="$SITE/${version%%[a-z]*}/Python-$version.tar.xz"
  echo "fetching $url"
  if command -v curl >/dev/null; then
    curl --fail --location --silent --show-error --retry 3 --connect-timeout 20 \
      --output "$work/source.part" "$url"
  else
    wget --no-verbose --tries=3 --timeout=20 --output-document="$work/source.part" "$url"
  fi || {
    echo "python.org cannot be reached from here: use --tarball FILE or --distribution"
    return 1
  }
  mv -- "$work/source.part" "$work/source.tar"
}

# apt-get with the machine's own sources, but as source repositories and in a folder of our own. What the
# machine's configuration says of proxies and keys holds; what it wants to run after an update does not.
fetch_source_package() {
  local apt="$plain_work/apt" orig found
  rm -rf -- "$apt"
  mkdir -p "$apt"/{none,parts,lists/partial,cache/archives/partial}
  apt-config dump | grep -vi '^[^ ]*invoke' >"$apt/apt.conf"
  cat >>"$apt/apt.conf" <<TEXT
Dir::Etc::main "/dev/null";
Dir::Etc::parts "$apt/none";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
Dir::State::lists "$apt/lists";
Dir::Cache "$apt/cache";
TEXT
  write_sources "$apt"
  export APT_CONFIG="$apt/apt.conf"
  apt-get update -o Acquire::Retries=2
  # An archive may list a version whose files it has dropped already: an older one will do.
  mkdir -p "$apt/package"
  cd "$apt/package"
  for found in $(apt-cache showsrc "$package" | awk '$1 == "Version:" { print $2 }' | sort -Vru); do
    rm -f ./*
    ! apt-get source --download-only "$package=$found" || break
  done
  [[ -n "$(find . -name '*.dsc')" ]] || {
    echo "no source of $package could be fetched from the system's own archives"
    return 1
  }
  # apt has compared the .dsc with the signed index; the .dsc says what the archives must be.
  awk '/^Checksums-Sha256:/ { on = 1; next } /^[^ ]/ { on = 0 } on { print $1 "  " $3 }' ./*.dsc >"$apt/checksums"
  [[ -s "$apt/checksums" ]]
  sha256sum --check "$apt/checksums"
  orig="$(awk '$2 ~ /[.]orig[.]tar[.](xz|gz|bz2)$/ { print $2 }' "$apt/checksums")"
  [[ "$orig" != */* && -f "$orig" ]]
  mv -f -- "$orig" "$work/source.tar"
  echo "$orig" >"$work/note"
}

# Only repositories that have the package: others may have no sources, or not be reachable.
write_sources() {
  local apt="$1" file sites
  sites="$(apt-cache madison "$package" | tr ' ' '\n' | grep '^[a-z+]*:/' | sed 's|/*$||' | sort -u || true)"
  echo "repositories that have $package: ${sites:-unknown, so all are asked}"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ ! -r "$file" ]] || sed -n 's/^[[:space:]]*deb\([[:space:]]\)/deb-src\1/p' "$file"
  done | of_sites "$sites" '\n' >"$apt/sources.list"
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ ! -r "$file" ]] || {
      # Comments may stand inside of a stanza.
      sed -e '/^#/d' -e 's/^Types:.*/Types: deb-src/I' "$file" | of_sites "$sites" '' >"$apt/parts/${file##*/}"
    }
  done
}

# usage: of_sites SITES RECORD_SEPARATOR ('' for stanzas parted by empty lines)
of_sites() {
  SITES="$1" awk -v RS="$2" 'BEGIN { count = split(ENVIRON["SITES"], sites, "\n") }
    { found = !count; for (i = 1; i <= count; i++) if (index($0, sites[i])) found = 1 }
    found { print $0 (RS == "" ? "\n" : "") }'
}

do_unpack() {
  rm -rf -- "$work/source" "$work/source.part"
  mkdir "$work/source.part"
  tar -C "$work/source.part" --strip-components=1 --no-same-owner -xf "$work/source.tar"
  if [[ ! -x "$work/source.part/configure" ]]; then
    echo "the archive holds no configure: is it Python's source?"
    return 1
  fi
  mv -- "$work/source.part" "$work/source"
}

do_configure() {
  cd -- "$plain_work/source"
  # Linked as C++ and with libstdc++ by force: AddressSanitizer looks for the real __cxa_throw when it starts,
  # and without it the first throw of any extension ends the program.
  ./configure --prefix="$plain_prefix" --with-address-sanitizer --without-pymalloc --disable-test-modules \
    --with-ensurepip=no CC=gcc CXX=g++ LINKCC="g++ -Wl,--no-as-needed"
}

do_build() {
  cd -- "$plain_work/source"
  make -j"$jobs"
}

# Into a folder of its own first, so that the prefix is there as a whole or not at all.
do_install() {
  rm -rf -- "$work/stage"
  cd -- "$plain_work/source"
  make install DESTDIR="$plain_work/stage"
  mv -T -- "$work/stage$plain_prefix" "$prefix"
  rm -rf -- "$work/stage"
}

do_test() {
  local probe="$work/probe" python="$prefix/bin/python3" include status=0 report
  ulimit -c 0
  rm -rf -- "$probe"
  mkdir "$probe"
  write_probe "$probe/probe.cpp"
  include="$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')"
  g++ -fsanitize=address -g -O1 -shared -fPIC -I "$include" -o "$probe/asan_probe.so" "$probe/probe.cpp"
  cd -- "$probe"
  if ! "$python" -c 'import asan_probe; assert asan_probe.throw_and_catch() == "caught"'; then
    echo "a C++ exception in an extension does not survive"
    return 1
  fi
  echo "an extension may throw and catch" >>"$work/note"
  "$python" -c 'import asan_probe; asan_probe.use_after_free()' >"$probe/report" 2>&1 || status=$?
  cat "$probe/report"
  report="$(grep -m1 'ERROR: AddressSanitizer: heap-use-after-free' "$probe/report" || true)"
  if ((status == 0)) || [[ -z "$report" ]] || ! grep -q '100-byte region' "$probe/report"; then
    echo "a use after free of 100 bytes was not found: allocations do not go through AddressSanitizer"
    return 1
  fi
  {
    echo "a use after free of 100 bytes, which pymalloc would hide, is found:"
    sed -n -e 's/^==[0-9]*==ERROR: \(.*\) at pc .*/  \1/p' -e 's/^[0-9a-fx]* is located .*100-byte region/  &/p' \
      "$probe/report"
  } >>"$work/note"
  "$python" - >>"$work/note" <<'PYTHON'
import importlib.util
wanted = {"zlib": "zlib1g-dev", "_ctypes": "libffi-dev", "_ssl": "libssl-dev", "_bz2": "libbz2-dev",
          "_lzma": "liblzma-dev", "_sqlite3": "libsqlite3-dev"}
missing = [name for name in wanted if importlib.util.find_spec(name) is None]
if missing:
    print("built without", ", ".join(missing) + ": apt-get install", *(wanted[name] for name in missing))
PYTHON
}

# Memory of 100 bytes from the interpreter's own allocator, used after it was given back.
write_probe() {
  cat >"$1" <<'CPP'
#include <Python.h>
#include <stdexcept>

static PyObject* throw_and_catch(PyObject*, PyObject*) {
  try {
    throw std::runtime_error("caught");
  } catch (const std::exception& error) {
    return PyUnicode_FromString(error.what());
  }
}
static PyObject* use_after_free(PyObject*, PyObject*) {
  volatile char* bytes = static_cast<char*>(PyMem_Malloc(100));
  PyMem_Free(const_cast<char*>(bytes));
  return PyLong_FromLong(bytes[42]);
}
static PyMethodDef methods[] = {{"throw_and_catch", throw_and_catch, METH_NOARGS, nullptr},
                                {"use_after_free", use_after_free, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "asan_probe", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_asan_probe() { return PyModule_Create(&module); }
CPP
}

# Runs a stage unless it ran before; a failure shows the end of the log.
stage() {
  local name="$1" status=0 started=$SECONDS
  if grep -qxF "$name" "$work/done"; then
    printf '%-10s done before\n' "$name"
    return
  fi
  printf '%-10s ' "$name"
  rm -f -- "$work/note"
  printf '\n== %s, %s\n' "$name" "$(date)" >>"$log"
  set -m # a process group of its own, so that all of it can be ended
  (
    set -e
    "do_$name"
  ) </dev/null >>"$log" 2>&1 &
  child=$!
  set +m
  wait "$child" || status=$?
  child=''
  if ((status != 0)); then
    printf 'failed after %d s; the end of %s:\n' "$((SECONDS - started))" "$log"
    tail -n 15 -- "$log" | sed 's/^/  | /'
    printf 'Mend it and start again in the same way: it goes on at this stage.\n'
    exit 1
  fi >&2
  echo "$name" >>"$work/done"
  printf '%d s\n' "$((SECONDS - started))"
  [[ ! -s "$work/note" ]] || sed 's/^/           /' "$work/note"
}

stop() {
  [[ -z "$child" ]] || kill -TERM -- "-$child" 2>/dev/null || true
  printf '\nasan-python: interrupted; start it again in the same way to go on\n' >&2
  exit "$1"
}

say_ready() {
  local version
  version="$("$prefix/bin/python3" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  printf '\n%s is ready. Packages come from a stock Python of the same version:\n' "$prefix/bin/python3"
  printf '  python%s -m pip install --target DIR PACKAGE...\n' "$version"
  printf '  ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=DIR %q program.py\n' "$prefix/bin/python3"
}

main() {
  local name request
  read_arguments "$@"
  check_arguments
  prefix="$(realpath -m -- "$prefix")"
  work="$prefix.build" log="$prefix.build/log" child=''
  request="$source_kind ${version:-${package:-$(sha256_of "${tarball:-/dev/null}")}} ${sha256:--} $prefix"
  if [[ "$(cat -- "$prefix/built-from" 2>/dev/null)" == "$request" ]]; then
    echo "asan-python: $prefix is there already, finished from this source"
    exit 0
  fi
  mkdir -p -- "$work" || refuse "$work cannot be made" "give another --prefix"
  exec 9>"$work/lock"
  flock --nonblock 9 || refuse "another build is at work in $work"
  if [[ -e "$work/request" && "$(cat -- "$work/request")" != "$request" ]]; then
    echo "asan-python: $work holds another build; starting anew"
    find "$work" -mindepth 1 -maxdepth 1 ! -name lock -exec rm -rf -- {} +
  fi
  touch -- "$work/done" "$log"
  if [[ -e "$prefix" ]] && ! grep -qxF install "$work/done"; then
    [[ -e "$work/request" ]] || rm -rf -- "$work"
    refuse "$prefix is there already, and not from this source" "remove it, or give another --prefix"
  fi
  echo "$request" >"$work/request"
  links="${TMPDIR:-/tmp}"
  [[ "$links" =~ $SAFE ]] || links=/tmp
  links+="/asan-python-$(id -u)"
  plain_work="$(plain "$work")" plain_prefix="$(plain "$prefix")"
  trap 'stop 130' INT
  trap 'stop 143' TERM
  trap 'stop 129' HUP
  for name in "${STAGES[@]}"; do
    stage "$name"
  done
  cp -- "$log" "$prefix/build.log"
  echo "$request" >"$prefix/built-from"
  [[ -n "$keep" ]] || rm -rf -- "$work"
  forget_names
  say_ready
  exit 0 # here, so that nothing more is read from a script that was changed meanwhile
}

main "$@"
