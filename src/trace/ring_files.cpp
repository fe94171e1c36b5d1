#include "trace/ring_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <charconv>

namespace gantry::trace {
namespace {

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

std::optional<RingOwner> owner_of(std::string_view file) {
  RingOwner owner;
  const char* const end = file.data() + file.size();
  const auto pid = std::from_chars(file.data(), end, owner.pid);
  if (pid.ec != std::errc() || pid.ptr == end || *pid.ptr != '-' || owner.pid <= 0)
    return std::nullopt;
  const auto start = std::from_chars(pid.ptr + 1, end, owner.start_time);
  if (start.ec != std::errc() || start.ptr == end || *start.ptr != '-') return std::nullopt;
  std::uint64_t which = 0;
  const auto number = std::from_chars(start.ptr + 1, end, which);
  if (number.ec != std::errc() || number.ptr != end) return std::nullopt;
  return owner;
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
