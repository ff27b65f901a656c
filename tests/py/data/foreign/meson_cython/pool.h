#pragma once
#include <stddef.h>

void* pool_take(size_t size);
void pool_give(void* memory);
