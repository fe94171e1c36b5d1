#include <algorithm>
#include <bit>

#include "base/result.hpp"
#include "remote/receiving_side.hpp"
#include "remote/remote_step.hpp"
#include "remote/sending_side.hpp"

// Where payload goes, and how it gets there.
namespace gantry {
namespace {

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
