#ifndef VLLM_FORENSICS_SUPERVISOR_CORE_SELECTOR_H_
#define VLLM_FORENSICS_SUPERVISOR_CORE_SELECTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "supervisor/page_set.h"
#include "supervisor/process_image.h"
#include "supervisor/python_memory.h"

namespace forensics {

/// Why a page is kept, the most useful first.
enum class Reason : std::uint8_t {
  crash_stack,
  registers,
  elf_headers,
  link_map,
  thread_data,
  stacks,
  python,
  module_data,
  one_hop,
  two_hops,
  three_hops,
  everything,
};
inline constexpr std::size_t kReasons = static_cast<std::size_t>(Reason::everything) + 1;
inline constexpr std::array<std::string_view, kReasons> kReasonNames = {
    "crash_stack", "registers",   "elf_headers", "link_map", "thread_data", "stacks",
    "python",      "module_data", "one_hop",     "two_hops", "three_hops",  "everything"};

/// How much may be kept.
struct SelectionLimits {
  std::uint64_t budget = std::uint64_t{64} << 20U;  // bytes of memory
  bool everything = false;  // the budget aside: all that a full core would hold
};

/// The pages to keep, and what was left out.
struct Selection {
  std::vector<std::uint64_t> pages;  // sorted, each readable when it was chosen
  std::array<std::uint64_t, kReasons> kept_bytes{};
  std::array<std::uint64_t, kReasons> dropped_bytes{};
  std::uint64_t unreadable_bytes = 0;
  std::uint64_t excluded_bytes = 0;    // MADV_DONTDUMP and devices, never read
  std::uint64_t unfollowed_pages = 0;  // kept, but what they point at was not looked for
};

/// Chooses what explains a crash: stacks, what the registers and the modules' data hold, and what
/// these point at to two hops, breadth first, so that what is nearest to the crash is kept longest.
class CoreSelector {
 public:
  /// Borrows `image`, which must outlive this.
  CoreSelector(const ProcessImage& image, const SelectionLimits& limits);

  [[nodiscard]] Selection select();

 private:
  struct Chosen {
    std::uint64_t page;
    Reason reason;
    bool readable;
  };

  [[nodiscard]] std::string text_at(std::uint64_t address) const;
  [[nodiscard]] const MemoryMap* map_at(std::uint64_t address) const;
  [[nodiscard]] bool is_full() const { return chosen_.size() >= limit_pages_; }
  bool add_page(std::uint64_t address, Reason reason);
  void add_range(std::uint64_t start, std::uint64_t end, Reason reason);
  void add_around(std::uint64_t address, Reason reason);

  void add_stack(const ThreadState& thread, std::uint64_t most_bytes, Reason reason);
  void add_stacks();
  void add_thread_data(const ThreadState& thread);
  void add_elf_headers();
  void add_link_maps();
  void add_link_map_chain(std::uint64_t debug);
  void add_python();
  void add_module_data(std::uint64_t most_bytes);
  void add_everything();
  void follow(std::size_t from, std::size_t to, Reason reason);
  void follow_words(const std::byte* page, Reason reason);
  [[nodiscard]] Selection finish();

  const ProcessImage& image_;
  bool everything_;
  std::size_t limit_pages_;
  std::vector<bool> is_target_;  // by map: do pointers into it lead to something worth keeping?
  PageSet seen_;
  std::vector<Chosen> chosen_;
  std::vector<LoadedModule> modules_;
  Selection result_;
  mutable std::size_t last_map_ = 0;
  std::uint64_t last_page_ = 0;
};

}  // namespace forensics

#endif  // VLLM_FORENSICS_SUPERVISOR_CORE_SELECTOR_H_
