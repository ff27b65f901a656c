#include <cstdlib>
int main() { int *p = new int[4]; delete p; char *q = new char; free(q); }
