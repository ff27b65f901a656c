#!/bin/bash
# Makes every core and program of this folder again; what expected.json says was checked by hand.
#
# Made on Debian 12 (x86-64, Linux 6.18) with g++ 12.2.0 for each target, binutils 2.40, qemu-user
# 7.2.22 and gdb-multiarch 13.1:
#   apt-get install g++-{aarch64,riscv64,powerpc64le,s390x,i686}-linux-gnu qemu-user gdb-multiarch
# The tests need none of them.
#
# Who writes the cores, and what is odd about each:
# - i386: the kernel, through core_pattern `core`. Whole: NT_SIGINFO, NT_FILE, ELF headers.
# - aarch64, ppc64le, s390x: qemu-user. Without NT_SIGINFO and NT_FILE; pr_info.si_signo is set and
#   pr_cursig is 0; read-only pages, so the code and the build-id, are left out (file size 0).
# - riscv64: qemu-user writes no core for it, so gdb does, connected to qemu's stub. Without
#   NT_PRPSINFO, NT_SIGINFO and NT_FILE; pr_cursig is set; its segments are sections (.text lies at
#   an odd address, the ELF header is missing) and the stack up to the outermost frame.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=/opt/cache-demo # its name stands in the cores
mkdir "$work"
trap 'rm -r "$work"' EXIT
cd "$work"
cp "$here"/*.cpp .
[ "$(cat /proc/sys/kernel/core_pattern)" = core ] || { echo "core_pattern must be: core" >&2; exit 1; }

build() { # target
  "$1-g++" -g -Og -fno-exceptions -fno-rtti -fasynchronous-unwind-tables -fno-stack-protector \
    -ffreestanding -nostdlib -static -no-pie -fno-pie -Wl,--build-id \
    "-ffile-prefix-map=$work=/src" -o cache cache.cpp
}

crash() { # emulator or nothing, then how
  rm -f ./*core
  ( ulimit -c unlimited; ulimit -s 256; env -i ${1:+"$1" -s 262144} /opt/cache-demo/cache "$2" ) || true
}

crash_under_gdb() { # how
  rm -f ./*core
  env -i qemu-riscv64 -s 262144 -g 41234 /opt/cache-demo/cache "$1" &
  sleep 1
  gdb-multiarch -nx -batch -ex "file cache" -ex "target remote :41234" -ex continue \
    -ex "generate-core-file gdb.core" -ex kill || true
  wait || true
}

keep() { # architecture, case
  if [ -e gdb.core ]; then mv gdb.core kept; elif compgen -G 'qemu_*.core' >/dev/null; then mv qemu_*.core kept; else mv core kept; fi
  xz -9e <kept >"$here/$1/$2.core.xz"
}

make() { # architecture, target, emulator
  mkdir -p "$here/$1"
  build "$2"
  xz -9e <cache >"$here/$1/program.xz"
  for how in null call divide abort; do
    if [ "$1" = riscv64 ]; then crash_under_gdb "$how"; else crash "$3" "$how"; fi
    # Where a division by zero does not trap, the program goes on and ends at a trap of its own.
    kept=$how
    case $1-$how in aarch64-divide | riscv64-divide | ppc64le-divide) kept=trap ;; esac
    keep "$1" "$kept"
  done
}

make_linked() { # aarch64: a program with a library, both of which no note names
  mkdir -p "$here/linked"
  aarch64-linux-gnu-g++ -g -Og -fno-exceptions -fno-rtti -fno-stack-protector -ffreestanding -fPIC \
    -nostdlib -shared -DAS_LIBRARY "-ffile-prefix-map=$work=/src" -Wl,--build-id,-soname,libcache.so \
    -o libcache.so cache.cpp
  aarch64-linux-gnu-gcc -nostdlib -pie -Wl,--build-id,-rpath,"$work" \
    -Wl,-dynamic-linker,/lib/ld-linux-aarch64.so.1 -o cache "$here/linked.S" libcache.so
  rm -f ./*core
  ( ulimit -c unlimited; ulimit -s 256; env -i qemu-aarch64 -L /usr/aarch64-linux-gnu -s 262144 \
    /opt/cache-demo/cache null ) || true
  xz -9e <cache >"$here/linked/program.xz"
  xz -9e <libcache.so >"$here/linked/libcache.so.xz"
  xz -9e <qemu_*.core >"$here/linked/core.xz"
}

make_handled() { # architecture, target, emulator or nothing: a handler sends another signal
  "$2-g++" -g -Og -fno-exceptions -fno-rtti -fasynchronous-unwind-tables -fno-stack-protector \
    -ffreestanding -nostdlib -static -no-pie -fno-pie -Wl,--build-id \
    "-ffile-prefix-map=$work=/src" -o handled handled.cpp
  for kind in "" plain; do
    folder=$here/handled/$1${kind:+-$kind}
    mkdir -p "$folder"
    xz -9e <handled >"$folder/program.xz"
    rm -f ./*core
    if [ "$1" = riscv64 ]; then
      env -i qemu-riscv64 -s 262144 -g 41234 /opt/cache-demo/handled null $kind &
      sleep 1
      gdb-multiarch -nx -batch -ex "file handled" -ex "handle SIGSEGV nostop pass" \
        -ex "target remote :41234" -ex continue -ex "generate-core-file core" -ex kill || true
      wait || true
    else
      ( ulimit -c unlimited; ulimit -s 256; env -i ${3:+"$3" -s 262144} /opt/cache-demo/handled null $kind ) || true
    fi
    if compgen -G 'qemu_*.core' >/dev/null; then mv qemu_*.core core; fi
    xz -9e <core >"$folder/core.xz"
  done
}

make_linked
make_handled i386 i686-linux-gnu ""
make_handled aarch64 aarch64-linux-gnu qemu-aarch64
make_handled ppc64le powerpc64le-linux-gnu qemu-ppc64le
make_handled s390x s390x-linux-gnu qemu-s390x
make_handled riscv64 riscv64-linux-gnu ""
make i386 i686-linux-gnu ""
make aarch64 aarch64-linux-gnu qemu-aarch64
make ppc64le powerpc64le-linux-gnu qemu-ppc64le
make s390x s390x-linux-gnu qemu-s390x
make riscv64 riscv64-linux-gnu ""
