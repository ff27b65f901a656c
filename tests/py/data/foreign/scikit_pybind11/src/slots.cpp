#include <pybind11/pybind11.h>

#include <vector>

namespace {

class SlotTable {
 public:
  explicit SlotTable(std::size_t count) : slots_(count) {}

  void keep(std::size_t index) { kept_ = &slots_[index]; }
  void grow(std::size_t count) { slots_.resize(count); }
  int kept() const { return *kept_; }  // after grow(): the old storage is gone

 private:
  std::vector<int> slots_;
  int* kept_ = nullptr;
};

}  // namespace

PYBIND11_MODULE(slots, module) {
  pybind11::class_<SlotTable>(module, "SlotTable")
      .def(pybind11::init<std::size_t>())
      .def("keep", &SlotTable::keep)
      .def("grow", &SlotTable::grow)
      .def("kept", &SlotTable::kept);
}
