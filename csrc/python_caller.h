#ifndef VLLM_FORENSICS_PYTHON_CALLER_H_
#define VLLM_FORENSICS_PYTHON_CALLER_H_

#include <pybind11/pybind11.h>

#include "event_log.h"

namespace vllm {

/// The Python line that made the call, for the event log; the line of `fallback` when no Python
/// code is running or nobody wants events. The name it holds lives as long as the calling frame.
inline SourceLocation python_caller(SourceLocation fallback = SourceLocation::here()) {
  const auto frame = pybind11::reinterpret_borrow<pybind11::object>(
      reinterpret_cast<PyObject*>(event_log::active() ? PyEval_GetFrame() : nullptr));
  if (!frame) {
    return fallback;
  }
  const pybind11::object name = frame.attr("f_code").attr("co_filename");
  const char* const file = PyUnicode_AsUTF8(name.ptr());
  if (file == nullptr) {  // A name with bytes that are not text.
    PyErr_Clear();
    return fallback;
  }
  return {file, frame.attr("f_lineno").cast<std::uint32_t>()};
}

}  // namespace vllm

#endif  // VLLM_FORENSICS_PYTHON_CALLER_H_
