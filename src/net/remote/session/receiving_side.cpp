#include "net/remote/session/receiving_side.hpp"

#include <algorithm>
#include <bit>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/result.hpp"
#include "net/link/turn.hpp"
#include "net/remote/remote_step.hpp"
#include "net/remote/session/sending_side.hpp"

namespace gantry {
namespace {

// A producer tells nobody that a credit has come: whoever waits for one looks that often.
constexpr std::chrono::milliseconds kCreditRest{20};
// Acknowledged at once when there is nothing else to do.
constexpr std::uint64_t kMostOwed = 4;

// By this host's clock; one that never comes stays that.
std::uint64_t deadline_after(std::uint64_t left_ns) noexcept {
  if (left_ns == 0) return 0;
  const std::uint64_t now = monotonic_ns();
  return now + std::min(left_ns, ~std::uint64_t{0} - now);
}

// What is fetched at a time of a message whose readers see it landing; the link cuts what it sends
// as fine.
constexpr Bytes kLeastPiece = Bytes{1} << 20;
constexpr Bytes kEarlyFrom = 2 * kLeastPiece;
constexpr Bytes kPieces = 16;
constexpr Bytes piece_of(Bytes message) noexcept {
  return std::max(kLeastPiece, std::bit_floor(message / kPieces));
}
constexpr std::size_t kMostPieces = 2 * kPieces + kMaxSegments;

}  // namespace

Result<void> OfferedPlaces::offer(Link& link, Pool pool, Bytes bytes, RemoteSpeech& speech) {
  if (bytes > kMostBytes) return {};
  const auto is_free = [](const auto& entry) { return !entry.second.is_begun; };
  std::erase_if(places_, [&](const auto& entry) {
    return is_free(entry) && entry.second.block.bytes().size() < bytes;
  });
  for (auto free = std::ranges::count_if(places_, is_free); free < kMost; ++free) {
    const PoolReport report = pool.report();
    if (report.live_bytes + bytes > report.budget_bytes / 2) return {};
    auto block = pool.allocate(bytes);
    if (!block) return {};
    GANTRY_ASSIGN(Export exported, link.export_memory(block->bytes(), RemoteAccess::write));
    speech.say(say_place({++last_, exported.remote()}));
    places_.emplace(last_, Place{*std::move(block), std::move(exported)});
  }
  return {};
}

bool OfferedPlaces::withdraw_free() noexcept {
  return std::erase_if(places_, [](const auto& entry) { return !entry.second.is_begun; }) != 0;
}

bool OfferedPlaces::begin(std::uint64_t place, Bytes bytes) noexcept {
  const auto found = places_.find(place);
  if (found == places_.end() || found->second.is_begun ||
      bytes > found->second.block.bytes().size())
    return false;
  return found->second.is_begun = true;
}

Result<bool> OfferedPlaces::hear(Link& link) {
  bool has_heard = false;
  while (!places_.empty()) {
    const auto place = link.receive_signal(Deadline::now());
    if (!place && place.error().code == Code::timed_out) return has_heard;
    if (!place) return tl::unexpected(place.error());
    has_heard = true;
    if (*place == 0 || *place > last_)
      return fail(Code::peer_misbehaved,
                  fmt::format("it put something where nothing was offered (place {} of {})", *place,
                              last_));
    if (const auto found = places_.find(*place); found != places_.end())
      found->second.has_landed = true;
  }
  return has_heard;
}

bool OfferedPlaces::has_landed(std::uint64_t place) const noexcept {
  const auto found = places_.find(place);
  return found != places_.end() && found->second.has_landed;
}

Block OfferedPlaces::take(std::uint64_t place) {
  const auto found = places_.find(place);
  GANTRY_ASSERT(found != places_.end());
  found->second.exported.withdraw();  // I1
  Block block = std::move(found->second.block);
  places_.erase(found);
  return block;
}

Result<void> ReceivingSide::begin(Link&, std::uint64_t) {
  acknowledged_ = heard_ = received_;
  assembler_ = {};
  ended_.reset();  // it is told again
  is_done_ = false;
  speech_.clear();
  return {};
}

void ReceivingSide::end_transfers(const Link& link) noexcept {
  if (!announced_.empty() && announced_.front().outgoing) {
    begun_ = std::move(announced_.front());
    static_cast<void>(begun_->outgoing->land(landed(link, *begun_)));
    begun_->pieces.clear();
  }
  announced_.clear();
  places_.clear();
}

RemoteEnd ReceivingSide::end(Link& link, const Result<void>& done) {
  if (done && !is_done_) {
    const Error why = stopped_or("the consumer has left");
    say_last(link, say_error(RemoteKind::stopped, why));
  }
  const bool link_lives = link.state().has_value();
  if (!link_lives || !done || !is_finished_) link.close();  // I2: no transfer is under way
  end_transfers(link);
  if (done || link_lives) begun_.reset();
  if (refused_) return {RemoteEnd::Kind::over, *refused_};
  if (is_finished_) return {RemoteEnd::Kind::over, *ended_};
  if (done) return {RemoteEnd::Kind::stopped, stopped_or("this end was closed")};
  if (link_lives) return {RemoteEnd::Kind::over, done.error()};
  // Its last word may have come with the end of the link, and it does not come back behind that.
  if (ended_ && ended_->code != Code::closed) return {RemoteEnd::Kind::over, *ended_};
  return end_of_link(done.error());
}

Result<RemoteSide::Turn> ReceivingSide::turn(Link& link) {
  const LinkTurn turn(link);
  GANTRY_ASSIGN(const bool has_records, hear(link, "it says what no sending side says"));
  GANTRY_ASSIGN(const bool has_landed, take_landed(link));
  const bool has_heard = has_records || has_landed;
  GANTRY_ASSIGN(const bool has_stepped, step(link, !has_heard));
  if (is_done_) return Turn::over;
  return has_heard || has_stepped || turn.has_moved() ? Turn::moved : Turn::idle;
}

Result<bool> ReceivingSide::step(Link& link, bool is_idle) {
  GANTRY_ASSIGN(const bool has_begun, fetch(link));
  GANTRY_ASSIGN(const bool has_published, publish(link));
  bool has_ended = false;
  if (refused_) {
    speech_.say(say_error(RemoteKind::stopped, *refused_));
  } else {
    GANTRY_ASSIGN(has_ended, end_stream());
    const bool has_moved = has_begun || has_published;
    // Behind a payload this end has to say that it landed, in the same call.
    const bool is_free = has_published && !was_small_;
    if (acknowledge((is_idle && !has_moved) || is_free) && offer_for_ != 0) {
      GANTRY_TRY(places_.offer(link, sink_->pool(), offer_for_, speech_));
      GANTRY_REMOTE_STEP(place_offered);
    }
  }
  GANTRY_ASSIGN(const bool has_said, speech_.flush(link));
  is_done_ = refused_ || (has_ended && speech_.is_empty());
  return has_begun || has_published || has_said;
}

Result<bool> ReceivingSide::take_record(const Link&, RemoteKind kind, WordReader& in) {
  if (ended_) return false;
  if (kind == RemoteKind::message || kind == RemoteKind::more) {
    GANTRY_ASSIGN(const bool is_whole, assembler_.take(kind == RemoteKind::message, in.rest()));
    if (is_whole) GANTRY_TRY(note(assembler_.words()));
  } else if (kind == RemoteKind::ended && !assembler_.has_begun()) {
    ended_ = read_last_word(in);
    GANTRY_REMOTE_STEP(end_heard);
    return in.is_over();
  } else {
    return false;
  }
  return true;
}

Result<void> ReceivingSide::note(ConstByteSpan words) {
  ConstByteSpan rest;
  GANTRY_ASSIGN(RemoteHead head, RemoteHead::decode(words, rest));
  if (head.number != heard_ + 1 || announced_.size() >= SendingSide::kMostUnacknowledged)
    return fail(Code::peer_misbehaved,
                fmt::format("it announces message {} behind {}", head.number, heard_));
  GANTRY_TRY(sink_->check(head, rest));
  heard_ = head.number;
  Announced one;
  one.deadline_ns = deadline_after(head.time_left_ns);
  one.payload.assign(rest.begin(), rest.end());
  one.head = std::move(head);
  if (!begun_ && places_.begin(one.head.place, one.head.bytes)) {
    one.offered_place = one.head.place;
    one.has_place = true;
  }
  announced_.push_back(std::move(one));  // I1
  GANTRY_REMOTE_STEP(announcement_heard);
  return {};
}

// ---- into the channel ----------------------------------------------------------------------

Result<bool> ReceivingSide::publish(Link& link) {
  bool has_published = false;
  while (!announced_.empty() && announced_.front().has_place && !refused_) {
    Announced& one = announced_.front();
    if (one.offered_place != 0) {
      if (!places_.has_landed(one.offered_place)) return has_published;
      one.blocks.push_back(places_.take(std::exchange(one.offered_place, 0)));
      GANTRY_REMOTE_STEP(message_landed);
    }
    GANTRY_TRY(check_transfers(link, one));
    const Bytes here = landed(link, one);
    const bool is_here = one.pieces.empty() || here == one.head.bytes;
    if (one.is_early && !one.is_dropped && !one.trouble) GANTRY_TRY(send_early(one, here));
    if (!is_here) return has_published;
    if (!one.pieces.empty()) GANTRY_REMOTE_STEP(get_ended);
    GANTRY_ASSIGN(const bool is_published, publish_one(one, Deadline::now()));
    if (!is_published) return has_published;
    has_published = true;
  }
  return has_published;
}

// If there is no credit now, perhaps there is when more has landed.
Result<void> ReceivingSide::send_early(Announced& one, Bytes landed) {
  if (!one.outgoing) {
    auto outgoing = sink_->send_early(draft_of(one), options_of(one, Deadline::now()));
    if (!outgoing && is_full(outgoing.error())) return {};
    if (!outgoing) {
      one.trouble = std::move(outgoing).error();
      return {};
    }
    one.outgoing = *std::move(outgoing);
    GANTRY_REMOTE_STEP(message_sent_early);
  }
  return one.outgoing->land(landed);
}

// False: there is no credit, or it was refused.
Result<bool> ReceivingSide::publish_one(Announced& one, Deadline deadline) {
  const bool was_lent = static_cast<bool>(one.loan);
  if (!one.is_dropped && !one.trouble && !one.outgoing) {
    auto sent = send(one, deadline);
    const bool may_try_again = !was_lent || one.loan;
    if (!sent && is_full(sent.error()) && may_try_again) return false;
    if (!sent) one.trouble = std::move(sent).error();
  }
  if (one.trouble && !refuse(one)) return false;
  const bool had_transfer = !one.is_dropped && !one.trouble && !one.head.has_payload;
  if (had_transfer && one.head.parts.size() == 1) offer_for_ = one.head.bytes;
  GANTRY_REMOTE_STEP(message_passed_on);
  GANTRY_DEBUG_ASSERT(one.head.number == received_ + 1);  // I1
  was_small_ = one.head.has_payload;
  was_quick_ = was_small_ || (one.pieces.empty() && one.head.bytes <= kMostDriven);
  ++received_;
  announced_.pop_front();
  return true;
}

bool ReceivingSide::refuse(const Announced& one) {
  auto told = sink_->refuse(one.head.info, *one.trouble);
  if (told) return *told;
  refused_ = std::move(told).error();
  return false;
}

SendOptions ReceivingSide::options_of(const Announced& one, Deadline deadline) {
  SendOptions options;
  options.deadline = deadline;
  options.type = one.head.info.type;
  options.user = one.head.info.user;
  options.correlation = one.head.info.correlation;
  options.deadline_ns = one.deadline_ns;
  return options;
}

Draft ReceivingSide::draft_of(const Announced& one) {
  Draft draft;
  ConstByteSpan rest = one.payload;
  for (std::size_t i = 0; i < one.head.parts.size(); ++i) {
    const RemoteHead::Part& part = one.head.parts[i];
    if (one.head.has_payload || part.bytes == 0) {
      draft.copy(rest.first(part.bytes), part.tensor);
      rest = rest.subspan(part.bytes);
    } else {
      draft.move(one.blocks[i].share(), part.bytes, part.tensor);
    }
  }
  return draft;
}

Result<void> ReceivingSide::send(Announced& one, Deadline deadline) {
  const SendOptions options = options_of(one, deadline);
  if (one.loan) return sink_->send(one.loan, options);
  if (one.head.is_plain() && one.head.has_payload)
    return sink_->send(ConstByteSpan(one.payload), options);
  return sink_->send(draft_of(one), options);
}

// True: this side is done as soon as what it says has been said.
Result<bool> ReceivingSide::end_stream() {
  if (!ended_ || !announced_.empty()) return false;
  if (is_finished_) return true;
  if (ended_->code == Code::closed) {
    auto closed = sink_->close(Deadline::now());
    if (!closed && closed.error().code == Code::timed_out) return false;
    if (!closed) {
      refused_ = std::move(closed).error();
      speech_.say(say_error(RemoteKind::stopped, *refused_));
      return true;
    }
    acknowledge(true);
    speech_.say(say_number(RemoteKind::finished, received_));
    GANTRY_REMOTE_STEP(finish_said);
  } else {
    speech_.say(say_error(RemoteKind::stopped, *ended_));
  }
  is_finished_ = true;
  return true;
}

bool ReceivingSide::acknowledge(bool is_idle) {
  const std::uint64_t owed = received_ - acknowledged_;
  if (owed == 0 || (owed < kMostOwed && !is_idle)) return false;
  acknowledged_ = received_;
  speech_.say(say_number(RemoteKind::received, received_));
  GANTRY_REMOTE_STEP(receipt_said);
  return true;
}

bool ReceivingSide::waits_for_link(const Link& link) const {
  return announced_.empty() ? !ended_ : is_coming(link);
}

std::chrono::milliseconds ReceivingSide::patience(const Link& link) const {
  // the first one may besides wait for a credit
  const bool is_fetched = is_fetching() && !is_under_way(link, announced_.front());
  return waits_for_link(link) && !is_fetched ? kRemoteRest : kCreditRest;
}

// Nothing can be done now but to wait for the link, or for the reader of the channel.
Result<bool> ReceivingSide::linger(Link& link) {
  // What was under way over a link that has ended did not land.
  if (waits_for_link(link) || !link.state()) return false;
  const Deadline soon = Deadline::after(kCreditRest);
  if (announced_.empty()) {
    static_cast<void>(sink_->close(soon));
    return true;
  }
  Announced& next = announced_.front();
  if (next.has_place) return publish_one(next, soon).map([](bool) { return true; });
  if (!next.head.is_plain() || next.is_early) return false;
  GANTRY_ASSIGN(const bool has_place, find_place(next, soon, true));
  if (has_place) GANTRY_TRY(begin_transfers(link, next));
  return true;
}

Result<bool> ReceivingSide::fetch(Link& link) {
  bool has_begun = false;
  bool may_lend = true;  // I3
  // A sending side on the same link puts one for each of its messages.
  const std::size_t most = link.capabilities().max_transfers - SendingSide::kMostUnacknowledged;
  for (Announced& one : announced_) {
    if (!one.has_place && !sink_->wants(one.head.info))
      has_begun = one.has_place = one.is_dropped = true;
    if (one.has_place) {
      may_lend &= one.is_dropped || static_cast<bool>(one.loan);
      continue;
    }
    const std::size_t pieces = is_for_early(one) ? kMostPieces : one.head.parts.size();
    if (!one.head.has_payload && under_way(link) + pieces > most) return has_begun;
    GANTRY_ASSIGN(bool has_place, find_place(one, Deadline::now(), may_lend));
    const bool is_first = &one == &announced_.front();
    if ((!has_place || one.trouble) && is_first && places_.withdraw_free()) {
      one.trouble.reset();  // perhaps there is room now
      one.has_place = false;
      GANTRY_ASSIGN(has_place, find_place(one, Deadline::now(), may_lend));
    }
    if (!has_place) return has_begun;
    GANTRY_TRY(begin_transfers(link, one));
    may_lend &= static_cast<bool>(one.loan);
    has_begun = true;
  }
  return has_begun;
}

Result<bool> ReceivingSide::find_place(Announced& one, Deadline deadline, bool may_lend) {
  one.is_early = is_for_early(one);
  if (begun_) {
    GANTRY_TRY(go_on(one));
  } else if (one.head.has_payload) {
    one.has_place = true;
  } else if (one.head.is_plain() && may_lend && !one.is_early) {
    auto loan = sink_->loan(one.head.info, one.head.bytes, deadline);
    if (!loan && is_full(loan.error()) && (is_fetching() || loan.error().code == Code::timed_out))
      return false;
    if (loan)
      one.loan = *std::move(loan);
    else
      one.trouble = std::move(loan).error();
  } else {
    auto found = find_blocks(one);
    if (!found && found.error().code == Code::out_of_memory && sink_->reclaim(one.head.bytes))
      found = find_blocks(one);
    // Memory that is in use comes back; if none is, there will never be more.
    if (!found && found.error().code == Code::out_of_memory &&
        sink_->pool().report().live_bytes > 0)
      return false;
    if (!found) one.trouble = std::move(found).error();
  }
  GANTRY_REMOTE_STEP(place_found);
  return one.has_place = true;
}

// Readers are told of what lands unless it comes in one piece.
bool ReceivingSide::is_for_early(const Announced& one) const noexcept {
  return !one.head.has_payload && one.head.bytes >= kEarlyFrom && sink_->takes_early();
}

Result<void> ReceivingSide::find_blocks(Announced& one) {
  std::vector<Block> blocks(one.head.parts.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (one.head.parts[i].bytes == 0) continue;
    GANTRY_ASSIGN(blocks[i], sink_->pool().allocate(one.head.parts[i].bytes));
  }
  one.blocks = std::move(blocks);
  return {};
}

// The rest of what readers see already.
Result<void> ReceivingSide::go_on(Announced& one) {
  const auto is_alike = [](const RemoteHead::Part& left, const RemoteHead::Part& right) {
    return left.bytes == right.bytes;
  };
  if (!std::ranges::equal(one.head.parts, begun_->head.parts, is_alike) || one.head.has_payload)
    return fail(Code::peer_misbehaved,
                fmt::format("it announces message {} anew as another one", one.head.number));
  GANTRY_DEBUG_ASSERT(&one == &announced_.front());  // I4
  one.blocks = std::move(begun_->blocks);
  one.outgoing = std::move(begun_->outgoing);
  begun_.reset();
  return {};
}

Result<void> ReceivingSide::begin_transfers(Link& link, Announced& one) {
  if (one.head.has_payload || one.trouble) return {};
  const Bytes piece = one.is_early ? piece_of(one.head.bytes) : one.head.bytes;
  const Bytes here = one.outgoing ? one.outgoing->landed() : 0;
  Bytes end = 0;
  for (std::size_t i = 0; i < one.head.parts.size(); ++i) {
    const RemoteHead::Part& part = one.head.parts[i];
    for (Bytes at = 0; at < part.bytes; at += piece) {
      Transfer transfer;
      transfer.local = (one.loan ? one.loan.bytes() : one.blocks[i].bytes()).data() + at;
      transfer.remote = part.region;
      transfer.remote_offset = part.offset + at;
      transfer.row_bytes = std::min(piece, part.bytes - at);
      end += transfer.row_bytes;
      if (end <= here) continue;
      GANTRY_ASSIGN(const Ticket ticket, link.get(transfer));
      one.pieces.push_back({ticket, end});
      GANTRY_REMOTE_STEP(get_begun);
    }
  }
  return {};
}

std::size_t ReceivingSide::under_way(const Link& link) const {
  std::size_t count = 0;
  for (const Announced& one : announced_)
    for (const Piece& piece : one.pieces)
      count += link.outcome(piece.transfer) == Outcome::pending ? 1 : 0;
  return count;
}

bool ReceivingSide::is_under_way(const Link& link, const Announced& one) const {
  if (one.offered_place != 0) return !places_.has_landed(one.offered_place);
  return std::ranges::any_of(one.pieces, [&](const Piece& piece) {
    return link.outcome(piece.transfer) == Outcome::pending;
  });
}

bool ReceivingSide::is_coming(const Link& link) const {
  return std::ranges::any_of(announced_,
                             [&](const Announced& one) { return is_under_way(link, one); });
}

Bytes ReceivingSide::landed(const Link& link, const Announced& one) noexcept {
  Bytes here = one.outgoing ? one.outgoing->landed() : 0;
  for (const Piece& piece : one.pieces) {
    if (link.outcome(piece.transfer) != Outcome::done) return here;
    here = piece.end;
  }
  return here;
}

Result<void> ReceivingSide::check_transfers(Link& link, const Announced& one) {
  for (const Piece& piece : one.pieces) {
    if (link.outcome(piece.transfer) != Outcome::failed) continue;
    auto why = link.wait(piece.transfer, Deadline::now());
    if (!why && why.error().code == Code::not_found)
      return fail(Code::peer_misbehaved, "it took back a message that was on its way");
    GANTRY_TRY(std::move(why));
  }
  return {};
}

}  // namespace gantry
