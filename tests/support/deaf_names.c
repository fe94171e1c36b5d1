/* A name service that never answers; loaded before libc's. It says so when it is asked. */
#include <netdb.h>
#include <unistd.h>

int getaddrinfo(const char* host, const char* port, const struct addrinfo* wanted,
                struct addrinfo** found) {
  static const char said[] = "asked for a name\n";
  (void)host, (void)port, (void)found;
  if ((wanted->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  if (write(STDERR_FILENO, said, sizeof said - 1) < 0) return EAI_SYSTEM;
  for (;;) pause();
}
