#include "ring.h"

int main() {
  int* ring = new_ring(4);
  ring[0] = 1;
  delete_ring(ring);
  return 0;
}
