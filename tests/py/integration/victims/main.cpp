// Runs the victim that argv[1] names.
#include <cstring>
#include <map>
#include <string>

#include "victim.h"

namespace victims {

volatile std::uint64_t sink = 0;

namespace {
std::map<std::string, Crash>& registry() {
  static std::map<std::string, Crash> victims;
  return victims;
}
}  // namespace

Registration::Registration(const char* name, Crash crash) { registry()[name] = crash; }

}  // namespace victims

int main(int argc, char** argv) {
  const auto& victims = victims::registry();
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const auto& victim : victims) std::puts(victim.first.c_str());
    return 0;
  }
  const auto found = argc == 2 ? victims.find(argv[1]) : victims.end();
  if (found == victims.end()) {
    std::fputs("usage: victim NAME | --list\n", stderr);
    return 2;
  }
  found->second();
  std::fputs("the victim survived\n", stderr);
  return 3;
}
