#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Adds one row too many. */
static PyObject* rowsum(PyObject* self, PyObject* args) {
  Py_ssize_t rows;
  if (!PyArg_ParseTuple(args, "n", &rows)) {
    return NULL;
  }
  (void)self;
  int* values = calloc((size_t)rows, sizeof(int));
  if (values == NULL) {
    return PyErr_NoMemory();
  }
  long sum = 0;
  for (Py_ssize_t row = 0; row <= rows; ++row) {
    sum += values[row];
  }
  free(values);
  return PyLong_FromLong(sum);
}

static PyMethodDef methods[] = {
    {"rowsum", rowsum, METH_VARARGS, "The sum of so many new rows."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "rowsum", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit_rowsum(void) { return PyModule_Create(&definition); }
