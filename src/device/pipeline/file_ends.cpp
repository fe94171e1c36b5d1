#include "device/pipeline/file_ends.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "core/base/os/file_size.hpp"

// Files as sources and sinks. Each read and write names its offset, so chunks, halos and threads
// need no common position.
namespace gantry {
namespace {

using Argument = PipelineJob::Argument;

struct FoundFile {
  std::shared_ptr<const OpenFile> file;
  std::uint64_t size = 0;
  std::array<std::uint64_t, 3> range{};
};

Result<FoundFile> open_file(const std::string& path, int flags, std::uint64_t offset) {
  const std::string name = fmt::format("file '{}'", path);
  // O_NONBLOCK: the file may be a pipe, whose other end is not waited for.
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
  if (descriptor < 0) return fail_errno(name);
  auto file = std::make_shared<const OpenFile>(descriptor, name);
  struct stat facts{};
  if (::fstat(descriptor, &facts) != 0) return fail_errno(name);
  if (!S_ISREG(facts.st_mode)) return fail(Code::invalid_argument, name + ": not a regular file");
  if (::fcntl(descriptor, F_SETFL, flags & O_ACCMODE) != 0) return fail_errno(name);
  return FoundFile{std::move(file),
                   static_cast<std::uint64_t>(facts.st_size),
                   {facts.st_dev, facts.st_ino, offset}};
}

Result<void> make_room(const OpenFile& file, std::uint64_t bytes) {
  const std::string what = fmt::format("{}: making room for {} bytes", file.name(), bytes);
  return set_file_size(file.descriptor(), bytes, what);
}

bool is_read(const Argument& array) noexcept {
  return array.reads() && array.source.kind == PipelineSource::Kind::file;
}
bool is_written(const Argument& array) noexcept {
  return array.writes() && array.sink.kind == PipelineSink::Kind::file;
}

}  // namespace

Result<PipelineSource> PipelineSource::file(const std::string& path, std::uint64_t offset,
                                            std::uint64_t size) {
  return guarded([&]() -> Result<PipelineSource> {
    GANTRY_ASSIGN(const FoundFile found, open_file(path, O_RDONLY, offset));
    if (offset > found.size || size > found.size - offset)
      return fail(Code::invalid_argument,
                  fmt::format("file '{}': {} bytes from offset {} on do not lie in its {} bytes",
                              path, size, offset, found.size));
    return PipelineSource{.kind = Kind::file,
                          .size = size != 0 ? size : found.size - offset,
                          .opened = found.file,
                          .name = found.file->name(),
                          .file_range = found.range};
  });
}

Result<PipelineSink> PipelineSink::file(const std::string& path, std::uint64_t size,
                                        std::uint64_t offset) {
  return guarded([&]() -> Result<PipelineSink> {
    constexpr std::uint64_t kMost = std::numeric_limits<off_t>::max();
    if (size > kMost || offset > kMost - size)
      return fail(Code::invalid_argument,
                  fmt::format("file '{}': {} bytes from offset {} on are more than files have",
                              path, size, offset));
    GANTRY_ASSIGN(const FoundFile found, open_file(path, O_RDWR | O_CREAT, offset));
    if (found.size < offset + size) GANTRY_TRY(make_room(*found.file, offset + size));
    return PipelineSink{.kind = Kind::file,
                        .size = size,
                        .opened = found.file,
                        .name = found.file->name(),
                        .file_range = found.range};
  });
}

FileTransfer read_of(const PipelineSource& source, std::uint64_t at, ByteSpan to,
                     std::shared_ptr<const void> keep) {
  return {FileTransfer::Kind::read, source.opened, source.file_range[2] + at, to, std::move(keep)};
}

FileTransfer write_of(const PipelineSink& sink, std::uint64_t at, ByteSpan from,
                      std::shared_ptr<const void> keep) {
  return {FileTransfer::Kind::write, sink.opened, sink.file_range[2] + at, from, std::move(keep)};
}

Result<std::unique_ptr<FileLane>> open_file_lane(const Device& device,
                                                 const std::shared_ptr<FileIo>& by_hand,
                                                 FileTransfer::Kind serving, std::string& how) {
  const auto& wanted = by_hand != nullptr ? by_hand : device.file_io();
  std::string why;
  if (wanted != nullptr) {
    auto lane = wanted->open_lane(serving);
    how = wanted->about();
    if (lane || by_hand != nullptr) return lane;
    why = lane.error().message;
  }
  GANTRY_ASSIGN(const auto plain, make_plain_file_io(std::move(why)));
  how = plain->about();
  return plain->open_lane(serving);
}

Result<void> transfer_now(FileLane& lane, const FileTransfer& transfer, Deadline limit) {
  GANTRY_ASSIGN(const Ticket ticket, lane.submit(transfer));
  return lane.wait(ticket, limit);
}

Result<FileLanes> FileLanes::open(const Device& device, const PipelineJob& job,
                                  const PipelineOptions& options, PipelinePlan& plan) {
  FileLanes lanes;
  std::string how;
  if (std::ranges::any_of(job.arguments(), is_read)) {
    GANTRY_ASSIGN(lanes.in, open_file_lane(device, options.file_io, FileTransfer::Kind::read, how));
  }
  if (std::ranges::any_of(job.arguments(), is_written)) {
    GANTRY_ASSIGN(lanes.out,
                  open_file_lane(device, options.file_io, FileTransfer::Kind::write, how));
  }
  if (!how.empty()) plan.reasons.push_back("files go by " + how);
  return lanes;
}

void FileLanes::cancel() noexcept {
  if (in != nullptr) in->cancel();
  if (out != nullptr) out->cancel();
}

void FileLanes::drain(Deadline limit) noexcept {
  if (in != nullptr) static_cast<void>(in->drain(limit));
  if (out != nullptr) static_cast<void>(out->drain(limit));
}

}  // namespace gantry
