// Dies in ways that only its system calls explain. The name of the way is the first argument.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

constexpr std::size_t kPages = 4 * 4096;
char* memory = nullptr;

char* map(std::size_t size) {
  void* found = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) abort();
  return static_cast<char*>(found);
}

void* unmap(void*) {
  munmap(memory, kPages / 2);
  return nullptr;
}

void in_thread(void* (*work)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, work, nullptr) != 0) abort();
  pthread_join(thread, nullptr);
}

void touch() { *const_cast<volatile char*>(memory + 4100) = 1; }

void kill_parent(int number) {
  if (fork() == 0) {
    kill(getppid(), number);
    _exit(0);
  }
  for (;;) pause();
}

int die(const char* way) {
  const auto is = [way](const char* name) { return std::strcmp(way, name) == 0; };
  if (is("unmap")) {
    memory = map(kPages);
    in_thread(unmap);
    touch();
  } else if (is("unmap-then-fork")) {
    memory = map(kPages);
    unmap(nullptr);
    if (fork() == 0) touch();
    wait(nullptr);
  } else if (is("protect")) {
    memory = map(kPages);
    mprotect(memory, kPages, PROT_NONE);
    touch();
  } else if (is("move")) {
    memory = map(kPages);
    mremap(memory, kPages, 64 * kPages, MREMAP_MAYMOVE | MREMAP_FIXED, map(64 * kPages));
    touch();
  } else if (is("memory")) {
    map(std::size_t{1} << 30);
  } else if (is("thread")) {
    in_thread(unmap);
  } else if (is("shm")) {
    const int file = open("/dev/shm/kv-cache", O_RDWR | O_CREAT, 0600);
    const std::size_t size = std::size_t{4} << 20;
    if (file < 0 || ftruncate(file, static_cast<off_t>(size)) != 0) abort();
    memory = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    std::memset(memory, 1, size);
  } else if (is("shm-missing")) {
    if (open("/dev/shm/kv-cache-of-nobody", O_RDWR) < 0) abort();
  } else if (is("descriptors")) {
    while (open("/dev/null", O_RDONLY) >= 0) {
    }
    abort();
  } else if (is("library")) {
    if (dlopen("libnot-on-this-machine.so.7", RTLD_NOW) == nullptr) abort();
  } else if (is("terminated")) {
    kill_parent(SIGTERM);
  } else if (is("killed")) {
    kill_parent(SIGKILL);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return argc > 1 ? die(argv[1]) : 2; }
