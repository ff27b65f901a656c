#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
__attribute__((noinline)) long use(long *p) { return p[1]; }
__attribute__((noinline)) void put(char *p, int at) { p[at] = 1; }
static char table[16];
int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "uaf")) { long *p = malloc(40); free(p); return (int)use(p); }
  if (!strcmp(what, "after")) { char *p = malloc(40); put(p, 40); free(p); }
  if (!strcmp(what, "before")) { char *p = malloc(40); put(p, -4); free(p); }
  if (!strcmp(what, "null")) { return (int)use(NULL); }
  if (!strcmp(what, "cond")) { int *p = malloc(40); if (p[3]) puts("set"); free(p); }
  if (!strcmp(what, "value")) { int *p = malloc(40); printf("%d\n", table[p[3] & 15]); free(p); }
  if (!strcmp(what, "param")) { char *p = malloc(40); if (write(1, p, 40)) free(p); }
  if (!strcmp(what, "unaddr")) { char *p = malloc(8); if (write(1, p, 40)) free(p); }
  if (!strcmp(what, "double")) { char *p = malloc(40); free(p); free(p); }
  if (!strcmp(what, "bad")) { char *p = malloc(40); free(p + 8); free(table); free(p);}
  if (!strcmp(what, "leak")) { char **p = malloc(8); *p = malloc(100); p = NULL; }
  if (!strcmp(what, "overlap")) { char b[40] = "abcdefghijklmnopqrstuvw"; strncpy(b + 2, b, 3); puts(b); }
  if (!strcmp(what, "fishy")) { volatile long n = -3; char *p = malloc((size_t)n); free(p); }
  if (!strcmp(what, "abort")) abort();
  if (!strcmp(what, "jump")) { ((void (*)(void))0x1234)(); }
  if (!strcmp(what, "fpe")) { volatile int z = 0; return 3 / z; }
  if (!strcmp(what, "fork")) { if (!fork()) { long *p = malloc(40); free(p); return (int)use(p);} long *p = malloc(24); free(p); return (int)use(p); }
  return 0;
}
