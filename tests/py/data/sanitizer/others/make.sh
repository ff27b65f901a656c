#!/usr/bin/env bash
# Makes raw/ anew: valgrind 3.19, clang 14 with its small runtimes. Usage: make.sh EMPTY_FOLDER, whose
# name becomes part of the reports (the committed ones were made in /build/samples).
set -u
here="$(cd "$(dirname "$0")" && pwd)"
cd "$1" || exit
cp "$here"/src/* .
out="$here/raw"
gcc -g -O0 -w -fno-builtin memcheck.c -o memcheck
g++ -g -O0 -w mismatch.cpp -o mismatch
gcc -g -O0 -w threads.c -o threads -lpthread
run() { # NAME TOOL_OPTIONS -- COMMAND: the text and the XML of one program
  local name=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  valgrind "${options[@]}" --xml=yes --xml-file=out.xml "$@" >/dev/null 2>&1
  mv out.xml "$out/valgrind_$name.xml"
  valgrind "${options[@]}" "$@" >/dev/null 2>"$out/valgrind_$name.txt"
}
for case in uaf after before null cond value param double bad leak overlap fishy abort jump fpe; do
  run "$case" --leak-check=full --track-origins=yes -- ./memcheck "$case"
done
run mismatch -- ./mismatch
run helgrind --tool=helgrind -- ./threads both
run drd --tool=drd -- ./threads both
valgrind ./memcheck fork >/dev/null 2>"$out/valgrind_fork.txt"
{
  echo "starting the service"
  valgrind --xml=yes --xml-fd=1 ./memcheck uaf 2>&1
  valgrind --xml=yes --xml-fd=1 ./memcheck after 2>&1
} >"$out/valgrind_two_documents.txt"

clang-14 -g -w -O0 -fsanitize=undefined -fsanitize-minimal-runtime small.c -o minimal
./minimal undefined >/dev/null 2>"$out/minimal_undefined.txt"
clang-14 -g -w -O0 -fsanitize=scudo small.c -o scudo
for case in double size bad; do
  bash -c "exec ./scudo $case" >/dev/null 2>"$out/scudo_$case.txt"
done
clang-14 -g -w -O0 small.c -o plain
runtime="$(clang-14 -print-file-name=libclang_rt.scudo_standalone-x86_64.so)"
[ -e "$runtime" ] || runtime="$(clang-14 -print-resource-dir)/lib/linux/libclang_rt.scudo_standalone-x86_64.so"
for case in freed past before double bad; do
  LD_PRELOAD="$runtime" \
    SCUDO_OPTIONS=GWP_ASAN_Enabled=1:GWP_ASAN_SampleRate=1:GWP_ASAN_InstallSignalHandlers=1 \
    bash -c "exec ./plain $case" >/dev/null 2>"$out/gwp_$case.txt"
done
for file in "$out"/*; do [ -s "$file" ] || rm "$file"; done
