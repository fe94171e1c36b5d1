#include <fcntl.h>
#include <sys/stat.h>

#include <gantry/pipeline.hpp>

#include "base/fd.hpp"
#include "base/result.hpp"

// Files as sources and sinks: each read and write stands for itself, so that chunks, halos and
// threads need no common position.
namespace gantry {
namespace {

struct OpenFile {
  std::shared_ptr<const Fd> descriptor;
  std::uint64_t size = 0;
  std::array<std::uint64_t, 3> range{};
};

Result<OpenFile> open_file(const std::string& path, int flags, std::uint64_t offset) {
  Fd descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (descriptor.get() < 0) return fail_errno(fmt::format("file '{}'", path));
  struct stat facts{};
  if (::fstat(descriptor.get(), &facts) != 0) return fail_errno(fmt::format("file '{}'", path));
  if (!S_ISREG(facts.st_mode))
    return fail(Code::invalid_argument, fmt::format("file '{}': not a regular file", path));
  return OpenFile{std::make_shared<const Fd>(std::move(descriptor)),
                  static_cast<std::uint64_t>(facts.st_size),
                  {facts.st_dev, facts.st_ino, offset}};
}

Result<void> read_at(const std::string& path, int descriptor, std::uint64_t offset, ByteSpan to) {
  const Bytes wanted = to.size();
  const std::uint64_t begin = offset;
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(fmt::format("reading file '{}'", path));
    if (got == 0)
      return fail(Code::system,
                  fmt::format("file '{}': {} of {} bytes are there from offset {} on", path,
                              wanted - to.size(), wanted, begin),
                  "it was cut short while it was read");
    to = to.subspan(static_cast<Bytes>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<void> write_at(const std::string& path, int descriptor, std::uint64_t offset,
                      ConstByteSpan from) {
  while (!from.empty()) {
    const ssize_t put = ::pwrite(descriptor, from.data(), from.size(), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return fail_errno(fmt::format("writing file '{}'", path));
    from = from.subspan(static_cast<Bytes>(put));
    offset += static_cast<std::uint64_t>(put);
  }
  return {};
}

}  // namespace

Result<PipelineSource> PipelineSource::file(const std::string& path, std::uint64_t offset,
                                            std::uint64_t size) {
  return guarded([&]() -> Result<PipelineSource> {
    GANTRY_ASSIGN(const OpenFile open, open_file(path, O_RDONLY, offset));
    if (offset > open.size || size > open.size - offset)
      return fail(Code::invalid_argument,
                  fmt::format("file '{}': {} bytes from offset {} on do not lie in its {} bytes",
                              path, size, offset, open.size));
    PipelineSource source =
        reader(size != 0 ? size : open.size - offset,
               [path, offset, descriptor = open.descriptor](std::uint64_t at, ByteSpan to) {
                 return read_at(path, descriptor->get(), offset + at, to);
               });
    source.name = fmt::format("file '{}'", path);
    source.file_range = open.range;
    return source;
  });
}

Result<PipelineSink> PipelineSink::file(const std::string& path, std::uint64_t size,
                                        std::uint64_t offset) {
  return guarded([&]() -> Result<PipelineSink> {
    GANTRY_ASSIGN(const OpenFile open, open_file(path, O_RDWR | O_CREAT, offset));
    if (open.size < offset + size &&
        ::ftruncate(open.descriptor->get(), static_cast<off_t>(offset + size)) != 0)
      return fail_errno(fmt::format("file '{}': making room for {} bytes", path, offset + size));
    PipelineSink sink = writer(
        size, [path, offset, descriptor = open.descriptor](std::uint64_t at, ConstByteSpan from) {
          return write_at(path, descriptor->get(), offset + at, from);
        });
    sink.name = fmt::format("file '{}'", path);
    sink.file_range = open.range;
    return sink;
  });
}

}  // namespace gantry
