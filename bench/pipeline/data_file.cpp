#include "data_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <stdexcept>

namespace gantry::bench {
namespace {

template <class Value>
Value value_of(Result<Value> result) {
  if (!result) throw std::runtime_error(to_string(result.error()));
  return *std::move(result);
}

void expect(bool is_done, const char* what) {
  if (!is_done) throw std::runtime_error(system_error(what).message);
}

// As a program does that has nothing but the calls of the system.
Result<void> move_all(ssize_t (*move)(int, std::byte*, std::size_t, off_t), int file,
                      std::uint64_t offset, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t moved = move(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0) return Unexpected(system_error("a file of the benchmark's"));
    if (moved == 0) return Unexpected({Code::system, "a file of the benchmark's ended", {}});
    bytes = bytes.subspan(static_cast<Bytes>(moved));
    offset += static_cast<std::uint64_t>(moved);
  }
  return {};
}
ssize_t read_some(int file, std::byte* to, std::size_t size, off_t offset) {
  return ::pread(file, to, size, offset);
}
ssize_t write_some(int file, std::byte* from, std::size_t size, off_t offset) {
  return ::pwrite(file, from, size, offset);
}
ByteSpan writable(ConstByteSpan bytes) noexcept {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};  // NOLINT: only read
}

}  // namespace

DataFile::DataFile()
    : folder_(value_of(ScratchDirectory::create())), path_(folder_.path() + "/data") {
  file_ = std::make_shared<Descriptor>(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  expect(file_->is_open(), path_.c_str());
}

void DataFile::write(ConstByteSpan bytes) const {
  const auto written = move_all(write_some, file_->get(), 0, writable(bytes));
  if (!written) throw std::runtime_error(to_string(written.error()));
}

bool DataFile::read(std::uint64_t offset, ByteSpan to) const {
  return move_all(read_some, file_->get(), offset, to).has_value();
}

void DataFile::prepare(Cache cache) const {
  if (cache == Cache::hot) return;
  expect(::fsync(file_->get()) == 0, "fsync");  // what is not written stays in the cache
  const int refused = ::posix_fadvise(file_->get(), 0, 0, POSIX_FADV_DONTNEED);
  if (refused != 0) throw std::runtime_error(system_error("posix_fadvise", refused).message);
}

void DataFile::empty() const {
  expect(::ftruncate(file_->get(), 0) == 0, "ftruncate");
}

PipelineSource DataFile::source(const Terms& terms) const {
  PipelineSource source = value_of(PipelineSource::file(path_));
  if (!terms.is_blocking) return source;
  return PipelineSource::reader(source.size, [file = file_](std::uint64_t at, ByteSpan to) {
    return move_all(read_some, file->get(), at, to);
  });
}

PipelineSink DataFile::sink(std::uint64_t size, const Terms& terms) const {
  PipelineSink sink = value_of(PipelineSink::file(path_, size));
  if (!terms.is_blocking) return sink;
  return PipelineSink::writer(size, [file = file_](std::uint64_t at, ConstByteSpan from) {
    return move_all(write_some, file->get(), at, writable(from));
  });
}

}  // namespace gantry::bench
