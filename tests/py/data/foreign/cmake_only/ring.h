#pragma once
#include <cstddef>

int* new_ring(std::size_t size);
void delete_ring(int* ring);
