#include "net/remote/session/sending_side.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/clock.hpp"
#include "core/base/result.hpp"
#include "net/link/turn.hpp"
#include "net/remote/remote_step.hpp"
#include "net/remote/session/receiving_side.hpp"

namespace gantry {
namespace {

// The places that a receiving side on the same link offers, taken ones among them.
constexpr std::size_t kOtherExports = SendingSide::kMostUnacknowledged + OfferedPlaces::kMost;

// Messages that may wait for a millisecond to be given up: fewer than the slots that most have.
constexpr std::size_t kMostAtRest = 1;

std::uint64_t left_until(std::uint64_t deadline_ns) noexcept {
  if (deadline_ns == 0) return 0;
  const std::uint64_t now = monotonic_ns();
  return deadline_ns > now ? deadline_ns - now : 1;
}

// What a link reads from it only reads.
ByteSpan as_memory(ConstByteSpan bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: see above
}

}  // namespace

Result<std::optional<ExportedSlabs::Place>> ExportedSlabs::find(Link& link, const Message& message,
                                                                ConstByteSpan bytes) {
  const auto slice =
      message.owner() == nullptr ? std::nullopt : message.owner()->where(message.token(), bytes);
  if (!slice) return std::nullopt;
  auto slab = std::ranges::find(slabs_, slice->region, &Slab::region);
  if (slab == slabs_.end()) {
    GANTRY_ASSIGN(Export exported, link.export_region(*slice->region, RemoteAccess::read));
    slab = slabs_.insert(slab, {slice->region, std::move(exported)});
  }
  return Place{slab->exported.remote(), slice->offset};
}

void ExportedSlabs::sweep() noexcept {
  // Only this thread gives away what it holds: nobody can take a slab that it alone has.
  std::erase_if(slabs_, [](const Slab& slab) { return slab.region.use_count() == 1; });
}

Result<RemoteSide::Turn> SendingSide::turn(Link& link) {
  LinkTurn turn(link);
  GANTRY_ASSIGN(const bool has_heard, hear(link, "it says what no receiving side says"));
  if (answer_) return Turn::over;
  GANTRY_ASSIGN(const bool has_stepped, step(link));
  static_cast<void>(turn.end());
  has_payload_left_ = turn.has_payload_left();
  return has_heard || has_stepped || turn.has_moved() ? Turn::moved : Turn::idle;
}

RemoteEnd SendingSide::end(Link& link, const Result<void>& done) {
  RemoteEnd end = end_over(link, done);
  end_exports();  // last: the end is told first
  return end;
}

void SendingSide::end_exports() noexcept {
  for (Unacknowledged& one : unacknowledged_) one.exports.clear();
  slabs_.clear();
}

bool SendingSide::may_rest() const noexcept {
  const auto has_gone = [&](const Unacknowledged& one) {
    const bool is_put = one.put && one.message.bytes().size() <= kMostDriven;
    return one.is_small || (is_put && !has_payload_left_);
  };
  return unacknowledged_.size() <= kMostAtRest && std::ranges::all_of(unacknowledged_, has_gone) &&
         speech_.is_empty() && !ended_;
}

Result<bool> SendingSide::step(Link& link) {
  GANTRY_ASSIGN(const bool has_taken, take_messages(link));
  slabs_.sweep();
  GANTRY_TRY(tell_end());
  GANTRY_ASSIGN(const bool has_said, speech_.flush(link));
  return has_taken || has_said;
}

RemoteEnd SendingSide::end_over(Link& link, const Result<void>& done) {
  if (answer_) {
    link.close();
    return {RemoteEnd::Kind::over, *answer_};
  }
  if (done) {
    const Error why = stopped_or("the other end was closed");
    return {RemoteEnd::Kind::stopped, end_session(link, RemoteKind::ended, why).why};
  }
  if (link.state()) return end_session(link, RemoteKind::ended, done.error());
  return end_of_link(done.error());
}

Result<void> SendingSide::begin(Link& link, std::uint64_t received) {
  speech_.clear();
  has_told_end_ = false;
  places_.clear();
  for (Unacknowledged& one : unacknowledged_) one.put.reset();
  GANTRY_TRY(acknowledge(link, received));
  for (Unacknowledged& one : unacknowledged_) {
    GANTRY_TRY(announce(link, one));
    GANTRY_REMOTE_STEP(announced_again);
  }
  return {};
}

Result<bool> SendingSide::take_record(const Link& link, RemoteKind kind, WordReader& in) {
  if (kind == RemoteKind::received) {
    const auto number = in.number();
    if (!in.is_over()) return false;
    GANTRY_TRY(acknowledge(link, number));
  } else if (kind == RemoteKind::place) {
    GANTRY_TRY(note_place(in));
  } else if (kind == RemoteKind::finished && has_told_end_ && ended_->code == Code::closed) {
    answer_ = ended_;
  } else if (kind == RemoteKind::stopped) {
    const Error why = read_last_word(in);
    if (!in.is_over() || why.code == Code::closed) return false;  // it would count as `finished`
    answer_ = why;
  } else {
    return false;
  }
  return true;
}

Result<void> SendingSide::acknowledge(const Link& link, std::uint64_t number) {
  const std::uint64_t least = last_number_ - unacknowledged_.size();
  if (number > last_number_ || number < least)
    return fail(Code::peer_misbehaved, fmt::format("it has received message {}, of {} to {}",
                                                   number, least, last_number_));
  while (last_number_ - unacknowledged_.size() < number) {
    const Unacknowledged& first = unacknowledged_.front();
    GANTRY_DEBUG_ASSERT(first.number == last_number_ - unacknowledged_.size() + 1);  // I1
    if (first.put && link.outcome(*first.put) == Outcome::pending)
      return fail(Code::peer_misbehaved, "it has received a message that is still on its way");
    GANTRY_REMOTE_STEP(message_acknowledged);
    unacknowledged_.pop_front();  // I1
    GANTRY_REMOTE_STEP(message_dropped);
  }
  return {};
}

Result<void> SendingSide::note_place(WordReader& in) {
  GANTRY_ASSIGN(const RemotePlace place, read_place(in));
  std::erase_if(places_, [&](const RemotePlace& earlier) {  // they were withdrawn
    return earlier.region.bytes < place.region.bytes;
  });
  if (places_.size() >= kMostPlaces)
    return fail(Code::peer_misbehaved,
                fmt::format("it offers more places than allowed: {} are free", places_.size()));
  places_.push_back(place);
  GANTRY_REMOTE_STEP(place_noted);
  return {};
}

Result<void> SendingSide::put_ahead(Link& link, Unacknowledged& one, RemoteHead& head) {
  if (places_.empty() || head.parts.size() != 1 || head.bytes > places_.front().region.bytes)
    return {};
  const RemotePlace& place = places_.front();
  auto put = link.put(Transfer::of(one.message.segment(0).bytes, place.region, 0, place.number));
  if (!put && put.error().code == Code::busy) return {};
  GANTRY_TRY(put);
  one.put = *put;
  head.place = place.number;
  places_.pop_front();
  GANTRY_REMOTE_STEP(message_put_ahead);
  return {};
}

bool SendingSide::takes_more(const Link& link) const {
  std::size_t exports = slabs_.size() + kMaxSegments + kOtherExports;  // the next one's, too
  for (const Unacknowledged& one : unacknowledged_) exports += one.exports.size();
  return !ended_ && unacknowledged_.size() < kMostUnacknowledged &&
         exports <= link.capabilities().max_exports;
}

Result<bool> SendingSide::take_messages(Link& link) {
  bool has_taken = false;
  while (takes_more(link)) {
    auto message = source_->take();
    if (!message && message.error().code == Code::timed_out) return has_taken;
    if (!message) {
      ended_ = std::move(message).error();
      return has_taken;
    }
    has_taken = true;
    unacknowledged_.push_back({++last_number_, *std::move(message), {}, {}, false});
    GANTRY_TRY(announce(link, unacknowledged_.back()));
    GANTRY_REMOTE_STEP(message_announced);
  }
  return has_taken;
}

Result<void> SendingSide::announce(Link& link, Unacknowledged& one) {
  RemoteHead head;
  head.number = one.number;
  head.info = one.message.info();
  head.time_left_ns = left_until(head.info.deadline_ns);
  one.is_small = head.has_payload = RemoteHead::travels_with_head(one.message);
  for (std::size_t i = 0; i < one.message.segments(); ++i) {
    const Segment segment = one.message.segment(i);
    RemoteHead::Part part{segment.bytes.size(), {}, segment.tensor};
    if (!head.has_payload && part.bytes > 0)
      GANTRY_TRY(export_part(link, one, segment.bytes, part));
    head.bytes += part.bytes;
    head.parts.push_back(part);
  }
  if (!head.has_payload) GANTRY_TRY(put_ahead(link, one, head));
  auto words = head.encode();
  for (std::size_t i = 0; head.has_payload && i < one.message.segments(); ++i) {
    const ConstByteSpan bytes = one.message.segment(i).bytes;
    words.insert(words.end(), bytes.begin(), bytes.end());
  }
  for (auto& piece : cut_for_link(words)) speech_.say(std::move(piece));
  return {};
}

// Over a stream nothing is gained by more rights than a message needs.
Result<void> SendingSide::export_part(Link& link, Unacknowledged& one, ConstByteSpan bytes,
                                      RemoteHead::Part& part) {
  if (link.kind() != LinkKind::stream) {
    GANTRY_ASSIGN(const auto place, slabs_.find(link, one.message, bytes));
    if (place) {
      part.region = place->region;
      part.offset = place->offset;
      return {};
    }
  }
  GANTRY_ASSIGN(Export exported, link.export_memory(as_memory(bytes), RemoteAccess::read));
  part.region = exported.remote();
  one.exports.push_back(std::move(exported));
  return {};
}

Result<void> SendingSide::tell_end() {
  if (!ended_ || has_told_end_ || !unacknowledged_.empty()) return {};
  has_told_end_ = true;
  speech_.say(say_error(RemoteKind::ended, *ended_));
  GANTRY_REMOTE_STEP(end_told);
  return {};
}

int SendingSide::event(const Link& link) {
  return takes_more(link) ? source_->event_descriptor().value_or(-1) : -1;
}

}  // namespace gantry
