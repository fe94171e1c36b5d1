#pragma once  // links.hpp: the links that must pass the suite.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <gantry/link.hpp>
#include <ostream>

#include "core/base/os/fd.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "core/engine/thread/thread_engine.hpp"

namespace gantry {

using SocketPair = std::array<Fd, 2>;

struct LinkCase {
  const char* name;
  SocketPair (*connect)();
  Result<std::unique_ptr<Link>> (*make)(int socket, const LinkOptions& options);
};

inline void PrintTo(const LinkCase& link, std::ostream* out) {
  *out << link.name;
}

inline SocketPair unix_pair() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

inline SocketPair tcp_pair() {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(listener.get(), at, size), 0);
  EXPECT_EQ(::listen(listener.get(), 1), 0);
  EXPECT_EQ(::getsockname(listener.get(), at, &size), 0);
  Fd one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(one.get(), at, size), 0);
  Fd other(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return {std::move(one), std::move(other)};
}

inline Result<std::unique_ptr<Link>> make_shared_by_thread(int socket, const LinkOptions& options) {
  auto engine = make_thread_engine({});
  if (!engine) return tl::unexpected(engine.error());
  return make_shared_link(socket, *std::move(engine), options);
}

inline Result<std::unique_ptr<Link>> make_shared_inline(int socket, const LinkOptions& options) {
  auto engine = make_inline_engine();
  if (!engine) return tl::unexpected(engine.error());
  return make_shared_link(socket, *std::move(engine), options);
}

inline Result<std::unique_ptr<Link>> make_fabric_by_tcp(int socket, const LinkOptions& options) {
  return make_fabric_link(socket, "tcp", options);
}

inline const LinkCase kLinks[] = {
    {"stream_tcp", tcp_pair, make_stream_link},
    {"stream_unix", unix_pair, make_stream_link},
    {"shared_inline", unix_pair, make_shared_inline},
    {"shared_thread", unix_pair, make_shared_by_thread},
#ifdef GANTRY_HAVE_LIBFABRIC
    {"fabric_tcp", tcp_pair, make_fabric_by_tcp},
#endif
};

}  // namespace gantry
