#!/bin/bash
# Makes the records of this folder again: what systemd-coredump writes into the journal of a crash.
#
# Made on Debian 12 with systemd 252.39, g++ 12.2.0 and gdb 13.1, as root:
#   apt-get install systemd-coredump gdb g++
# The handler gets what the kernel would give it: the core on its standard input and, as arguments,
# %P %u %g %s %t %c %h of core_pattern, while the process still stands at its fault. So core_pattern
# stays as it is, and a mount namespace keeps the records out of this machine's journal.
#
# For each case: export (journalctl -o export), json (journalctl -o json) and info (coredumpctl info).
# kept: as by default. truncated: larger than ProcessSizeMax. unkept: Storage=none.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
handler=${1:-/lib/systemd/systemd-coredump}
if [ "${2:-}" != inside ]; then exec unshare --mount --uts --propagation private "$0" "$handler" inside; fi

work=/opt/cache-demo # its name stands in the records
mkdir "$work"
for folder in /run /var/log /var/lib/systemd /etc/systemd; do mount -t tmpfs tmpfs "$folder"; done
mkdir -p /run/systemd/journal /run/log/journal /var/log/journal /var/lib/systemd/coredump
trap 'rm -r "$work"; kill $(jobs -p)' EXIT
cd "$work"
hostname=crashed
hostname "$hostname"
export TZ=UTC
fields=MESSAGE,MESSAGE_ID,_HOSTNAME,COREDUMP,$(printf 'COREDUMP_%s,' \
  PID UID GID SIGNAL SIGNAL_NAME TIMESTAMP RLIMIT HOSTNAME COMM EXE UNIT SLICE CMDLINE CGROUP \
  FILENAME TRUNCATED PROC_MAPS PROC_AUXV PACKAGE_JSON)

g++ -g -O1 -pthread -Wl,--build-id -o cache "$here/cache.cpp"
/lib/systemd/systemd-journald &
sleep 1
systemd-socket-activate -l /run/systemd/coredump --seqpacket -a "$handler" &
sleep 1

crash() { # case, settings of coredump.conf
  printf '[Coredump]\n%s\n' "$2" >/etc/systemd/coredump.conf
  cat >steps <<GDB
run
python
import os, subprocess, time
gdb.execute("generate-core-file $work/core")
told = [gdb.selected_inferior().pid, 65534, 65534, 11, int(time.time()), 2**64 - 1, "$hostname"]
subprocess.run(["$handler", *map(str, told)], stdin=open("$work/core", "rb"), check=True)
end
kill
GDB
  env -i LC_ALL=C.UTF-8 PATH="$PATH" gdb -nx -batch -x steps --args "$work/cache" --port 80 --api-key sk-notreal1234567890
  sleep 2
  local journal=(journalctl --no-pager --all "--output-fields=$fields" -n 1
    MESSAGE_ID=fc2e22bc6ee647b6b90729ab34a250b1)
  "${journal[@]}" -o export >"$here/$1.export"
  "${journal[@]}" -o json >"$here/$1.json"
  coredumpctl --no-pager -1 info >"$here/$1.info"
  coredumpctl --no-pager --json=pretty list >"$here/list.json"
  coredumpctl --no-pager list >"$here/list.txt"
}

crash kept ''
crash truncated $'ProcessSizeMax=64K\nExternalSizeMax=64K'
crash unkept 'Storage=none'
