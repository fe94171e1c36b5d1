#include "roudi.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "../support/trips/assignment.hpp"

namespace gantry::bench {
namespace {

/// Chunks for answers, and for requests of two subjects: those in flight, one that a publisher
/// keeps, one that is being filled. RouDi takes all that memory at once.
std::string configuration(const Case& what) {
  constexpr Bytes kSmall = 128;
  constexpr Bytes kUnit = 64;
  const Bytes large = (what.bytes + 2 * kSmall + kUnit - 1) / kUnit * kUnit;  // and alignment
  return fmt::format(
      "[general]\nversion = 1\n\n[[segment]]\n\n"
      "[[segment.mempool]]\nsize = {}\ncount = 512\n\n"
      "[[segment.mempool]]\nsize = {}\ncount = {}\n",
      kSmall, large, 2 * (what.in_flight + 2));
}

constexpr const char* kLock = "/tmp/iox-unique-roudi.lock";

/// Whether another RouDi holds the lock that ours would need.
bool another_runs() {
  const Descriptor lock(::open(kLock, O_RDWR | O_CLOEXEC));
  return lock.is_open() && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
}

/// What is left when clients are killed, which makes RouDi abort when it is to end. Nobody has a
/// say in where these are.
std::vector<std::string> leftovers(const Case& what) {
  std::vector<std::string> files = {kLock, "/tmp/roudi", "/tmp/roudi.lock",
                                    "/dev/shm/iceoryx_mgmt"};
  if (const group* const mine = ::getgrgid(::getegid()))
    files.push_back(std::string("/dev/shm/") + mine->gr_name);  // the segment of the payloads
  for (const char* variant : {kCopyVariant, kLoanVariant})
    for (int reader = Post::kAsks; reader < static_cast<int>(what.readers); ++reader)
      for (const char* ending : {"", ".lock"})
        files.push_back("/tmp/" + roudi_client(what, variant, reader) + ending);
  return files;
}

}  // namespace

Result<std::shared_ptr<ProgramGuard>> find_or_start_roudi(const Case& what,
                                                          std::weak_ptr<ProgramGuard>& shared) {
  if (auto running = shared.lock()) return running;
  if (another_runs())
    return Unexpected({Code::system, "iox-roudi: another one runs on this machine", "end it"});
  const std::string file = what.directory + "/roudi.toml";
  const std::string log = what.directory + "/roudi.log";
  std::ofstream(file) << configuration(what);
  std::ofstream(log, std::ios::trunc).flush();  // what an earlier one said does not count
  auto guard = ProgramGuard::start(
      {.words = {"iox-roudi", "-c", file, "-m", "off"}, .log = log, .leftovers = leftovers(what)});
  if (!guard) return Unexpected(guard.error());
  auto roudi = std::make_shared<ProgramGuard>(std::move(*guard));
  if (auto ready = await_saying(*roudi, log, "ready for clients"); !ready)
    return Unexpected({Code::system, "iox-roudi: " + ready.error().message, ""});
  shared = roudi;
  return roudi;
}

}  // namespace gantry::bench
