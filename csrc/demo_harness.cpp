#include "demo_harness.h"

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <string_view>
#include <vector>

namespace demo {

namespace {

struct Test {
  std::string suite;
  std::string name;
  void (*body)();

  [[nodiscard]] std::string full_name() const { return suite + "." + name; }
};

struct State {
  std::vector<Test> tests;
  bool failed = false;
};

State& state() {
  static State instance;
  return instance;
}

constexpr std::string_view kHelp =
    "Runs small programs that are wrong on purpose, one fault each, against the specimen.\n"
    "A test that dies takes the process with it: that is its purpose. So run one at a time:\n"
    "without a filter the first death ends the run.\n"
    "\n"
    "  --gtest_list_tests        lists the tests and runs none\n"
    "  --gtest_filter=PATTERNS   runs those that match: * any text, ? any character,\n"
    "                            : between patterns, - before those to leave out\n"
    "  --help                    prints this\n"
    "\n"
    "FORENSICS_TRACE=stderr prints every block event as it happens.\n";

/// Whether `text` matches `pattern` with * and ?.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool matches_any(std::string_view patterns, std::string_view text) {
  std::size_t begin = 0;
  while (begin <= patterns.size()) {
    const std::size_t end = std::min(patterns.find(':', begin), patterns.size());
    if (matches(patterns.substr(begin, end - begin), text)) {
      return true;
    }
    begin = end + 1;
  }
  return false;
}

/// Whether a GoogleTest filter, `wanted[-unwanted]`, selects the test.
bool selected(std::string_view filter, const std::string& test) {
  const std::size_t dash = filter.find('-');
  const std::string_view wanted = filter.substr(0, dash);
  if (dash != std::string_view::npos && matches_any(filter.substr(dash + 1), test)) {
    return false;
  }
  return matches_any(wanted.empty() ? "*" : wanted, test);
}

void list_tests(std::string_view filter, std::ostream& output) {
  std::string suite;
  for (const Test& test : state().tests) {
    if (selected(filter, test.full_name())) {
      if (test.suite != suite) {
        suite = test.suite;
        output << suite << ".\n";
      }
      output << "  " << test.name << '\n';
    }
  }
}

/// Every line is flushed before the test runs: a test that dies would lose it.
int run_tests(std::string_view filter, std::ostream& output) {
  int run_count = 0;
  int failed_count = 0;
  for (const Test& test : state().tests) {
    if (!selected(filter, test.full_name())) {
      continue;
    }
    ++run_count;
    state().failed = false;
    output << "[ RUN      ] " << test.full_name() << '\n' << std::flush;
    test.body();
    output << (state().failed ? "[  FAILED  ] " : "[       OK ] ") << test.full_name() << '\n'
           << std::flush;
    failed_count += state().failed ? 1 : 0;
  }
  if (run_count == 0) {
    output << "no test matches --gtest_filter=" << filter << "; see --gtest_list_tests\n";
    return 2;
  }
  output << "[==========] " << run_count << " run, " << failed_count << " failed\n";
  return failed_count == 0 ? 0 : 1;
}

}  // namespace

Registration::Registration(const char* suite, const char* name, void (*body)()) {
  state().tests.push_back({suite, name, body});
}

void fail(const char* file, int line, const std::string& message) {
  state().failed = true;
  std::cout << file << ':' << line << ": Failure: " << message << '\n' << std::flush;
}

int run(int argument_count, const char* const* arguments, std::ostream& output) {
  constexpr std::string_view kFilter = "--gtest_filter=";
  std::string_view filter = "*";
  bool list = false;
  for (int i = 1; i < argument_count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      output << kHelp;
      return 0;
    }
    if (argument == "--gtest_list_tests") {
      list = true;
    } else if (argument.substr(0, kFilter.size()) == kFilter) {
      filter = argument.substr(kFilter.size());
    } else {
      output << "unknown argument: " << argument << "\n\n" << kHelp;
      return 2;
    }
  }
  if (list) {
    list_tests(filter, output);
    return 0;
  }
  return run_tests(filter, output);
}

}  // namespace demo
