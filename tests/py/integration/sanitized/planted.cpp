// A Python module with one fault a function, each in a function of its own that has a name.

#include <Python.h>

#include <climits>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <thread>

namespace planted {

// Through a volatile pointer, so that no optimiser sees what comes.
[[gnu::noinline]] char* hidden(char* bytes) {
  char* volatile pointer = bytes;
  return pointer;
}

[[gnu::noinline]] long read_after_free() {
  char* const bytes = hidden(new char[100]());
  delete[] bytes;
  return hidden(bytes)[5];  // NOLINT: planted
}

[[gnu::noinline]] long copy_past_end(const char* source, std::size_t size) {
  const std::unique_ptr<char[]> bytes(new char[16]());
  std::memcpy(hidden(bytes.get()), source, size);  // NOLINT: planted
  return bytes[3];
}

[[gnu::noinline]] long store_past_end() {
  const std::unique_ptr<char[]> bytes(new char[20]());
  hidden(bytes.get())[20] = 1;  // NOLINT: planted
  return bytes[3];
}

[[gnu::noinline]] int add(int left, int right) { return left + right; }

[[gnu::noinline]] long read_in_thread() {
  long value = 0;
  std::thread([&value] { value = read_after_free(); }).join();
  return value;
}

long shared_counter = 0;

[[gnu::noinline]] void count(long times) {
  for (long i = 0; i < times; ++i) {
    ++shared_counter;
  }
}

[[gnu::noinline]] void race() {
  std::thread other(count, 10'000);
  count(10'000);
  other.join();
}

[[gnu::noinline]] void throw_one() { throw std::runtime_error("thrown in C++"); }

}  // namespace planted

extern "C" {

static PyObject* read_after_free(PyObject*, PyObject*) {
  return PyLong_FromLong(planted::read_after_free());
}

static PyObject* copy_past_end(PyObject*, PyObject*) {
  const char source[64] = {};
  return PyLong_FromLong(planted::copy_past_end(source, sizeof(source)));
}

static PyObject* store_past_end(PyObject*, PyObject*) {
  return PyLong_FromLong(planted::store_past_end());
}

static PyObject* overflow(PyObject*, PyObject* by) {
  return PyLong_FromLong(planted::add(INT_MAX, static_cast<int>(PyLong_AsLong(by))));
}

static PyObject* read_in_thread(PyObject*, PyObject*) {
  return PyLong_FromLong(planted::read_in_thread());
}

static PyObject* race(PyObject*, PyObject*) {
  planted::race();
  return PyLong_FromLong(planted::shared_counter);
}

static PyObject* throw_and_catch(PyObject*, PyObject*) {
  try {
    planted::throw_one();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  }
  return nullptr;
}

static PyMethodDef methods[] = {{"read_after_free", read_after_free, METH_NOARGS, nullptr},
                                {"copy_past_end", copy_past_end, METH_NOARGS, nullptr},
                                {"store_past_end", store_past_end, METH_NOARGS, nullptr},
                                {"overflow", overflow, METH_O, nullptr},
                                {"read_in_thread", read_in_thread, METH_NOARGS, nullptr},
                                {"race", race, METH_NOARGS, nullptr},
                                {"throw_and_catch", throw_and_catch, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "planted", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

PyMODINIT_FUNC PyInit_planted() { return PyModule_Create(&definition); }
}
