// Preloaded into a test program: leaves a file where GANTRY_THREAD_MARK says once a thread starts,
// so that tools/run-suite knows which suites ThreadSanitizer has to see.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef int (*Create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

__attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                          const pthread_attr_t* attributes,
                                                          void* (*run)(void*), void* argument) {
  static Create next;
  if (next == NULL) {
    *(void**)&next = dlsym(RTLD_NEXT, "pthread_create");
    const char* mark = getenv("GANTRY_THREAD_MARK");
    const int file = mark != NULL ? open(mark, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (file >= 0) close(file);
  }
  return next(thread, attributes, run, argument);
}
