#include "ranks/group/group.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <gantry/channel.hpp>
#include <random>

#include "core/base/os/socket.hpp"
#include "core/base/os/worker_thread.hpp"
#include "core/base/text_lines.hpp"
#include "net/link/turn.hpp"
#include "net/remote/words.hpp"

namespace gantry {
namespace {

constexpr std::chrono::milliseconds kLastWords{100};

Error as_rank_gone(unsigned peer, const Error& error) {
  if (error.code == Code::closed)
    return {Code::peer_gone, fmt::format("rank {} left the group", peer), ""};
  return {error.code == Code::timed_out ? Code::peer_gone : error.code,
          fmt::format("rank {}: {}", peer, error.message), error.hint};
}

constexpr std::uint64_t kLongestPatienceMs = 86'400'000;  // a day

Result<std::uint64_t> number_of(const char* variable, std::uint64_t least, std::uint64_t most) {
  const char* const set = std::getenv(variable);
  const std::string_view text = set == nullptr ? "" : set;
  const auto value = number_in<std::uint64_t>(text);
  if (value && *value >= least && *value <= most) return *value;
  return fail(
      Code::invalid_argument,
      fmt::format("{}: {} is not a number from {} to {}", variable, quote(text), least, most),
      "only `gantry run` sets it: do not change it");
}

}  // namespace

// ---- the ranks' links ------------------------------------------------------------------------

std::string title_of(const GroupOptions& options) {
  return fmt::format("group '{}', rank {}", options.name, options.rank);
}

std::string not_joined(const std::vector<unsigned>& ranks) {
  const bool is_one = ranks.size() == 1;
  return fmt::format("rank{} {} {} not joined", is_one ? "" : "s", fmt::join(ranks, ", "),
                     is_one ? "has" : "have");
}

Result<void> check_options(const GroupOptions& options) {
  const auto wrong = [&](const std::string& what, std::string hint = {}) {
    return fail(Code::invalid_argument, title_of(options) + ": " + what, std::move(hint));
  };
  if (options.ranks == 0 || options.ranks > kMostGroupRanks)
    return wrong(fmt::format("{} ranks; 1 to {}", options.ranks, kMostGroupRanks));
  if (options.rank >= options.ranks)
    return wrong(fmt::format("there are {} ranks", options.ranks), "ranks are counted from 0");
  if (!options.addresses.empty() && options.addresses.size() != options.ranks)
    return wrong(fmt::format("{} addresses for {} ranks", options.addresses.size(), options.ranks),
                 "one for each rank, in their order");
  if (options.join_timeout.count() <= 0)
    return wrong("a join_timeout of 0: nobody could join in time");
  return {};
}

// The rule of channels, also for a rank alone: it has a page of that name.
Result<void> check_name(const GroupOptions& options) {
  if (auto checked = check_channel_name(options.name); !checked)
    return prefixed(std::move(checked).error(), "{}", title_of(options));
  return {};
}

Group::Impl::Impl(GroupOptions options, std::vector<std::unique_ptr<Link>> links,
                  std::unique_ptr<RankReport> report)
    : options_(std::move(options)),
      report_(std::move(report)),
      links_(std::move(links)),
      messages_(options_.ranks) {
  std::random_device random;
  epoch_ = std::uint64_t{random()} << 32 | random();
  if (const auto directory = channel_directory(options_.directory))
    trace_.join(*directory, trace::EndKind::rank,
                fmt::format("{}, rank {}", options_.name, options_.rank));
}

Group::Impl::~Impl() {
  if (keeper_.joinable()) {
    {
      const std::lock_guard lock(keeper_mutex_);
      keeper_is_over_ = true;
    }
    keeper_wake_.notify_all();
    keeper_.join();
  }
  leave();
}

Result<void> Group::Impl::keep_alive() {
  GANTRY_ASSIGN(keeper_, start_thread("a group's thread", [this] { poll_while_idle(); }));
  return {};
}

void Group::Impl::poll_while_idle() noexcept {
  std::unique_lock lock(keeper_mutex_);
  while (!keeper_wake_.wait_for(lock, kGroupBeat, [this] { return keeper_is_over_; })) {
    const std::unique_lock held(held_, std::try_to_lock);
    if (!held) continue;  // whoever holds them polls them
    for (const auto& link : links_)
      if (link) static_cast<void>(link->poll());
  }
}

Error Group::Impl::error_of(unsigned peer) const {
  const auto state = links_[peer]->state();
  return state ? Error{Code::peer_gone, fmt::format("rank {} is gone", peer), ""}
               : as_rank_gone(peer, state.error());
}

Result<void> Group::Impl::say(unsigned peer, const RankMessage& message) {
  if (failure_) return tl::unexpected(*failure_);
  const auto sent = links_[peer]->send_control(message.encode(), Deadline::after(kLastWords));
  if (sent) return {};
  GANTRY_TRY(listen(peer));  // why, if it said so before it left
  return tl::unexpected(as_rank_gone(peer, sent.error()));
}

Result<void> Group::Impl::say_to_all(const RankMessage& message) {
  for (unsigned peer = 0; peer < ranks(); ++peer)
    if (peer != rank()) GANTRY_TRY(say(peer, message));
  return {};
}

Result<void> Group::Impl::listen(unsigned peer) {
  std::array<std::byte, RankMessage::kHeadBytes + RankMessage::kMostPayload> bytes{};
  while (!told_) {
    const auto size = links_[peer]->receive_control(bytes, Deadline::now());
    if (!size && size.error().code == Code::timed_out && links_[peer]->state()) return {};
    if (!size) return tl::unexpected(as_rank_gone(peer, size.error()));
    auto message = RankMessage::decode(std::span(bytes).first(*size));
    if (!message) return tl::unexpected(as_rank_gone(peer, message.error()));
    if (message->kind == RankMessage::Kind::failed) {
      told_ = message->failure();
      break;
    }
    if (messages_[peer].size() >= kMostGroupMessages)
      return fail(Code::peer_misbehaved,
                  fmt::format("rank {}: {} messages that belong to no call of this rank", peer,
                              messages_[peer].size()));
    messages_[peer].push_back(std::move(*message));
  }
  return tl::unexpected(*told_);
}

Result<std::optional<RankMessage>> Group::Impl::take(unsigned peer, RankMessage::Kind kind) {
  auto& waiting = messages_[peer];
  while (!waiting.empty() && waiting.front().operation < operation_) waiting.pop_front();
  if (waiting.empty() || waiting.front().operation > operation_) return std::nullopt;
  if (waiting.front().kind != kind)
    return fail(Code::invalid_argument, pair_with(peer) + " make different calls",
                "every rank prepares and runs the same plans in the same order");
  RankMessage message = std::move(waiting.front());
  waiting.pop_front();
  return message;
}

std::string Group::Impl::pair_with(unsigned peer) const {
  return fmt::format("ranks {} and {}", std::min(rank(), peer), std::max(rank(), peer));
}

Result<void> Group::Impl::check_interrupt() const {
  pollfd entry{options_.interrupt_descriptor, POLLIN, 0};
  if (entry.fd >= 0 && ::poll(&entry, 1, 0) == 1)
    return fail(Code::interrupted, fmt::format("rank {} was interrupted", rank()));
  return {};
}

bool Group::Impl::has_left(unsigned peer) const {
  const auto state = links_[peer]->state();
  return !state && state.error().code == Code::closed;
}

Result<bool> Group::Impl::serve(std::optional<unsigned> awaited) {
  bool has_moved = false;
  Result<void> heard;
  for (unsigned peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const LinkTurn turn(*links_[peer]);
    has_moved = has_moved || turn.has_moved();
    auto one = listen(peer);
    const bool may_have_left = awaited && *awaited != peer && !told_ && has_left(peer);
    if (heard && !may_have_left) heard = std::move(one);
  }
  GANTRY_TRY(heard);
  GANTRY_TRY(check_interrupt());
  return has_moved;
}

void Group::Impl::sleep(int descriptor, Deadline deadline) noexcept {
  std::array<pollfd, kMostGroupRanks + 2> entries;
  nfds_t count = 0;
  for (const auto& link : links_)
    if (link && link->state()) entries[count++] = {link->descriptor(), POLLIN, 0};
  if (descriptor >= 0) entries[count++] = {descriptor, POLLIN, 0};
  if (options_.interrupt_descriptor >= 0)
    entries[count++] = {options_.interrupt_descriptor, POLLIN, 0};
  const auto most = std::min<std::chrono::nanoseconds>(deadline.left(), kGroupBeat);
  ::poll(entries.data(), count, poll_timeout_ms(Deadline::after(most)));
}

Result<void> Group::Impl::meet(Deadline deadline) {
  const RankMessage joined{RankMessage::Kind::joined, 0, rank() == 0 ? epoch_ : 0};
  GANTRY_TRY(say_to_all(joined));
  std::vector<bool> is_here(ranks());
  is_here[rank()] = true;
  for (;;) {
    GANTRY_ASSIGN(const bool has_moved, serve());
    for (unsigned peer = 0; peer < ranks(); ++peer) {
      if (is_here[peer]) continue;
      GANTRY_ASSIGN(const auto message, take(peer, RankMessage::Kind::joined));
      if (!message) continue;
      is_here[peer] = true;
      if (peer == 0) epoch_ = message->word;
    }
    const auto missing = std::ranges::find(is_here, false);
    if (missing == is_here.end()) return report_->joined(epoch_), Result<void>{};
    if (deadline.passed())
      return fail(Code::timed_out, fmt::format("{}: rank {} did not come to the end of joining",
                                               title_of(options_), missing - is_here.begin()));
    report_->show_missing(std::array{static_cast<unsigned>(missing - is_here.begin())});
    if (!has_moved) sleep(-1, deadline);
  }
}

// ---- its end ---------------------------------------------------------------------------------

// Until what was said to them is out; a rank that takes nothing in is not waited for.
void Group::Impl::flush_last_words() noexcept {
  const Deadline deadline = Deadline::after(kLastWords);
  const auto has_words = [](const std::unique_ptr<Link>& link) {
    const auto* const turns = dynamic_cast<const LinkInTurns*>(link.get());
    return turns != nullptr && turns->has_words_left();
  };
  while (std::ranges::any_of(links_, has_words) && !deadline.passed()) {
    bool has_moved = false;
    for (const auto& link : links_)
      if (link) has_moved = link->poll() || has_moved;
    if (!has_moved) sleep(-1, deadline);
  }
}

Error Group::Impl::break_with(const Error& error) noexcept {
  if (failure_) return *failure_;
  failure_ = error;
  report_->broke(error.message);
  const auto told = guarded([&]() -> Result<void> {
    const auto encoded = RankMessage::of_failure(operation_, error).encode();
    for (const auto& link : links_)
      if (link) static_cast<void>(link->send_control(encoded, Deadline::now()));
    return {};
  });
  static_cast<void>(told);  // out of memory: they learn it from the links' end
  flush_last_words();
  close_links();
  return *failure_;
}

void Group::Impl::close_links() noexcept {
  for (const auto& link : links_)
    if (link) link->close();
}

void Group::Impl::leave() noexcept {
  const auto held = hold();
  if (!failure_) {
    failure_ = Error{Code::closed, "this rank left the group", ""};
    report_->broke(failure_->message);
  }
  close_links();
}

// ---- the public face -------------------------------------------------------------------------

Group::Group(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&&) noexcept = default;
Group::~Group() = default;

Result<Group> Group::Impl::form(const GroupOptions& options, Links links,
                                std::unique_ptr<RankReport> report, Deadline deadline) {
  auto impl = std::make_unique<Impl>(options, std::move(links), std::move(report));
  if (auto met = impl->meet(deadline); !met) {
    Error error = impl->break_with(met.error());
    // It may have joined, and failed in what came next.
    if (impl->has_been_told())
      error.message = fmt::format("{}: another rank failed before all had joined: {}",
                                  title_of(options), error.message);
    return tl::unexpected(std::move(error));
  }
  GANTRY_TRY(impl->keep_alive());
  return Group(std::move(impl));
}

Result<Group> Group::over(const GroupOptions& options, Links links) {
  return guarded([&]() -> Result<Group> {
    GANTRY_TRY(check_options(options));
    if (links.size() != options.ranks)
      return fail(
          Code::invalid_argument,
          fmt::format("{}: {} links for {} ranks", title_of(options), links.size(), options.ranks));
    for (unsigned peer = 0; peer < options.ranks; ++peer)
      if ((links[peer] == nullptr) != (peer == options.rank))
        return fail(Code::invalid_argument, fmt::format("{}: {} link to rank {}", title_of(options),
                                                        peer == options.rank ? "a" : "no", peer));
    return Impl::form(options, std::move(links), std::make_unique<RankReport>(options),
                      Deadline::after(options.join_timeout));
  });
}

Result<Group> Group::join(const GroupOptions& options, std::shared_ptr<Engine> engine) {
  return join(options, std::move(engine), Deadline::after(options.join_timeout));
}

Result<Group> Group::join(const GroupOptions& options, std::shared_ptr<Engine> engine,
                          Deadline deadline) {
  return guarded([&]() -> Result<Group> {
    GANTRY_TRY(check_options(options));
    if (options.addresses.empty()) GANTRY_TRY(check_name(options));
    auto report = std::make_unique<RankReport>(options);
    Links links(1);
    if (options.ranks > 1) {
      GANTRY_ASSIGN(links, options.addresses.empty()
                               ? join_by_name(options, engine, deadline, *report)
                               : join_by_address(options, deadline, *report));
    }
    return Impl::form(options, std::move(links), std::move(report), deadline);
  });
}

Result<Group> Group::join(std::shared_ptr<Engine> engine) {
  GANTRY_ASSIGN(const GroupOptions options, GroupOptions::of_launcher());
  return join(options, std::move(engine));
}

unsigned Group::rank() const noexcept {
  return impl_->rank();
}
unsigned Group::ranks() const noexcept {
  return impl_->ranks();
}
const std::string& Group::name() const noexcept {
  return impl_->options().name;
}

std::string Group::explain(unsigned rank) const {
  if (rank >= ranks()) return fmt::format("there are {} ranks", ranks());
  if (rank == impl_->rank()) return "this one";
  const Link& link = impl_->link(rank);
  return fmt::format("{}, {}", to_string(link.kind()), link.peer());
}

Result<void> Group::state() const {
  if (impl_->failure()) return tl::unexpected(*impl_->failure());
  return {};
}

void Group::leave() noexcept {
  impl_->leave();
}

// ---- what ranks say to each other -------------------------------------------------------------

std::vector<std::byte> RankMessage::encode() const {
  WordWriter out;
  out.number(static_cast<std::uint64_t>(kind));
  out.number(operation);
  out.number(word);
  out.bytes(payload);
  return out.take();
}

Result<RankMessage> RankMessage::decode(ConstByteSpan bytes) {
  WordReader in(bytes);
  RankMessage message;
  const auto kind = in.number(8, static_cast<std::uint64_t>(Kind::failed));
  message.kind = static_cast<Kind>(kind);
  message.operation = in.number();
  message.word = in.number();
  if (!in.is_fine() || kind == 0 || in.rest().size() > kMostPayload)
    return fail(Code::peer_misbehaved,
                fmt::format("a message of {} bytes that is none of a rank's", bytes.size()));
  message.payload.assign(in.rest().begin(), in.rest().end());
  return message;
}

RankMessage RankMessage::of_failure(std::uint64_t operation, const Error& error) {
  WordWriter out;
  out.text(error.message, kMostPayload / 2);
  out.text(error.hint, kMostPayload / 4);
  return {Kind::failed, operation, static_cast<std::uint64_t>(error.code), out.take()};
}

Error RankMessage::failure() const {
  WordReader in(payload);
  Error error;
  error.code = word <= static_cast<std::uint64_t>(Code::build_failed) ? static_cast<Code>(word)
                                                                      : Code::peer_gone;
  error.message = in.text(kMostPayload / 2);
  error.hint = in.text(kMostPayload / 4);
  return error;
}

// ---- what `gantry run` told this process ------------------------------------------------------

// The name is looked up in $GANTRY_DIR, which is the run's own: two runs of a file do not meet.

Result<GroupOptions> GroupOptions::of_launcher() {
  const char* const name = std::getenv(kGroupVariable);
  if (name == nullptr)
    return fail(Code::not_found,
                "group of the launcher: `gantry run` did not start this program as a rank",
                "give its stage in the pipeline file a number of ranks, or name rank, ranks and "
                "the group in GroupOptions");
  GroupOptions options;
  options.name = name;
  GANTRY_ASSIGN(const std::uint64_t ranks, number_of(kRanksVariable, 1, kMostGroupRanks));
  GANTRY_ASSIGN(const std::uint64_t rank, number_of(kRankVariable, 0, ranks - 1));
  GANTRY_ASSIGN(const std::uint64_t patience,
                number_of(kJoinWithinVariable, 1, kLongestPatienceMs));
  options.ranks = static_cast<unsigned>(ranks);
  options.rank = static_cast<unsigned>(rank);
  options.join_timeout = std::chrono::milliseconds(patience);
  return options;
}

}  // namespace gantry
