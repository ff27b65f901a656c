#ifndef VLLM_FORENSICS_TESTS_SUPPORT_H_
#define VLLM_FORENSICS_TESTS_SUPPORT_H_

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "block_allocator.h"

namespace test_support {

inline constexpr vllm::Policies kSafe{vllm::ReclaimPolicy::free_list, vllm::AccessPolicy::checked};
inline constexpr vllm::Policies kFastArena{vllm::ReclaimPolicy::free_list,
                                           vllm::AccessPolicy::unchecked};
inline constexpr vllm::Policies kHeap{vllm::ReclaimPolicy::heap_per_life,
                                      vllm::AccessPolicy::checked};
inline constexpr vllm::Policies kStory{vllm::ReclaimPolicy::reset_only,
                                       vllm::AccessPolicy::unchecked};

/// Whether this build has the sanitizer, by its -fsanitize= name.
inline bool sanitized_by(std::string_view name) {
  return std::string_view(FORENSICS_SANITIZE).find(name) != std::string_view::npos;
}

/// Expects `action` to throw exactly `Exception` with a message that contains `text`.
template <typename Exception, typename Action>
void expect_throw(Action&& action, std::string_view text) {
  try {
    action();
    ADD_FAILURE() << "nothing was thrown; expected: " << text;
  } catch (const Exception& error) {
    EXPECT_EQ(typeid(error), typeid(Exception));
    EXPECT_NE(std::string_view(error.what()).find(text), std::string_view::npos) << error.what();
  }
}

}  // namespace test_support

#endif  // VLLM_FORENSICS_TESTS_SUPPORT_H_
