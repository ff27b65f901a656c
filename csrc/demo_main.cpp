#include <iostream>

#include "demo_harness.h"

/// Catches nothing: an exception that a demo lets out is to end in std::terminate, with its core.
int main(int argument_count, char** arguments) {  // NOLINT(bugprone-exception-escape): on purpose
  return demo::run(argument_count, arguments, std::cout);
}
