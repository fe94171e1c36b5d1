#include "rank_answers.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>

namespace gantry::bench {
namespace {

constexpr int kAnswerMs = 120'000;

}  // namespace

Result<Answer> answer_of_rank(const std::vector<Link*>& links, std::size_t rank,
                              int interrupt_descriptor) {
  Link& link = *links[rank];
  std::array<pollfd, 2> entries = {
      {{link.descriptor(), POLLIN, 0}, {interrupt_descriptor, POLLIN, 0}}};
  if (::poll(entries.data(), entries.size(), kAnswerMs) == 0)
    return Unexpected({Code::timed_out, fmt::format("rank {} says nothing", rank), ""});
  if (entries[1].revents != 0) return Unexpected({Code::interrupted, "interrupted", ""});
  const auto answer = link.receive<Answer>();
  if (!answer) return Unexpected({Code::peer_gone, fmt::format("rank {} is gone", rank), ""});
  if (answer->kind == Answer::Kind::failed)
    return Unexpected({Code::system, fmt::format("rank {}: {}", rank, answer->text.data()), ""});
  return *answer;
}

Result<RankTimes> ask_ranks(const std::vector<Link*>& links, const Command& command,
                            int interrupt_descriptor) {
  for (Link* const link : links) link->send(command);
  RankTimes times;
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    const auto answer = answer_of_rank(links, rank, interrupt_descriptor);
    if (!answer) return Unexpected(answer.error());
    times.ns = std::max(times.ns, answer->p50_ns);
    times.cpu_ns += answer->cpu_ns;
  }
  return times;
}

}  // namespace gantry::bench
