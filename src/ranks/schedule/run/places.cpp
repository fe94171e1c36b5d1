#include "ranks/schedule/run/places.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <gantry/device.hpp>

#include "core/base/assert.hpp"
#include "core/base/result.hpp"
#include "net/remote/words.hpp"

namespace gantry {
namespace {

constexpr Bytes kSignalPlaceBytes = 8;
constexpr std::size_t kEntryBytes = 4 + RemoteRegion::kEncodedBytes + std::size_t{2} * 8;
constexpr std::size_t kMostAbout = 160;  // of what a plan says of itself
constexpr std::size_t kEntriesOfMessage =
    (RankMessage::kMostPayload - 4 - 2 - kMostAbout) / kEntryBytes;

Bytes row_bytes_of(const PlanTensor& tensor) noexcept {
  return static_cast<Bytes>(tensor.cols) * element_bytes(tensor);
}

Bytes extent_of(const PlanMemory& memory, const PlanTensor& tensor) noexcept {
  return tensor.rows == 0
             ? 0
             : static_cast<Bytes>(tensor.rows - 1) * memory.stride + row_bytes_of(tensor);
}

// Without the parts, between commas, that both begin or end with.
std::pair<std::string_view, std::string_view> what_differs(std::string_view one,
                                                           std::string_view other) {
  constexpr std::string_view kComma = ", ";
  const auto first_of = [&](std::string_view text) { return text.substr(0, text.find(kComma)); };
  while (one != other && first_of(one) == first_of(other) && first_of(one) != one &&
         first_of(other) != other) {
    one.remove_prefix(first_of(one).size() + kComma.size());
    other.remove_prefix(first_of(other).size() + kComma.size());
  }
  const auto last_of = [&](std::string_view text) {
    const auto comma = text.rfind(kComma);
    return comma == text.npos ? std::string_view() : text.substr(comma);
  };
  while (!last_of(one).empty() && last_of(one) == last_of(other)) {
    one.remove_suffix(last_of(one).size());
    other.remove_suffix(last_of(other).size());
  }
  return {one, other};
}

bool is_within(const PlanMemory& memory, const PlanTensor& tensor) noexcept {
  if (memory.region == nullptr || memory.data == nullptr) return true;
  const auto first = reinterpret_cast<std::uintptr_t>(memory.data);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.region->data());
  const Bytes size = memory.region->size();
  const Bytes extent = extent_of(memory, tensor);
  return first >= begin && first - begin <= size && extent <= size - (first - begin);
}

/// Which tensors of a rank those steps touch that count.
template <class Counts>
std::vector<bool> touched(const Plan& plan, unsigned rank, Counts counts) {
  std::vector<bool> is_touched(plan.tensors.size());
  for (const PlanStep& step : plan.steps) {
    if (!counts(step)) continue;
    visit_places(step, [&](const PlanPlace& place) {
      if (place.rank == rank) is_touched[place.tensor] = true;
    });
  }
  return is_touched;
}

}  // namespace

// FNV-1a, 64 bit, of the plan's text, which is the same wherever the plan is.
std::uint64_t hash_of(const Plan& plan) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : to_text(plan)) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

Result<PlanPlaces> PlanPlaces::of(const Plan& plan, unsigned rank,
                                  std::span<const PlanMemory> memory) {
  PlanPlaces places(plan);
  places.rank_ = rank;
  places.memory_.assign(memory.begin(), memory.end());
  places.memory_.resize(plan.tensors.size());
  const auto needed = touched(plan, rank, [](const PlanStep&) { return true; });
  const auto is_moved =
      touched(plan, rank, [](const PlanStep& step) { return step.verb != PlanVerb::gemm; });
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    PlanMemory& own = places.memory_[i];
    const PlanTensor& tensor = plan.tensors[i];
    const auto wrong = [&](const char* why, std::string hint) {
      return fail(Code::invalid_argument,
                  fmt::format("rank {}, tensor {}: {}", rank, tensor.name, why), std::move(hint));
    };
    if (own.buffer != nullptr && (own.data != nullptr || is_moved[i]))
      return wrong("it lies on the device, and not only products touch it",
                   "the host's memory is for what moves");
    const bool is_empty = tensor.rows * tensor.cols == 0;
    if (needed[i] && own.data == nullptr && own.buffer == nullptr && !is_empty)
      return wrong("no memory, and the plan has steps on it", "PlanBuffers::make() makes some");
    if (own.stride == 0) own.stride = row_bytes_of(tensor);
    if (own.stride < row_bytes_of(tensor) || own.stride % element_bytes(tensor) != 0)
      return wrong("its stride is no row's length",
                   fmt::format("at least {} bytes, a multiple of {}", row_bytes_of(tensor),
                               element_bytes(tensor)));
    if (own.buffer != nullptr && own.buffer->size() < extent_of(own, tensor))
      return wrong("its buffer is too small", "rows and their gaps lie in it");
    if (!is_within(own, tensor))
      return wrong("it does not lie in its region", "PlanMemory::region holds all of it");
    if (!is_empty && reinterpret_cast<std::uintptr_t>(own.data) % element_bytes(tensor) != 0)
      return wrong("its elements are not aligned", "begin at a multiple of their size");
  }
  places.remote_.assign(plan.ranks, std::vector<std::optional<Remote>>(plan.tensors.size() + 1));
  places.expected_.resize(plan.ranks);
  places.heard_.resize(plan.ranks);
  places.signal_place_ = std::make_unique<std::byte[]>(kSignalPlaceBytes);
  return places;
}

// ---- who may reach what ----------------------------------------------------------------------

// The other rank reaches what its own transfers name. What this rank puts out of a region goes
// quickest if that is exported whole.
Result<std::vector<std::pair<unsigned, PlanPlaces::Remote>>> PlanPlaces::export_to(Link& link,
                                                                                   unsigned peer) {
  std::vector<std::pair<unsigned, Remote>> entries;
  std::vector<std::pair<const Region*, RemoteRegion>> regions;
  const auto theirs =
      touched(*plan_, rank_, [&](const PlanStep& step) { return step.rank == peer; });
  const auto ours =
      touched(*plan_, rank_, [&](const PlanStep& step) { return step.rank == rank_; });
  for (unsigned i = 0; i < plan_->tensors.size(); ++i) {
    const PlanMemory& own = memory_[i];
    const PlanTensor& tensor = plan_->tensors[i];
    const Bytes bytes = extent_of(own, tensor);
    if (own.data == nullptr || bytes == 0 || (!theirs[i] && (!ours[i] || own.region == nullptr)))
      continue;
    if (own.region == nullptr) {
      GANTRY_ASSIGN(Export made, link.export_memory({own.data, bytes}, RemoteAccess::read_write));
      entries.push_back({i, {made.remote(), 0, own.stride}});
      exports_.push_back(std::move(made));
      continue;
    }
    auto known =
        std::ranges::find(regions, own.region, [](const auto& pair) { return pair.first; });
    if (known == regions.end()) {
      GANTRY_ASSIGN(Export made, link.export_region(*own.region, RemoteAccess::read_write));
      regions.emplace_back(own.region, made.remote());
      known = regions.end() - 1;
      exports_.push_back(std::move(made));
    }
    if (!theirs[i]) continue;
    entries.push_back(
        {i, {known->second, static_cast<Bytes>(own.data - own.region->data()), own.stride}});
  }
  GANTRY_ASSIGN(Export place,
                link.export_memory({signal_place_.get(), kSignalPlaceBytes}, RemoteAccess::write));
  entries.push_back({static_cast<unsigned>(plan_->tensors.size()), {place.remote(), 0, 0}});
  exports_.push_back(std::move(place));
  return entries;
}

Result<void> PlanPlaces::tell(Group::Impl& group, unsigned peer, std::uint64_t plan_hash) {
  GANTRY_ASSIGN(const auto entries, export_to(group.link(peer), peer));
  for (std::size_t first = 0; first < entries.size(); first += kEntriesOfMessage) {
    WordWriter out;
    out.number(entries.size(), 4);
    out.text(plan_->about, kMostAbout);
    const std::size_t last = std::min(first + kEntriesOfMessage, entries.size());
    for (std::size_t i = first; i < last; ++i) {
      out.number(entries[i].first, 4);
      out.bytes(entries[i].second.region.encode());
      out.number(entries[i].second.offset);
      out.number(entries[i].second.stride);
    }
    GANTRY_TRY(
        group.say(peer, {RankMessage::Kind::prepare, group.operation(), plan_hash, out.take()}));
  }
  return {};
}

// The far end's word is bounded here; its link refuses what is not exported.
Result<void> PlanPlaces::hear(unsigned peer, const RankMessage& message) {
  const auto misbehaved = [&] {
    return fail(Code::peer_misbehaved, fmt::format("rank {}: it names memory that is none", peer));
  };
  WordReader in(message.payload);
  expected_[peer] = in.number(4, plan_->tensors.size() + 1);
  static_cast<void>(in.text(kMostAbout));
  if (expected_[peer] == 0) return misbehaved();
  while (in.is_fine() && !in.rest().empty()) {
    const auto tensor = in.number(4, plan_->tensors.size());
    RemoteRegion::Encoded encoded{};
    in.bytes(encoded);
    const auto region = RemoteRegion::decode(encoded);
    Remote place;
    place.offset = in.number();
    place.stride = in.number();
    if (!in.is_fine() || !region || place.offset > region->bytes ||
        ++heard_[peer] > expected_[peer])
      return misbehaved();
    place.region = *region;
    remote_[peer][tensor] = place;
  }
  return in.is_fine() ? Result<void>{} : misbehaved();
}

// The same at both ranks.
Error PlanPlaces::difference(const Group::Impl& group, unsigned peer,
                             const RankMessage& message) const {
  WordReader in(message.payload);
  static_cast<void>(in.number(4));
  const std::string theirs = in.text(kMostAbout);
  const std::string own = plan_->about.substr(0, kMostAbout);
  const bool is_first = rank_ < peer;
  const auto [of_own, of_theirs] = what_differs(own, theirs);
  if (own == theirs)
    return {Code::invalid_argument,
            fmt::format("{} have different plans, both of which are called '{}'",
                        group.pair_with(peer), own),
            "compare sizes, types, splits, options and the versions of the program"};
  return {Code::invalid_argument,
          fmt::format("{} have different plans: '{}' at rank {}, '{}' at rank {}",
                      group.pair_with(peer), is_first ? of_own : of_theirs, std::min(rank_, peer),
                      is_first ? of_theirs : of_own, std::max(rank_, peer)),
          "give every rank the same sizes, types and options"};
}

// Every place that this rank's transfers name is known.
Result<void> PlanPlaces::check_heard() const {
  for (const PlanStep& step : plan_->steps) {
    if (step.rank != rank_ || (step.verb != PlanVerb::put && step.verb != PlanVerb::get)) continue;
    const PlanPlace& theirs = step.verb == PlanVerb::put ? step.to : step.from;
    if (theirs.rect.rows > 0 && theirs.rect.cols > 0 && !remote_[theirs.rank][theirs.tensor])
      return fail(Code::peer_misbehaved,
                  fmt::format("rank {} does not say where its tensor {} is", theirs.rank,
                              plan_->tensors[theirs.tensor].name));
  }
  for (unsigned peer = 0; peer < remote_.size(); ++peer)
    if (peer != rank_ && !remote_[peer].back())
      return fail(Code::peer_misbehaved,
                  fmt::format("rank {} did not name a place for signals", peer));
  return {};
}

Result<void> PlanPlaces::exchange(Group::Impl& group, std::uint64_t plan_hash, Deadline deadline) {
  // What failed while this rank was elsewhere is heard before a link says that it has ended.
  GANTRY_TRY(group.serve());
  for (unsigned peer = 0; peer < group.ranks(); ++peer)
    if (peer != rank_) GANTRY_TRY(tell(group, peer, plan_hash));
  for (;;) {
    GANTRY_ASSIGN(const bool has_moved, group.serve());
    std::optional<unsigned> missing;
    for (unsigned peer = 0; peer < group.ranks(); ++peer) {
      if (peer == rank_) continue;
      while (expected_[peer] == 0 || heard_[peer] < expected_[peer]) {
        GANTRY_ASSIGN(const auto message, group.take(peer, RankMessage::Kind::prepare));
        if (!message) break;
        if (message->word != plan_hash) return tl::unexpected(difference(group, peer, *message));
        GANTRY_TRY(hear(peer, *message));
      }
      if (expected_[peer] == 0 || heard_[peer] < expected_[peer]) missing = peer;
    }
    if (!missing) return check_heard();
    if (deadline.passed())
      return fail(Code::timed_out,
                  fmt::format("rank {} did not prepare the plan in time", *missing));
    if (has_moved) continue;
    group.report().show_missing(std::array{*missing});
    group.sleep(-1, deadline);
  }
}

// ---- places of steps -------------------------------------------------------------------------

LocalRect PlanPlaces::local(const PlanPlace& place) const noexcept {
  const PlanMemory& own = memory_[place.tensor];
  const Bytes element = element_bytes(plan_->tensors[place.tensor]);
  return {own.data == nullptr ? nullptr
                              : own.data + static_cast<Bytes>(place.rect.row) * own.stride +
                                    static_cast<Bytes>(place.rect.col) * element,
          static_cast<Bytes>(place.rect.rows), static_cast<Bytes>(place.rect.cols) * element,
          own.stride};
}

Transfer PlanPlaces::signal_place(unsigned peer, std::uint64_t signal) const noexcept {
  GANTRY_DEBUG_ASSERT(peer != rank_);
  return {.local = signal_place_.get(), .remote = remote_[peer].back()->region, .signal = signal};
}

Transfer PlanPlaces::transfer(const PlanStep& step, std::uint64_t signal) const noexcept {
  const bool is_put = step.verb == PlanVerb::put;
  const PlanPlace& theirs = is_put ? step.to : step.from;
  const LocalRect here = local(is_put ? step.from : step.to);
  GANTRY_DEBUG_ASSERT(step.rank == rank_ && theirs.rank != rank_);
  if (here.rows == 0 || here.row_bytes == 0) return signal_place(theirs.rank, signal);
  const Remote& there = *remote_[theirs.rank][theirs.tensor];
  const Bytes element = element_bytes(plan_->tensors[theirs.tensor]);
  Transfer transfer{.local = here.data,
                    .remote = there.region,
                    .remote_offset = there.offset +
                                     static_cast<Bytes>(theirs.rect.row) * there.stride +
                                     static_cast<Bytes>(theirs.rect.col) * element,
                    .rows = here.rows,
                    .row_bytes = here.row_bytes,
                    .local_stride = here.stride,
                    .remote_stride = there.stride,
                    .signal = signal};
  if (here.stride == here.row_bytes && there.stride == here.row_bytes) {
    transfer.row_bytes *= transfer.rows;
    transfer.local_stride = transfer.remote_stride = transfer.row_bytes;
    transfer.rows = 1;
  }
  return transfer;
}

}  // namespace gantry
