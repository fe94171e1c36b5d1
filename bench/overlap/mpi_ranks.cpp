#include "mpi_ranks.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <array>

#include "../peers/external.hpp"
#include "../support/system/cpus.hpp"

namespace gantry::bench {
namespace {

constexpr int kArrivalMs = 30'000;

/// By TCP alone, whatever they could share.
std::vector<std::string> settings_of(const MpiJob& job) {
  if (job.interfaces.empty() && job.network == nullptr) return {};
  std::vector<std::string> settings = {"btl", "self,tcp", "pml", "ob1", "coll", "^sm,han"};
  // Which rank is behind which link, routes know, and not the addresses.
  if (job.network != nullptr)
    settings.insert(settings.end(),
                    {"btl_tcp_if_include", job.network->device(), "reachable", "weighted"});
  settings.insert(settings.end(), job.interfaces.begin(), job.interfaces.end());
  return settings;
}

std::string spaces_of(const MpiJob& job) {
  std::string spaces;
  for (unsigned rank = 0; job.network != nullptr && rank < job.ranks; ++rank)
    spaces += (rank == 0 ? "" : ",") + job.network->path_of(rank);
  return spaces;
}

std::vector<std::string> mpirun_words(const MpiJob& job, const std::string& directory,
                                      const std::string& shared, const std::string& door) {
  const auto cpus = allowed_cpus();
  const bool is_crowded = !cpus || cpus->size() < job.ranks;
  const auto settings = settings_of(job);
  std::vector<std::string> words = {"mpirun",
                                    "--allow-run-as-root",
                                    "--bind-to",
                                    is_crowded ? "none" : "core",
                                    "--oversubscribe",
                                    "-n",
                                    std::to_string(job.ranks),
                                    "--mca",
                                    "orte_tmpdir_base",
                                    directory,
                                    "--mca",
                                    "btl_vader_backing_directory",
                                    shared,
                                    "--mca",
                                    "mpi_yield_when_idle",
                                    is_crowded ? "1" : "0"};
  for (std::size_t i = 0; i + 1 < settings.size(); i += 2)
    words.insert(words.end(), {"--mca", settings[i], settings[i + 1]});
  words.insert(words.end(), {peer_path(job.program), door, spaces_of(job)});
  words.insert(words.end(), job.words.begin(), job.words.end());
  return words;
}

}  // namespace

Result<MpiRanks> MpiRanks::start(const MpiJob& job, const std::string& directory) {
  if (auto lack = lack_of_peer(job.program, "libopenmpi-dev, openmpi-bin"))
    return Unexpected({Code::unsupported, *lack, ""});
  std::string own = directory + "/mpi-XXXXXX";
  if (::mkdtemp(own.data()) == nullptr) return Unexpected(system_error(own));
  std::string shared = "/dev/shm/gantry-bench-XXXXXX";  // the only names there are within it
  if (::mkdtemp(shared.data()) == nullptr) return Unexpected(system_error(shared));
  const std::string door_path = own + "/door";
  const auto door = listen_at(door_path, SOCK_SEQPACKET, job.ranks);
  if (!door) return Unexpected(door.error());
  const std::string log = own + "/log";
  auto guard = ProgramGuard::start({.words = mpirun_words(job, own, shared, door_path),
                                    .log = log,
                                    .grace = std::chrono::seconds(1),  // it ends when its ranks do
                                    .leftovers = {shared, own}});
  if (!guard) return Unexpected(guard.error());
  MpiRanks made(std::move(*guard));
  std::vector<std::optional<Link>> links(job.ranks);
  for (unsigned come = 0; come < job.ranks; ++come) {
    std::array<pollfd, 2> sources = {
        {{door->get(), POLLIN, 0}, {made.guard_.descriptor(), POLLIN, 0}}};
    if (::poll(sources.data(), sources.size(), kArrivalMs) == 0)
      return Unexpected({Code::timed_out, "mpirun: not all ranks came in 30 s", ""});
    const int rank =
        (sources[0].revents & POLLIN) != 0 ? ::accept(door->get(), nullptr, nullptr) : -1;
    if (rank < 0) return Unexpected({Code::system, "mpirun ended: " + last_words(log), ""});
    Link link = Link::inherited(rank);
    const auto told = link.receive<Command>();
    const auto ready = link.receive<Answer>();
    if (!told || !ready || told->trips >= job.ranks)
      return Unexpected({Code::system, "a rank of Open MPI did not start: " + last_words(log), ""});
    links[told->trips].emplace(std::move(link));
  }
  for (auto& link : links) {
    if (!link) return Unexpected({Code::system, "two ranks of Open MPI have one number", ""});
    made.links_.push_back(std::move(*link));
  }
  return made;
}

}  // namespace gantry::bench
