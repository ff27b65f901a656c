# Sourced by ./dev, in the root of the checkout: `set_up GROUP...` makes this machine ready.
# GROUP is a dependency group of pyproject.toml. What is there already is left alone.
# shellcheck shell=bash

# What a user keeps in the environment for other projects must not reach this one.
unset PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONWARNINGS PYTHONMALLOC PYTHONDEVMODE VIRTUAL_ENV CONDA_PREFIX
unset PYTEST_ADDOPTS PYTEST_PLUGINS MYPYPATH NOXSESSION NOXPYTHON
unset CC CXX CFLAGS CXXFLAGS CPPFLAGS LDFLAGS CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH
unset CMAKE_ARGS CMAKE_GENERATOR CMAKE_TOOLCHAIN_FILE CMAKE_PREFIX_PATH CMAKE_BUILD_TYPE MAKEFLAGS
unset LD_PRELOAD ASAN_OPTIONS LSAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS DEBUGINFOD_URLS
export PYTHONNOUSERSITE=1 PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

say() { echo "dev: $*" >&2; }

# Prints the newest Python from 3.11 to 3.14 that makes a virtual environment and has headers.
# Every one on PATH is asked: a pyenv shim may exist and yet not run.
find_python() {
  local name candidate
  for name in python3.14 python3.13 python3.12 python3.11 python3; do
    while read -r candidate; do
      [[ "$candidate" != "$PWD/.venv/"* ]] || continue # it may be activated, and is about to be made anew
      if "$candidate" -I - <<'PYTHON' >/dev/null 2>&1; then
import ensurepip, pathlib, sys, sysconfig, venv
assert (3, 11) <= sys.version_info[:2] <= (3, 14)
assert pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file()
PYTHON
        echo "$candidate"
        return
      fi
    done < <(type -ap "$name")
  done
  return 1
}

# A marker stands in .venv while pip works on it. Where it is found, pip was interrupted, killed, or failed, and
# may take a half-written package for a whole one: each is looked at. Where the checkout was moved, start again.
venv_is_whole() {
  [[ "$(cat .venv/made-for 2>/dev/null)" == "$PWD" ]] && .venv/bin/python -c '' 2>/dev/null &&
    { [[ ! -e .venv/incomplete ]] || packages_are_whole; }
}

# pip lists a package's files, with their sizes, in its RECORD, which it writes last.
packages_are_whole() {
  .venv/bin/python -I - <<'PYTHON' 2>/dev/null
from importlib.metadata import distributions
for package in distributions():
    assert package.files
    for file in package.files:
        assert file.size in (None, file.locate().stat().st_size)
PYTHON
}

# Prints the Debian and Ubuntu packages that are missing; what counts is the tool, not how it came.
# usage: missing_packages GROUP...
missing_packages() {
  command -v g++ >/dev/null || echo g++
  command -v gdb >/dev/null || echo gdb
  [[ -e /usr/include/gtest/gtest.h || -e /usr/local/include/gtest/gtest.h ]] || echo libgtest-dev
  [[ -e /usr/include/elfutils/libdwfl.h ]] || echo libdw-dev
  if ! venv_is_whole && ! find_python >/dev/null; then
    # Ubuntu 22.04: python3 is 3.10, python3.11 stands beside it.
    if grep -qs '^VERSION_CODENAME=jammy' /etc/os-release; then
      printf '%s\n' python3.11 python3.11-dev python3.11-venv
    else
      printf '%s\n' python3 python3-dev python3-venv
    fi
  fi
  if [[ " $* " == *" test "* ]]; then
    missing_test_packages
  fi
}

# The tests compare with other tools, and crash what clang's sanitizers built.
missing_test_packages() {
  local version
  command -v strace >/dev/null || echo strace
  command -v make >/dev/null || echo make
  command -v xz >/dev/null || echo xz-utils
  command -v eu-stack >/dev/null || echo elfutils
  command -v llvm-symbolizer >/dev/null || echo llvm
  command -v c++filt >/dev/null || echo binutils
  command -v setpriv >/dev/null || echo util-linux
  command -v debuginfod >/dev/null || echo debuginfod
  # journalctl, and what makes a journal of records that were kept.
  [[ -e /lib/systemd/systemd-journal-remote ]] || echo systemd-journal-remote
  # Without the loader's debug information valgrind refuses to start where that is stripped.
  command -v valgrind >/dev/null || printf '%s\n' valgrind libc6-dbg
  if ! command -v clang++ >/dev/null; then
    echo clang
  elif [[ ! -e "$(clang++ -print-file-name="libclang_rt.asan-$(uname -m).so")" ]]; then
    # Its sanitizers' runtimes are a package of their own; in Ubuntu 22.04 clang brings them along.
    version="$(clang++ -dumpversion)"
    echo "libclang-rt-${version%%.*}-dev"
  fi
}

install_packages() {
  local as_root=() command=(apt-get install --yes --no-install-recommends "$@")
  if ! command -v apt-get >/dev/null; then
    say "this system lacks (in Debian's names): $*"
    say "install them with its package manager, then run ./dev again"
    exit 2
  fi
  if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
    say "this system lacks: $*. Type this, then run ./dev again:"
    echo "  sudo apt-get update && sudo ${command[*]}" >&2
    exit 2
  fi
  say "installing $*"
  ((EUID == 0)) || as_root=(sudo -n)
  as_root+=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1)
  command+=(-qq --fix-broken -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0)
  "${as_root[@]}" "${command[@]}" </dev/null >/dev/null 2>&1 && return
  # Package lists are missing or stale, or dpkg was killed half-way.
  "${as_root[@]}" dpkg --configure -a </dev/null >&2 || true
  "${as_root[@]}" apt-get update -qq </dev/null >&2 || true
  "${as_root[@]}" "${command[@]}" </dev/null >&2 || {
    say "apt-get could not install: $*"
    exit 2
  }
}

set_up_system() {
  local missing _
  for _ in 1 2; do # the second time for what only a package of the first can name
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]} > 0)) || return 0
    [[ " ${missing[*]} " != *" python3"* ]] || say "$(no_python)"
    install_packages "${missing[@]}"
  done
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} > 0)) || return 0
  say "these are installed, and yet what they bring is not where it belongs: ${missing[*]}"
  exit 2
}

no_python() {
  local there="there is no python3"
  ! command -v python3 >/dev/null || there="python3 is $(python3 -I -V 2>&1 | head -n 1)"
  echo "no Python from 3.11 to 3.14 on PATH makes a virtual environment and has its headers ($there)"
}

set_up_venv() {
  local python
  if venv_is_whole; then
    rm -f .venv/incomplete
    return
  fi
  python="$(find_python)"
  say "making .venv with $python"
  rm -rf .venv build # what was built knows the old .venv by its path
  mkdir .venv
  touch .venv/incomplete
  "$python" -m venv .venv
  pip_install "its own release 25.1" --upgrade "pip>=25.1" # the first that knows dependency groups
  echo "$PWD" >.venv/made-for
}

digest() { find "$@" -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum; }

# Runs a command unless it ran before on these files. usage: once NAME FILE... -- COMMAND...
once() {
  local stamp=".venv/done-$1" files=() now
  shift
  while [[ "$1" != "--" ]]; do
    files+=("$1")
    shift
  done
  shift
  now="$(digest "${files[@]}")"
  [[ "$(cat "$stamp" 2>/dev/null)" != "$now" ]] || return 0
  rm -f "$stamp"
  "$@"
  echo "$now" >"$stamp"
}

# usage: pip_install WHAT ARGUMENT...
pip_install() {
  local what="$1"
  shift
  touch .venv/incomplete
  .venv/bin/python -m pip install -qq "$@" || {
    say "pip could not install $what: why stands above. It needs a package index (or one of your own:"
    say "PIP_INDEX_URL, PIP_FIND_LINKS) and a gigabyte of room on the disk; then run ./dev again, it goes on from here"
    exit 2
  }
  rm .venv/incomplete
}

install_group() {
  local dependencies=()
  say "installing the packages of group $1 into .venv"
  if [[ "$1" == build ]]; then
    mapfile -t dependencies < <(python -c 'import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")')
  fi
  pip_install "them" --group "$1" "${dependencies[@]}"
}

# Few files, so what a killed run left is simply taken away first. What the compiler made is kept.
install_project() {
  say "building the native module"
  rm -rf .venv/lib/python3.*/site-packages/{,_}vllm_forensics*
  python -m pip install -qq --no-build-isolation --no-deps --editable .
}

set_up() {
  local group
  # Without a trap bash goes on where a tool answers Ctrl-C with a status of its own, as pip does.
  trap 'say "interrupted; ./dev goes on from here when it is run again"; exit 130' INT
  exec 9<dev # two runs at once must not both set up
  flock --nonblock 9 || {
    say "waiting for another ./dev to finish its set-up"
    flock 9
  }
  set_up_system "$@"
  set_up_venv
  export PATH="$PWD/.venv/bin:$PATH"
  for group in "$@"; do
    once "$group" pyproject.toml -- install_group "$group"
  done
  # What was installed knows each module by its path, and one that was moved is found no more.
  find python -name '*.py' | LC_ALL=C sort >.venv/modules
  once project pyproject.toml CMakeLists.txt csrc .venv/modules -- install_project
  exec 9<&-
  trap - INT
}
