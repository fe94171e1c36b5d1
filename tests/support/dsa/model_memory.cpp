#include "support/dsa/model_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/result.hpp"

namespace gantry::dsa {
namespace {

// The address is a number to us and memory only to the kernel, which checks it.
iovec vector_of(Address address, Bytes bytes) noexcept {
  return {reinterpret_cast<void*>(address), bytes};  // NOLINT(performance-no-int-to-ptr)
}

Bytes copy_once(Address destination, Address source, Bytes bytes) noexcept {
  const iovec to = vector_of(destination, bytes);
  const iovec from = vector_of(source, bytes);
  const ssize_t copied = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
  return copied > 0 ? static_cast<Bytes>(copied) : 0;
}

}  // namespace

// A short count says that something faulted, but the kernel promises no exact place. What lies in
// one page on both sides is copied wholly or not at all, so that step decides.
Bytes copy_mapped(Address destination, Address source, Bytes bytes) noexcept {
  Bytes done = 0;
  while (done < bytes) {
    const Address to = destination + done;
    const Address from = source + done;
    Bytes copied = copy_once(to, from, bytes - done);
    if (copied == 0)
      copied = copy_once(to, from, std::min({bytes - done, left_in_page(to), left_in_page(from)}));
    if (copied == 0) break;
    done += copied;
  }
  return done;
}

bool is_readable(Address address) noexcept {
  std::byte taken{};
  return copy_once(address_of(&taken), address, 1) == 1;
}

Result<void> check_copy_mapped_works() {
  const char from = 1;
  char to = 0;
  if (copy_once(address_of(&to), address_of(&from), 1) == 1) return {};
  return fail(Code::unsupported,
              fmt::format("the DSA model needs process_vm_readv: {}", std::strerror(errno)),
              "allow that system call in the sandbox (seccomp)");
}

}  // namespace gantry::dsa
