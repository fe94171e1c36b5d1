#include "mpirun.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "../support/system/command.hpp"
#include "../support/system/cpus.hpp"

namespace gantry::bench {
namespace {

bool pass(int to, int link) {
  char byte = 1;
  iovec part{&byte, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof link);
  std::memcpy(CMSG_DATA(header), &link, sizeof link);
  return ::sendmsg(to, &message, MSG_NOSIGNAL) == 1;
}

/// mpirun starts the ranks, so the processes that the harness forks can only stand in for them:
/// each gives its link to its rank and lives as long as that does.
class MpiJob final : public Subject {
 public:
  MpiJob(std::vector<Descriptor> doors, std::shared_ptr<ProgramGuard> guard, std::string log)
      : doors_(std::move(doors)), guard_(std::move(guard)), log_(std::move(log)) {}

  Result<std::unique_ptr<Requester>> open_requester() override { return nullptr; }
  Result<std::unique_ptr<Responder>> open_responder(int) override { return nullptr; }
  [[nodiscard]] std::shared_ptr<void> company() const override { return guard_; }

  Result<void> become(const Post& post, int link) override {
    const int door = doors_[static_cast<std::size_t>(post.reader) + 1].get();
    std::array<pollfd, 2> sources = {{{door, POLLIN, 0}, {guard_->descriptor(), POLLIN, 0}}};
    while (::poll(sources.data(), sources.size(), -1) < 0 && errno == EINTR) {
    }
    const int rank = (sources[0].revents & POLLIN) != 0 ? ::accept(door, nullptr, nullptr) : -1;
    if (rank < 0 || !pass(rank, link))
      return Unexpected({Code::system, "mpirun ended: " + last_words(log_), ""});
    ::close(link);
    char byte = 0;
    while (::read(rank, &byte, 1) < 0 && errno == EINTR) {  // returns when the rank has ended
    }
    ::_exit(1);
  }

 private:
  std::vector<Descriptor> doors_;
  std::shared_ptr<ProgramGuard> guard_;
  std::string log_;
};

/// From 5 on mpirun is PRRTE's, and the transport `vader` is called `sm`.
constexpr unsigned kFirstOfPrrte = 5;

/// How mpirun starts its daemon on the reader's host: by this file, to which it says that host's
/// name and a command of the shell.
std::vector<std::string> words_of_agent(const Case& what, const MpiHosts& hosts) {
  const std::string file = what.directory + "/agent";
  std::ofstream(file) << fmt::format("shift\nexec {} sh -c \"$*\"\n",
                                     fmt::join(hosts.answering_words, " "));
  if (mpirun_major() >= kFirstOfPrrte) return {"--prtemca", "plm_ssh_agent", "sh " + file};
  return {"--mca", "plm_rsh_agent", "sh " + file};
}

std::vector<std::string> words_of_mpirun(const Case& what, const std::string& shared,
                                         const MpiLaunch& launch) {
  std::vector<std::string> words;
  if (launch.hosts) words = launch.hosts->asking_words;
  const bool is_prrte = mpirun_major() >= kFirstOfPrrte;
  words.insert(
      words.end(),
      {"mpirun", "--allow-run-as-root", "--bind-to", "none", is_prrte ? "--prtemca" : "--mca",
       is_prrte ? "prte_tmpdir_base" : "orte_tmpdir_base", what.directory, "--mca",
       is_prrte ? "btl_sm_backing_directory" : "btl_vader_backing_directory", shared, "--mca",
       "mpi_yield_when_idle", what.crowded ? "1" : "0"});
  if (launch.hosts)
    for (std::string& word : words_of_agent(what, *launch.hosts)) words.push_back(std::move(word));
  for (std::size_t i = 0; i + 1 < launch.settings.size(); i += 2)
    words.insert(words.end(), {"--mca", launch.settings[i], launch.settings[i + 1]});
  return words;
}

/// That of one rank.
std::vector<std::string> words_of_rank(const Assignment& told, const MpiLaunch& launch) {
  const bool asks = told.post.asks();
  const std::string host = launch.hosts
                               ? (asks ? launch.hosts->asking : launch.hosts->answering) + ":1"
                               : fmt::format("localhost:{}", told.what.readers + 1);
  std::vector<std::string> words;
  if (!asks) words.emplace_back(":");
  words.insert(words.end(), {"-n", "1", "--host", host});
  if (asks) words.insert(words.end(), launch.wrapper.begin(), launch.wrapper.end());
  words.push_back(peer_path("gantry-peer-openmpi"));
  for (std::string& word : told.words()) words.push_back(std::move(word));
  return words;
}

}  // namespace

unsigned mpirun_major() {
  static const unsigned major = [] {
    const std::string said = output_of({"mpirun", "--version"}).value_or("");
    constexpr std::string_view kBefore = "(Open MPI) ";  // "mpirun (Open MPI) 5.0.8"
    const auto at = said.find(kBefore);
    return at == std::string::npos
               ? 0u
               : static_cast<unsigned>(std::strtoul(&said[at + kBefore.size()], nullptr, 10));
  }();
  return major;
}

std::vector<std::string> shared_memory_settings(const std::string& single_copy) {
  if (mpirun_major() >= kFirstOfPrrte) return {"btl", "sm,self", "pml", "ob1", "smsc", single_copy};
  return {"btl", "vader,self", "pml", "ob1", "btl_vader_single_copy_mechanism", single_copy};
}

Result<std::unique_ptr<Subject>> make_mpi(const Case& size, const MpiLaunch& launch) {
  Case what = size;
  what.directory += "/XXXXXX";
  if (::mkdtemp(what.directory.data()) == nullptr) return Unexpected(system_error(what.directory));
  const auto pair = pick_cpus();
  const auto cpus = allowed_cpus();
  if (!pair || !cpus) return Unexpected(pair ? cpus.error() : pair.error());
  std::vector<Descriptor> doors;
  for (int reader = Post::kAsks; reader < static_cast<int>(what.readers); ++reader) {
    auto door = listen_at(link_path(what, reader), SOCK_STREAM, 1);
    if (!door) return Unexpected(door.error());
    doors.push_back(std::move(*door));
  }
  std::string shared = "/dev/shm/gantry-bench-XXXXXX";  // the only names there are within it
  if (::mkdtemp(shared.data()) == nullptr) return Unexpected(system_error(shared));
  Kept kept{.words = words_of_mpirun(what, shared, launch),
            .log = what.directory + "/log",
            .grace = std::chrono::seconds(1),  // it ends when its ranks do
            .leftovers = {shared, what.directory}};
  for (int reader = Post::kAsks; reader < static_cast<int>(what.readers); ++reader) {
    Assignment told{.variant = "mpi", .cpus = *cpus, .what = what};
    told.post = {reader, reader == Post::kAsks ? pair->requester : reader_cpu(*pair, reader)};
    for (std::string& word : words_of_rank(told, launch)) kept.words.push_back(std::move(word));
  }
  auto guard = ProgramGuard::start(kept);
  if (!guard) return Unexpected(guard.error());
  return std::make_unique<MpiJob>(std::move(doors),
                                  std::make_shared<ProgramGuard>(std::move(*guard)), kept.log);
}

}  // namespace gantry::bench
