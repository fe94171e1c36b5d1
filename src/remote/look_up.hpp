#pragma once  // remote/look_up.hpp: addresses of a host, within a deadline.

#include <netdb.h>

#include <memory>

#include "remote/remote_name.hpp"

namespace gantry {

using Addresses = std::shared_ptr<const addrinfo>;
/// getaddrinfo(3), or a test's stand-in. freeaddrinfo(3) frees the found list.
using NameService = decltype(&::getaddrinfo);

/// `flags`: those of addrinfo. A thread of its own looks the name up; the thread is left behind
/// when time is up. Callers that ask for the same host meanwhile share the thread. Errors:
/// `not_found`, `timed_out`, `interrupted` when `interrupt` (-1: none) is readable, `system`,
/// `out_of_memory`.
[[nodiscard]] Result<Addresses> look_up(const HostPort& where, int flags, int interrupt,
                                        Deadline deadline, NameService service = &::getaddrinfo);

}  // namespace gantry
