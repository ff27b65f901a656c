#ifndef VLLM_FORENSICS_SUPERVISOR_PAGE_SET_H_
#define VLLM_FORENSICS_SUPERVISOR_PAGE_SET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace forensics {

/// A set of addresses other than 0, made for millions of look-ups: open addressing, no removal.
class PageSet {
 public:
  PageSet() : slots_(kFirstSize, 0) {}

  /// Adds `page`; false if it was there.
  bool insert(std::uint64_t page) {
    std::uint64_t& slot = find(page);
    if (slot == page) {
      return false;
    }
    slot = page;
    if (++count_ * 2 > slots_.size()) {
      grow();
    }
    return true;
  }

 private:
  static constexpr std::size_t kFirstSize = std::size_t{1} << 15;

  std::uint64_t& find(std::uint64_t page) {
    // Fibonacci hashing: the product's high half depends on every bit of the page's number.
    std::size_t at = (page * 0x9E3779B97F4A7C15U) >> 32U;
    for (;; ++at) {
      std::uint64_t& slot = slots_[at & (slots_.size() - 1)];
      if (slot == page || slot == 0) {
        return slot;
      }
    }
  }

  void grow() {
    std::vector<std::uint64_t> old(slots_.size() * 2, 0);
    old.swap(slots_);
    for (const std::uint64_t page : old) {
      if (page != 0) {
        find(page) = page;
      }
    }
  }

  std::vector<std::uint64_t> slots_;
  std::size_t count_ = 0;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_PAGE_SET_H_
