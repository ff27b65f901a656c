#ifndef VLLM_FORENSICS_DEMO_HARNESS_H_
#define VLLM_FORENSICS_DEMO_HARNESS_H_

#include <ostream>
#include <sstream>
#include <string>

/// A test runner in the manner of GoogleTest, so that the demos build with a compiler alone. Unlike
/// GoogleTest it catches nothing: an exception that a test lets out ends the process.
namespace demo {

/// Puts a test on the list; used by TEST.
class Registration {
 public:
  Registration(const char* suite, const char* name, void (*body)());
};

/// Marks the running test as failed and prints `file:line: Failure` and the message.
void fail(const char* file, int line, const std::string& message);

/// Runs what the command line asks for and returns the exit status: 0 all passed, 1 one failed, 2
/// the command line is wrong or its filter matches nothing.
int run(int argument_count, const char* const* arguments, std::ostream& output);

template <typename Left, typename Right>
void expect_equal(const Left& left, const Right& right, const char* file, int line) {
  if (!(left == right)) {
    std::ostringstream text;
    text << "expected " << right << ", got " << left;
    fail(file, line, text.str());
  }
}

}  // namespace demo

#define TEST(suite, name)                                                                        \
  static void suite##_##name();                                                                  \
  static const demo::Registration suite##_##name##_registration(#suite, #name, &suite##_##name); \
  static void suite##_##name()

/// Compares and goes on; `actual` first.
#define EXPECT_EQ(actual, expected) demo::expect_equal((actual), (expected), __FILE__, __LINE__)

#endif  // VLLM_FORENSICS_DEMO_HARNESS_H_
