#include "ring.h"

int* new_ring(std::size_t size) { return new int[size]; }

void delete_ring(int* ring) { delete ring; }  // was new[]
