#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "base/result.hpp"
#include "link/fabric/fabric_puller.hpp"
#include "link/socket/socket_link.hpp"

namespace gantry {

#ifdef GANTRY_HAVE_LIBFABRIC
namespace {

// Empty: the socket is not of the Internet's.
std::string address_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  std::array<char, INET_ADDRSTRLEN> text{};
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      address.sin_family != AF_INET ||
      ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size()) == nullptr)
    return {};
  return text.data();
}

}  // namespace

Result<std::unique_ptr<Link>> make_fabric_link(int socket, const std::string& provider,
                                               const LinkOptions& options) {
  Fd owned(socket);
  return guarded([&]() -> Result<std::unique_ptr<Link>> {
    GANTRY_TRY(check_link_socket(owned.get()));
    GANTRY_ASSIGN(auto puller, make_fabric_puller(provider, address_of(owned.get())));
    return make_socket_link(std::move(owned), options, std::move(puller));
  });
}

#else

Result<std::unique_ptr<Link>> make_fabric_link(int socket, const std::string&, const LinkOptions&) {
  const Fd owned(socket);
  return fail(Code::unsupported, "fabric: not in this build",
              "apt install libfabric-dev and build again");
}

#endif

}  // namespace gantry
