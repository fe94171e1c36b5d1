#include "roudi.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace gantry::bench {
namespace {

constexpr int kTries = 4000;  // of 5 ms
constexpr int kTryMs = 5;

/// Chunks for answers, and for requests of two subjects: those in flight, one that a publisher
/// keeps, one that is being filled. RouDi takes all that memory at once.
std::string configuration(const Case& what) {
  constexpr Bytes kSmall = 128;
  constexpr Bytes kUnit = 64;
  const Bytes large = (std::max(what.bytes, 2 * kSmall) + kUnit - 1) / kUnit * kUnit;
  return fmt::format(
      "[general]\nversion = 1\n\n[[segment]]\n\n"
      "[[segment.mempool]]\nsize = {}\ncount = 512\n\n"
      "[[segment.mempool]]\nsize = {}\ncount = {}\n",
      kSmall, large, 2 * (what.in_flight + 2));
}

bool says(const std::string& log, const char* words) {
  std::ostringstream text;
  text << std::ifstream(log).rdbuf();
  return text.str().find(words) != std::string::npos;
}

Result<void> await_ready(const Keeper& keeper, const std::string& log) {
  for (int i = 0; i < kTries; ++i) {
    if (says(log, "ready for clients")) return {};
    pollfd ended{keeper.descriptor(), POLLIN, 0};
    if (::poll(&ended, 1, kTryMs) > 0) break;
  }
  return Unexpected({Code::system, "iox-roudi: " + last_words(log), ""});
}

}  // namespace

Result<std::shared_ptr<Keeper>> find_or_start_roudi(const Case& what,
                                                    std::weak_ptr<Keeper>& shared) {
  if (auto running = shared.lock()) return running;
  const std::string file = what.directory + "/roudi.toml";
  const std::string log = what.directory + "/roudi.log";
  std::ofstream(file) << configuration(what);
  std::ofstream(log, std::ios::trunc).flush();  // what an earlier one said does not count
  auto keeper =
      Keeper::start({.words = {"iox-roudi", "-c", file, "-m", "off"}, .variables = {}, .log = log});
  if (!keeper) return Unexpected(keeper.error());
  auto roudi = std::make_shared<Keeper>(std::move(*keeper));
  if (auto ready = await_ready(*roudi, log); !ready) return Unexpected(ready.error());
  shared = roudi;
  return roudi;
}

}  // namespace gantry::bench
