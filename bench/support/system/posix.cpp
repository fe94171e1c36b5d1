#include "posix.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tools/command_line/limits.hpp"

namespace gantry::bench {
namespace {

const char* mend_of(int number) {
  const bool is_full = number == ENOSPC || number == EDQUOT;
  return is_full ? "make room, or set TMPDIR to a folder of another disk"
                 : cli::mend_of_limit(number);
}

}  // namespace

Error system_error(std::string_view what, int number) {
  return {Code::system, fmt::format("{}: {}", what, std::strerror(number)), mend_of(number)};
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    reset();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void Descriptor::reset() noexcept {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

Result<void> write_all(int descriptor, ConstByteSpan bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (written < 0 && errno == EPIPE) return Unexpected({Code::peer_gone, "the reader left", ""});
    if (written < 0) return Unexpected(system_error("write"));
    bytes = bytes.subspan(static_cast<Bytes>(written));
  }
  return {};
}

Result<void> read_all(int descriptor, ByteSpan bytes) {
  while (!bytes.empty()) {
    const auto got = ::read(descriptor, bytes.data(), bytes.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return Unexpected(system_error("read"));
    if (got == 0) return Unexpected({Code::peer_gone, "the writer left", ""});
    bytes = bytes.subspan(static_cast<Bytes>(got));
  }
  return {};
}

Result<ScratchDirectory> ScratchDirectory::create() {
  std::error_code failed;
  const auto base = std::filesystem::temp_directory_path(failed);
  if (failed) {
    return Unexpected({Code::not_found, fmt::format("temporary directory: {}", failed.message()),
                       "set TMPDIR to a folder you can write to"});
  }
  std::string path = base / "gantry-bench-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return Unexpected(system_error(path));
  return ScratchDirectory(std::move(path));
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;  // nothing can be done about it, and nothing of value is lost
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace gantry::bench
