#include "peer.hpp"

#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../support/system/cpus.hpp"
#include "../support/trips/ends.hpp"

namespace gantry::bench {
namespace {

/// The link that is handed over at `path`, where whoever is at the other end waits.
Result<Link> fetch_link(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return Unexpected(peer_error(path, "too long"));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);  // open as long as we live
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return Unexpected(system_error(path));
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const auto got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  const cmsghdr* const header = got == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS)
    return Unexpected(peer_error(path, "no link came"));
  int link = -1;
  std::memcpy(&link, CMSG_DATA(header), sizeof link);
  return Link::inherited(link);
}

/// `open`, its threads free to run anywhere; then this thread is where it has to be.
template <class End>
Result<std::unique_ptr<End>> open_free(Result<std::unique_ptr<End>> (*open)(const Assignment&),
                                       const Assignment& told) {
  if (auto freed = pin(told.cpus); !freed) return Unexpected(freed.error());
  auto end = open(told);
  if (auto pinned = pin(told.post.cpu); !pinned) return Unexpected(pinned.error());
  return end;
}

void run(Link& link, const Assignment& told, const Peer& peer) {
  if (told.post.asks())
    run_requester(link, [&] { return open_free(peer.open_requester, told); }, told.what);
  else
    run_responder(link, [&] { return open_free(peer.open_responder, told); });
}

int print_version(const Peer& peer) {
  const auto version = peer.version();
  if (!version) {
    std::fputs((version.error().message + "\n").c_str(), stderr);
    return 1;
  }
  return std::puts(version->c_str()) < 0 ? 1 : 0;
}

}  // namespace

std::string version_text(std::string_view version, const void* function) {
  std::string text(version);
  Dl_info info{};
  char real[PATH_MAX];
  if (function == nullptr || ::dladdr(function, &info) == 0) return text;
  return text + "\n" + (::realpath(info.dli_fname, real) != nullptr ? real : info.dli_fname);
}

int run_peer(int argc, const char* const* argv, const Peer& peer) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") return print_version(peer);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGINT, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  const auto told = Assignment::parse({argv + 1, static_cast<std::size_t>(argc - 1)});
  if (!told) {
    std::fputs(("gantry: " + to_string(told.error()) + "\n").c_str(), stderr);
    return 2;
  }
  auto link = told->link != Assignment::kNone
                  ? Result<Link>(Link::inherited(told->link))
                  : fetch_link(link_path(told->what, told->post.reader));
  if (!link) {
    std::fputs(("gantry: " + to_string(link.error()) + "\n").c_str(), stderr);
    return 1;
  }
  try {
    run(*link, *told, peer);
  } catch (const std::exception& problem) {
    link->send(Answer::failure(problem.what()));
  }
  return 0;  // libraries take their leave as the process exits
}

Result<void> signal_over(int socket) {
  const std::byte byte{1};
  return write_all(socket, {&byte, 1});
}

Result<void> await_over(int socket) {
  std::byte byte{};
  return read_all(socket, {&byte, 1});
}

}  // namespace gantry::bench
