#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) int grow(int by) { return INT_MAX - 1 + by; }
__attribute__((noinline)) int shift(int by) { return 1 << by; }
__attribute__((noinline)) int at(const int *table, int index) { return table[index]; }
__attribute__((noinline)) int read_first(const int *p) { return p[0]; }
__attribute__((noinline)) void drop(int *p) { free(p); }
typedef int (*other)(double, double);
int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  int table[4] = {1, 2, 3, 4};
  if (!strcmp(what, "undefined")) printf("%d\n", grow(argc) + shift(argc + 40) + at(table, argc - 1));
  if (!strcmp(what, "double")) { int *p = malloc(40); drop(p); drop(p); }
  if (!strcmp(what, "freed")) { int *p = malloc(40); drop(p); printf("%d\n", read_first(p)); }
  if (!strcmp(what, "past")) { int *p = malloc(4096); printf("%d\n", read_first(p + 1024)); }
  if (!strcmp(what, "before")) { int *p = malloc(4096); printf("%d\n", read_first(p - 4)); }
  if (!strcmp(what, "size")) { volatile size_t n = (size_t)-100; printf("%p\n", malloc(n)); }
  if (!strcmp(what, "bad")) { int *p = malloc(40); drop(p + 1); }
  if (!strcmp(what, "call")) printf("%d\n", ((other)(void *)grow)(1.0, 2.0));
  return 0;
}
