#include "mpi_rank.hpp"

#include <fcntl.h>
#include <mpi.h>
#include <pmix.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <sstream>

namespace gantry::bench {
namespace {

Result<Link> connect_to(const char* path) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path)
    return Unexpected({Code::invalid_argument, "the socket's path is too long", ""});
  std::strcpy(address.sun_path, path);
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return Unexpected(system_error(path));
  return Link::inherited(socket);
}

// The launcher is heard through the loopback device of the namespace in which it runs: this is
// connected to it before the process goes elsewhere, and MPI_Init() then finds that it is.
Result<void> enter_own(const char* spaces) {
  pmix_proc_t own;
  if (PMIx_Init(&own, nullptr, 0) != PMIX_SUCCESS)
    return Unexpected({Code::system, "PMIx_Init() failed", ""});
  std::istringstream words(spaces);
  std::string path;
  for (pmix_rank_t rank = 0; rank <= own.rank; ++rank) std::getline(words, path, ',');
  const Descriptor space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!space.is_open() || ::setns(space.get(), CLONE_NEWNET) != 0)
    return Unexpected(system_error(path));
  return {};
}

Result<void> serve(const char* socket, const char* spaces,
                   const std::function<Result<Obey>(const MpiWorld&)>& make) {
  auto link = connect_to(socket);
  if (!link) return Unexpected(link.error());
  if (*spaces != '\0')
    if (auto entered = enter_own(spaces); !entered) return entered;
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  {
    const auto obey = make({static_cast<unsigned>(rank), static_cast<unsigned>(ranks)});
    if (!obey) return Unexpected(obey.error());
    if (link->send(Command{.trips = static_cast<std::uint64_t>(rank)})) obey_commands(*link, *obey);
  }
  MPI_Finalize();
  if (*spaces != '\0') PMIx_Finalize(nullptr, 0);
  return {};
}

}  // namespace

int serve_as_mpi_rank(const char* socket, const char* spaces,
                      const std::function<Result<Obey>(const MpiWorld&)>& make) {
  const auto served = serve(socket, spaces, make);
  if (served) return 0;
  std::fprintf(stderr, "%s\n", to_string(served.error()).c_str());
  return 1;
}

}  // namespace gantry::bench
