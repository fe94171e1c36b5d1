#include "trace/ring_reader.hpp"

#include <bit>
#include <cstring>

namespace gantry::trace {
namespace {

struct Header {
  std::uint32_t version, cells;
  std::uint64_t magic, run, start_time;
  std::int32_t pid;
  std::uint8_t kind, has_ticks;
};

Header read_header(ConstByteSpan bytes) noexcept {
  Header header{};
  const auto take = [bytes](auto& into, Bytes offset) {
    std::memcpy(&into, bytes.data() + offset, sizeof into);
  };
  take(header.magic, offsetof(RingHeader, magic));
  take(header.version, offsetof(RingHeader, version));
  take(header.cells, offsetof(RingHeader, cells));
  take(header.run, offsetof(RingHeader, run));
  take(header.start_time, offsetof(RingHeader, start_time));
  take(header.pid, offsetof(RingHeader, pid));
  take(header.kind, offsetof(RingHeader, kind));
  take(header.has_ticks, offsetof(RingHeader, has_ticks));
  return header;
}

Result<void> check_header(const Header& header, Bytes bytes) {
  const auto refuse = [](std::string_view why) {
    return fail(Code::invalid_argument, std::string(why));
  };
  if (header.magic != RingHeader::kMagic) return refuse("it is no ring of events");
  if (header.version != kVersion)
    return refuse(fmt::format("version {}, not {}", header.version, kVersion));
  if (!std::has_single_bit(header.cells) || header.cells > RecordingOptions::kMostEvents)
    return refuse(fmt::format("a ring of {} events", header.cells));
  if ((bytes - kHeaderBytes) / sizeof(Ring::Cell) < header.cells) return refuse("it is cut off");
  if (header.pid <= 0) return refuse(fmt::format("process {}", header.pid));
  if (header.kind < static_cast<std::uint8_t>(EndKind::producer) ||
      header.kind > static_cast<std::uint8_t>(EndKind::queue))
    return refuse(fmt::format("an end of kind {}", header.kind));
  return {};
}

}  // namespace

Result<RingReader> RingReader::of(ConstByteSpan start, Bytes file_bytes) {
  if (file_bytes == kNoRoomBytes)
    return fail(Code::invalid_argument, "there was no room for it",
                "make room on the disk of the runtime directory");
  if (start.size() < kHeaderBytes || file_bytes < kHeaderBytes)
    return fail(Code::invalid_argument, "it is cut off");
  const Header header = read_header(start);
  GANTRY_TRY(check_header(header, file_bytes));
  RingReader reader;
  reader.run_ = header.run;
  reader.cells_ = header.cells;
  reader.has_ticks_ = header.has_ticks != 0;
  std::array<char, RingHeader::kProcessBytes> process{};
  std::array<char, RingHeader::kNameBytes> name{};
  std::memcpy(process.data(), start.data() + offsetof(RingHeader, process), process.size());
  std::memcpy(name.data(), start.data() + offsetof(RingHeader, name), name.size());
  reader.ring_.start_time = header.start_time;
  reader.ring_.process = text_of(process);
  Track& track = reader.ring_.track;
  track.kind = static_cast<EndKind>(header.kind);
  track.channel = text_of(name);
  track.pid = header.pid;
  return reader;
}

Result<std::uint64_t> RingReader::begin(const RingProgress& now) {
  if (now.head < progress_.head)
    return fail(Code::invalid_argument, "somebody wrote nonsense into it: its head went back");
  progress_ = now;
  return std::max(next_, now.head - std::min(now.head, cells_));
}

// What the writer did meanwhile: as OverwritingRing::read(), of a copy. An event that is not whole
// yet stops the taking, unless the ring is half full of newer ones: its writer was killed.
void RingReader::take(const RingCopies& copies, bool is_last, std::uint64_t& room) {
  next_ = copies.first;
  for (ConstByteSpan left = copies.cells; left.size() >= sizeof(Ring::Cell);
       left = left.subspan(sizeof(Ring::Cell))) {
    std::uint64_t stamp = 0;
    std::memcpy(&stamp, left.data(), sizeof stamp);
    const std::uint64_t newer = copies.head_after - next_;
    const bool is_whole = stamp == next_ + 1;
    if (!is_whole && !is_last && newer <= cells_ / 2) return;
    if (is_whole && newer <= cells_ && room > 0) {
      std::memcpy(taken_.emplace_back().data(), left.data() + sizeof stamp, sizeof(Ring::Event));
      --room;
    }
    ++next_;
  }
}

DecodedRing RingReader::finish(const TimeScale& time) {
  TimeScale scale = time;
  if (!has_ticks_) scale.ns_per_tick = 0;
  Track& track = ring_.track;
  for (; !taken_.empty(); taken_.pop_front())
    if (auto event = decode_event(taken_.front(), progress_.channel, scale))
      track.events.push_back(std::move(*event));
  track.is_closed = progress_.closed == 1;
  track.written = progress_.head;
  track.lost = track.written - track.events.size();
  if (progress_.waits_since != 0)
    ring_.open_wait = decode_event(
        {progress_.waits_since, 0, progress_.waits_for & 0xffff, 0, 0, progress_.waits_for >> 32},
        0, scale);
  return std::move(ring_);
}

}  // namespace gantry::trace
