/// Names and types of the unwinder for Python; what they do is said in csrc/unwinder.

#include <pybind11/native_enum.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unwinder/core_stacks.h"

namespace py = pybind11;

PYBIND11_MODULE(_unwind, module) {
  module.doc() = "Stacks and source lines out of core files, through elfutils' libdwfl.";

  py::class_<forensics::unwinder::ElfFiles, std::shared_ptr<forensics::unwinder::ElfFiles>>(
      module, "ElfFiles", "ELF files that stay open between cores.")
      .def(py::init<>());

  py::class_<forensics::unwinder::MappedFile>(module, "MappedFile",
                                              "A file that was mapped, checked to be the core's.")
      .def(py::init([](std::string path, std::string debug_path, forensics::unwinder::Address start,
                       forensics::unwinder::Address end) {
             return forensics::unwinder::MappedFile{std::move(path), std::move(debug_path), start,
                                                    end};
           }),
           py::kw_only(), py::arg("path"), py::arg("debug_path"), py::arg("start"), py::arg("end"));

  py::class_<forensics::unwinder::NativeFrame>(module, "NativeFrame", "One frame; read only.")
      .def_readonly("level", &forensics::unwinder::NativeFrame::level)
      .def_readonly("pc", &forensics::unwinder::NativeFrame::pc)
      .def_readonly("is_call", &forensics::unwinder::NativeFrame::is_call)
      .def_property_readonly("function", [](const forensics::unwinder::NativeFrame& frame) {
        return py::bytes(frame.function);
      });

  py::native_enum<forensics::unwinder::WalkEnd>(module, "WalkEnd", "enum.Enum", "Why a walk ended.")
      .value("outermost", forensics::unwinder::WalkEnd::outermost)
      .value("no_table", forensics::unwinder::WalkEnd::no_table)
      .value("no_memory", forensics::unwinder::WalkEnd::no_memory)
      .value("too_deep", forensics::unwinder::WalkEnd::too_deep)
      .finalize();

  py::class_<forensics::unwinder::NativeStack>(module, "NativeStack",
                                               "A stack's two ends; read only.")
      .def_readonly("frames", &forensics::unwinder::NativeStack::frames)
      .def_readonly("depth", &forensics::unwinder::NativeStack::depth)
      .def_readonly("end", &forensics::unwinder::NativeStack::end);

  py::class_<forensics::unwinder::LineOf>(module, "LineOf", "A place in source code; read only.")
      .def_property_readonly(
          "function",
          [](const forensics::unwinder::LineOf& place) { return py::bytes(place.function); })
      .def_property_readonly(
          "file", [](const forensics::unwinder::LineOf& place) { return py::bytes(place.file); })
      .def_readonly("line", &forensics::unwinder::LineOf::line)
      .def_readonly("column", &forensics::unwinder::LineOf::column);

  py::class_<forensics::unwinder::CoreStacks>(module, "CoreStacks", "The stacks of one core.")
      .def(py::init<const std::string&, std::vector<forensics::unwinder::MappedFile>,
                    std::shared_ptr<forensics::unwinder::ElfFiles>>(),
           py::arg("core"), py::arg("files"), py::arg("opened"))
      .def(
          "walk",
          [](forensics::unwinder::CoreStacks& self, forensics::unwinder::Address pc,
             const std::vector<std::pair<int, forensics::unwinder::Address>>& registers,
             std::size_t innermost, std::size_t outermost) {
            forensics::unwinder::ThreadState state{pc, {}};
            for (const auto& [number, value] : registers)
              state.registers.push_back({number, value});
            return self.walk(state, {innermost, outermost});
          },
          py::arg("pc"), py::arg("registers"), py::kw_only(), py::arg("innermost"),
          py::arg("outermost"))
      .def("lines_of", &forensics::unwinder::CoreStacks::lines_of, py::arg("pc"),
           py::arg("is_call"));
}
