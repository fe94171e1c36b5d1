#include "core/trace/ring_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <bit>
#include <cstring>

#include "core/base/assert.hpp"
#include "core/base/text_lines.hpp"

namespace gantry::trace {
namespace {

/// The constant front of a RingHeader.
struct Header {
  std::uint64_t magic;
  std::uint32_t version, cells;
  std::uint64_t run, start_time;
  std::int32_t pid;
  std::uint8_t kind, has_ticks;
  std::array<char, RingHeader::kProcessBytes> process;
  std::array<char, RingHeader::kNameBytes> name;
};
static_assert(offsetof(Header, run) == offsetof(RingHeader, run) &&
              offsetof(Header, process) == offsetof(RingHeader, process) &&
              offsetof(Header, name) == offsetof(RingHeader, name));

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

/// As much as there is, from `offset`.
Result<Bytes> read_at(int file, std::span<std::byte> into, Bytes offset) {
  Bytes done = 0;
  while (done < into.size()) {
    const auto got =
        ::pread(file, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0) return fail_errno("reading it");
    if (got == 0) break;
    done += static_cast<Bytes>(got);
  }
  return done;
}

tl::unexpected<Error> cut_off() {
  return fail(Code::invalid_argument, "it is cut off",
              "leave the folder to the recording until it ends");
}

Result<void> read_whole(int file, std::span<std::byte> into, Bytes offset) {
  GANTRY_ASSIGN(const Bytes done, read_at(file, into, offset));
  return done == into.size() ? Result<void>() : cut_off();
}

Result<RingProgress> progress_of(int file) {
  static_assert(offsetof(RingHeader, channel) == offsetof(RingHeader, head) + 8 &&
                offsetof(RingHeader, waits_for) ==
                    offsetof(RingHeader, head) + offsetof(RingProgress, waits_for));
  RingProgress progress;
  GANTRY_TRY(read_whole(file, std::as_writable_bytes(std::span(&progress, 1)),
                        offsetof(RingHeader, head)));
  return progress;
}

}  // namespace

// ---- one ring ------------------------------------------------------------------------------

Result<RingReader> RingReader::of(ConstByteSpan start, Bytes file_bytes) {
  if (file_bytes == kNoRoomBytes)
    return fail(Code::invalid_argument, "there was no room for it",
                "make room on the disk of the runtime directory");
  if (start.size() < kHeaderBytes || file_bytes < kHeaderBytes)
    return fail(Code::invalid_argument, "it is cut off");
  Header header{};
  std::memcpy(&header, start.data(), sizeof header);
  GANTRY_TRY(check_header(header, file_bytes));
  RingReader reader;
  reader.run_ = header.run;
  reader.cells_ = header.cells;
  reader.has_ticks_ = header.has_ticks != 0;
  reader.ring_.start_time = header.start_time;
  reader.ring_.process = text_of(header.process);
  Track& track = reader.ring_.track;
  track.kind = static_cast<EndKind>(header.kind);
  track.channel = text_of(header.name);
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
  GANTRY_ASSERT(copies.first >= next_);  // no event is taken twice
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

// ---- the files -----------------------------------------------------------------------------

std::optional<RingOwner> owner_of(std::string_view file) {
  const auto first = file.find('-');
  const auto second = first == file.npos ? first : file.find('-', first + 1);
  if (second == file.npos) return std::nullopt;
  const auto pid = number_in<std::int32_t>(file.substr(0, first));
  const auto start = number_in<std::uint64_t>(file.substr(first + 1, second - first - 1));
  if (!pid || *pid <= 0 || !start || !number_in<std::uint64_t>(file.substr(second + 1)))
    return std::nullopt;
  return RingOwner{*pid, *start};
}

// One file under several names would be read as often.
Result<void> RingFiles::open(int folder, const std::string& name, File& file) {
  Fd opened(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat facts{};
  if (!opened || ::fstat(opened.get(), &facts) != 0) return fail_errno(name);
  const auto size = static_cast<Bytes>(facts.st_size);
  if (!S_ISREG(facts.st_mode) || size > kMostRingBytes)
    return fail(Code::invalid_argument, "it is no ring of events");
  if (facts.st_nlink > 1) return fail(Code::invalid_argument, "it has a second name");
  std::array<std::byte, kHeaderBytes> start{};
  GANTRY_ASSIGN(const Bytes got, read_at(opened.get(), start, 0));
  GANTRY_ASSIGN(auto reader, RingReader::of(std::span(start).first(got), size));
  if (reader.start_time() != file.owner.start_time || reader.pid() != file.owner.pid)
    return fail(Code::invalid_argument, "it is of another process than its name says");
  file.file = std::move(opened);
  file.reader = std::move(reader);
  file.error.reset();
  return {};
}

/// The cells of these events, which are at most a ring's.
Result<ConstByteSpan> RingFiles::copy(const File& file, std::uint64_t first, std::uint64_t head) {
  const std::uint64_t cells = file.reader->cells();
  copied_.resize((head - first) * sizeof(Ring::Cell));
  const std::uint64_t at = first & (cells - 1);
  const Bytes before_turn = std::min(head - first, cells - at) * sizeof(Ring::Cell);
  const std::span<std::byte> all(copied_);
  GANTRY_TRY(
      read_whole(file.file.get(), all.first(before_turn), kHeaderBytes + at * sizeof(Ring::Cell)));
  GANTRY_TRY(read_whole(file.file.get(), all.subspan(before_turn), kHeaderBytes));
  return all;
}

Result<void> RingFiles::read(File& file, bool is_last, std::uint64_t& room) {
  struct stat facts{};
  const Bytes whole = kHeaderBytes + file.reader->cells() * sizeof(Ring::Cell);
  if (::fstat(file.file.get(), &facts) != 0) return fail_errno("reading it");
  if (static_cast<Bytes>(facts.st_size) < whole) return cut_off();
  GANTRY_ASSIGN(const RingProgress now, progress_of(file.file.get()));
  const bool was_over = file.reader->is_over();  // before: the head is older than what follows it
  GANTRY_ASSIGN(const std::uint64_t first, file.reader->begin(now));
  RingCopies copies{room == 0 ? now.head : first, {}, now.head};
  if (copies.first != now.head) {
    GANTRY_ASSIGN(copies.cells, copy(file, copies.first, now.head));
    GANTRY_ASSIGN(const RingProgress after, progress_of(file.file.get()));
    copies.head_after = after.head;
  }
  file.reader->take(copies, is_last, room);
  if (was_over && file.reader->is_over()) file.file.reset();
  return {};
}

void RingFiles::drain(int folder, const std::vector<std::string>& names, std::uint64_t run,
                      bool is_last, std::uint64_t& room) {
  for (const std::string& name : names)
    if (const auto owner = owner_of(name)) files_.try_emplace(name, File{*owner, {}, {}, {}});
  for (auto& [name, file] : files_) {
    if (!file.reader)
      if (auto opened = open(folder, name, file); !opened) file.error = opened.error();
    if (!file.file) continue;  // it is over, or broken
    auto done = file.reader->run() == run ? read(file, is_last, room) : Result<void>();
    if (!done) file.error = std::move(done).error();
    if (file.error) file.file.reset();
    // It is closed and read: its pages go, of which a thread for each request would fill the disk.
    if (!file.file && !file.error) ::unlinkat(folder, name.c_str(), 0);
  }
  if (copied_.capacity() > RecordingOptions().events * sizeof(Ring::Cell)) copied_ = {};
}

void RingFiles::close() noexcept {
  for (auto& [name, file] : files_) file.file.reset();
}

void RingFiles::finish(std::uint64_t run, const TimeScale& time, const RingTaker& ring,
                       const ErrorTaker& error) {
  for (auto& [name, file] : files_) {
    if (file.reader && file.reader->run() == run) ring(file.owner, file.reader->finish(time));
    if (file.error) error(name, *file.error);
  }
}

}  // namespace gantry::trace
