#include "output_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace vision {
namespace {

namespace fs = std::filesystem;

auto refuse(const fs::path& path, int error) {
  const char* hint = error == ENOSPC || error == EDQUOT
                         ? "make room on that disk, or choose another folder"
                         : "choose a folder that you can write to";
  return tl::unexpected(
      gantry::Error{gantry::Code::system, path.string() + ": " + std::strerror(error), hint});
}

/// 0, or errno.
int write_all(int descriptor, ConstByteSpan content) {
  while (!content.empty()) {
    const auto written = ::write(descriptor, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    content = content.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Some file systems report a full disk only when the data is flushed or the file closed.
int finish(int descriptor) {
  const int flushed = ::fsync(descriptor) == 0 ? 0 : errno;
  const int closed = ::close(descriptor) == 0 ? 0 : errno;
  return flushed != 0 ? flushed : closed;
}

int write_new(const fs::path& file, ConstByteSpan content) {
  const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  const int written = write_all(descriptor, content);
  const int finished = finish(descriptor);
  return written != 0 ? written : finished;
}

}  // namespace

Result<void> prepare_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return refuse(folder, error.value());
  if (!fs::is_directory(folder, error)) return refuse(folder, ENOTDIR);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return refuse(folder, errno);
  return {};
}

Result<void> write_file(const fs::path& file, ConstByteSpan content) {
  auto part = file;
  part += '.';
  part += std::to_string(::getpid());
  part += ".part";
  int error = write_new(part, content);
  if (error == 0 && ::rename(part.c_str(), file.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(part.c_str());
  return refuse(file, error);
}

}  // namespace vision
