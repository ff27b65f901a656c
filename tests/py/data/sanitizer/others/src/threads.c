#include <pthread.h>
#include <stdlib.h>
int shared;
int *block;
pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
void *work(void *arg) { shared++; block[2]++; return arg; }
int main(int argc, char **argv) {
  pthread_t one;
  (void)argv;
  block = malloc(40);
  if (argc > 1) {
    pthread_mutex_lock(&a); pthread_mutex_lock(&b); pthread_mutex_unlock(&b); pthread_mutex_unlock(&a);
    pthread_mutex_lock(&b); pthread_mutex_lock(&a); pthread_mutex_unlock(&a); pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
  }
  pthread_create(&one, NULL, work, NULL);
  shared++; block[2]++;
  pthread_join(one, NULL);
  free(block);
  return 0;
}
