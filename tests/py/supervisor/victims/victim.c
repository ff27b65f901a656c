/* Dies, or survives, in the ways that a supervisor has to tell apart: victim WHAT [ARGUMENT]. */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

struct node {
  int value;
  struct node* next;
};

__attribute__((noinline)) int read_next(struct node* node) { return node->next->value; }

__attribute__((noinline)) int walk(struct node* node, int depth) {
  volatile char local[64];
  memset((char*)local, depth, sizeof local);
  int value = depth > 0 ? walk(node, depth - 1) : read_next(node);
  return value + local[3];
}

static int crash(void) {
  struct node* node = calloc(1, sizeof *node);
  return walk(node, 3);
}

static void* wait_for_ever(void* argument) {
  (void)argument;
  for (;;) pause();
}

static void* crash_in_thread(void* argument) {
  (void)argument;
  crash();
  return NULL;
}

static pthread_t start(void* (*body)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, NULL) != 0) exit(99);
  return thread;
}

static int status_of(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) exit(98);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* --- a tree of five: parent, forked, spawned, grandchild, threaded; `where` of them crashes --- */

static int run_tree(const char* self, const char* where) {
  int status = 0;
  const int at = atoi(where);
  pid_t forked = fork();
  if (forked == 0) {
    pid_t grandchild = fork();
    if (grandchild == 0) {
      usleep(10000);
      if (at == 3) crash();
      _exit(0);
    }
    status = status_of(grandchild);
    if (at == 1) crash();
    _exit(status);
  }
  pid_t spawned = 0;
  char* arguments[] = {(char*)self, at == 2 ? "crash" : "exit", "0", NULL};
  if (posix_spawn(&spawned, self, NULL, NULL, arguments, environ) != 0) return 97;
  pid_t threaded = fork();
  if (threaded == 0) {
    for (int index = 0; index < 3; ++index) start(wait_for_ever);
    if (at == 4) pthread_join(start(crash_in_thread), NULL);
    _exit(0);
  }
  status |= status_of(forked) | status_of(spawned) | status_of(threaded);
  if (at == 0) crash();
  return status;
}

/* --- handlers ---------------------------------------------------------------------------------- */

static sigjmp_buf back;
static volatile int sink; /* or the compiler leaves the call out */
static void jump_back(int signal) {
  (void)signal;
  siglongjmp(back, 1);
}

static int survive(int times) {
  volatile int survived = 0;
  signal(SIGSEGV, jump_back);
  for (volatile int index = 0; index < times; ++index) {
    if (sigsetjmp(back, 1) == 0)
      sink = read_next((struct node*)calloc(1, sizeof(struct node)));
    else
      ++survived;
  }
  return survived == times ? 7 : 1;
}

static void raise_again(int signal_number) {
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}
static void abort_instead(int signal_number) {
  (void)signal_number;
  abort();
}
static void fault_again(int signal_number) {
  (void)signal_number;
  *(volatile int*)64 = 1;
}
static void take_away(int signal_number) { signal(signal_number, SIG_DFL); }
static void end_elsewhere(int signal_number) {
  (void)signal_number;
  for (;;) pause();
}
static void leave(int signal_number) {
  (void)signal_number;
  _exit(5);
}

static void* abort_soon(void* argument) {
  (void)argument;
  usleep(100000);
  abort();
}

static int with_handler(const char* name) {
  stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
  struct sigaction action = {.sa_flags = SA_ONSTACK};
  sigaltstack(&stack, NULL);
  if (!strcmp(name, "raise")) action.sa_handler = raise_again, action.sa_flags |= SA_NODEFER;
  if (!strcmp(name, "raise-later")) action.sa_handler = raise_again;
  if (!strcmp(name, "raise-same-stack")) action.sa_handler = raise_again, action.sa_flags = 0;
  if (!strcmp(name, "abort")) action.sa_handler = abort_instead;
  if (!strcmp(name, "fault")) action.sa_handler = fault_again;
  if (!strcmp(name, "remove")) action.sa_handler = take_away;
  if (!strcmp(name, "reset")) action.sa_handler = take_away, action.sa_flags |= SA_RESETHAND;
  if (!strcmp(name, "exit")) action.sa_handler = leave;
  if (!strcmp(name, "elsewhere")) {
    action.sa_handler = end_elsewhere;
    sigaction(SIGSEGV, &action, NULL);
    start(abort_soon);
  }
  sigaction(SIGSEGV, &action, NULL);
  return crash();
}

/* A handled fault long ago must not be taken for the cause of a later abort. */
static int survive_then_abort(void) {
  survive(10);
  abort();
}

/* --- others ------------------------------------------------------------------------------------- */

static int forbid_getppid(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {.len = 4, .filter = code};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  return (int)syscall(SYS_getppid);
}

static volatile sig_atomic_t counted;
static void count(int signal_number) {
  (void)signal_number;
  ++counted;
}

/* Says "ready", then how often the signal came within a second, as its status. */
static int count_signal(int number) {
  struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
  sigaction(number, &action, NULL);
  printf("ready %d\n", getpid());
  fflush(stdout);
  for (int index = 0; index < 20; ++index) usleep(50000);
  return counted;
}

/* The secrets stand on the heap and in a region that is not to be dumped, pointed at from here. A
   part of one stands on the stack, as where the dynamic linker saves the vector registers. */
static char* secret_copy;
static char* excluded;
static int keep_secrets(const char* argument) {
  excluded = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(excluded, "CANARY-kv-block-");
  strcat(excluded, "7d41c2");
  madvise(excluded, 8192, MADV_DONTDUMP);
  secret_copy = malloc(16384);
  memset(secret_copy, 0, 16384);
  strcpy(secret_copy + 5, getenv("API_TOKEN"));
  strcpy(secret_copy + 4090, getenv("API_TOKEN")); /* across two pages */
  strcpy(secret_copy + 9000, argument);
  char saved[64] = "";
  memcpy(saved, argument, strlen(argument) - 4);
  __asm__ volatile("" : : "r"(saved) : "memory");
  return crash();
}

static int many_threads(int number) {
  for (int index = 0; index < number; ++index) start(wait_for_ever);
  usleep(300000); /* until each of them waits */
  return crash();
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  const char* argument = argc > 2 ? argv[2] : "0";
  if (!strcmp(what, "exit")) return atoi(argument);
  if (!strcmp(what, "crash")) return crash();
  if (!strcmp(what, "tree")) return run_tree(argv[0], argument);
  if (!strcmp(what, "signal")) return raise(atoi(argument));
  if (!strcmp(what, "survive")) return survive(atoi(argument));
  if (!strcmp(what, "survive-then-abort")) return survive_then_abort();
  if (!strcmp(what, "handler")) return with_handler(argument);
  if (!strcmp(what, "seccomp")) return forbid_getppid();
  if (!strcmp(what, "count")) return count_signal(atoi(argument));
  if (!strcmp(what, "secrets")) return keep_secrets(argument);
  if (!strcmp(what, "threads")) return many_threads(atoi(argument));
  return 96;
}
