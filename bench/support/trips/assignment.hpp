#pragma once  // bench/support/trips/assignment.hpp: what an end that is a program of its own is
              // told.

#include <span>

#include "subject.hpp"

namespace gantry::bench {

/// Travels as words of a command line.
struct Assignment {
  static constexpr int kNone = -1;

  std::string variant;  ///< Which of the program's ways of sending.
  Post post{};
  int link = kNone;  ///< The link to the harness; kNone: fetch_link() gets it.
  std::vector<int>
      sockets{};            ///< Stream sockets: the requester's to each reader, or a reader's one.
  std::vector<int> cpus{};  ///< Where its helper threads may run.
  int helper = kNone;       ///< A process whose CPU time counts, too.
  Case what{};

  [[nodiscard]] std::vector<std::string> words() const;
  [[nodiscard]] static Result<Assignment> parse(std::span<const char* const> words);
};

/// Where the end of that number waits for its link, in the case's folder.
[[nodiscard]] std::string link_path(const Case& what, int reader);

/// By what name an end of an iceoryx subject is known to RouDi; files of that name come with it.
[[nodiscard]] std::string roudi_client(const Case& what, std::string_view variant, int reader);

}  // namespace gantry::bench
