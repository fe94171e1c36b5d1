#include "external.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "../support/system/cpus.hpp"

namespace gantry::bench {
namespace {

Error opened_elsewhere() {
  return {Code::unsupported, "its ends are programs of their own", ""};
}

void keep_over_exec(int descriptor) {
  ::fcntl(descriptor, F_SETFD, 0);
}

}  // namespace

Result<Descriptor> listen_at(const std::string& path, int type, unsigned most) {
  Descriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Unexpected({Code::invalid_argument, path + ": too long for a socket", "set TMPDIR"});
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const auto* const name = reinterpret_cast<const sockaddr*>(&address);
  if (::bind(socket.get(), name, sizeof address) != 0 ||
      ::listen(socket.get(), static_cast<int>(most)) != 0)
    return Unexpected(system_error(path));
  return socket;
}

Result<std::unique_ptr<External>> External::make(std::string program, std::string variant,
                                                 const Case& what) {
  std::unique_ptr<External> made(new External);
  made->program_ = std::move(program);
  made->told_.variant = std::move(variant);
  made->told_.what = what;
  const auto cpus = allowed_cpus();
  if (!cpus) return Unexpected(cpus.error());
  made->told_.cpus = *cpus;
  for (unsigned reader = 0; reader < what.readers; ++reader) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return Unexpected(system_error("socketpair"));
    made->pairs_.push_back({Descriptor(ends[0]), Descriptor(ends[1])});
  }
  return made;
}

void External::accompany(std::shared_ptr<void> company, int helper) {
  company_ = std::move(company);
  told_.helper = helper;
}

Result<std::unique_ptr<Requester>> External::open_requester() {
  return Unexpected(opened_elsewhere());
}

Result<std::unique_ptr<Responder>> External::open_responder(int) {
  return Unexpected(opened_elsewhere());
}

/// Comes back only when the program cannot be started.
Result<void> External::become(const Post& post, int link) {
  Assignment told = told_;
  told.post = post;
  told.link = link;
  if (post.asks()) {
    for (const Pair& pair : pairs_) told.sockets.push_back(pair.requester.get());
  } else {
    told.sockets.push_back(pairs_[static_cast<std::size_t>(post.reader)].responder.get());
  }
  const int log = ::open((told.what.directory + "/peers.log").c_str(),
                         O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  for (const int output : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(log, output);
  keep_over_exec(link);
  for (const int socket : told.sockets) keep_over_exec(socket);
  std::vector<std::string> words = post.asks() ? wrapper_ : std::vector<std::string>{};
  words.push_back(peer_path(program_));
  for (std::string& word : told.words()) words.push_back(std::move(word));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return Unexpected(system_error(words.front()));
}

}  // namespace gantry::bench
