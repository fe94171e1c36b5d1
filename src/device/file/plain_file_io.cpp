#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <gantry/file.hpp>

#include "core/base/os/fd.hpp"
#include "core/base/result.hpp"
#include "device/file/file_queue.hpp"

namespace gantry {
namespace {

// What devices and file systems want at most where the kernel does not tell (before 6.1).
constexpr Bytes kUsualAlignment = 4096;

/// Of direct reads of this open file; 0: it has none.
Bytes direct_alignment(int descriptor) noexcept {
#ifdef STATX_DIOALIGN
  struct statx facts{};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) == 0 &&
      (facts.stx_mask & STATX_DIOALIGN) != 0)
    return facts.stx_dio_offset_align == 0
               ? 0
               : Bytes{std::max(facts.stx_dio_offset_align, facts.stx_dio_mem_align)};
#endif
  return kUsualAlignment;
}

constexpr Bytes kPieceBytes = Bytes{1} << 20;  // a cancelled transfer ends after the next piece

void carry_out(FileWork& work, const FileQueue& queue) {
  for (;;) {
    if (queue.is_cancelled()) work.stop();
    const auto piece = work.next();
    if (!piece) return;
    work.ended(*piece, move_now(work.transfer(), *piece));
  }
}

void wait_for_bell(const FileQueue& queue) noexcept {
  pollfd wake_receiver{queue.wake_receiver(), POLLIN, 0};
  ::poll(&wake_receiver, 1, -1);
  drain(queue.wake_receiver());
}

void serve(FileQueue& queue) {
  for (;;) {
    // Asked before taking: after closing nothing comes.
    const bool is_last = queue.is_closed();
    const auto works = queue.take();
    for (const auto& work : works) {
      carry_out(*work, queue);
      queue.end(work);
    }
    if (is_last) return;
    if (works.empty()) wait_for_bell(queue);
  }
}

class PlainFileIo final : public FileIo {
 public:
  explicit PlainFileIo(std::string why) noexcept : why_(std::move(why)) {}
  std::string_view name() const noexcept override { return "pread"; }
  std::string about() const override {
    return why_.empty() ? "pread() and pwrite()" : "pread() and pwrite(); " + why_;
  }
  Result<std::unique_ptr<FileLane>> open_lane(FileTransfer::Kind) override {
    return guarded([]() -> Result<std::unique_ptr<FileLane>> {
      GANTRY_ASSIGN(auto queue, FileQueue::make(kPieceBytes, kPieceBytes));
      return ServedFileLane::open(std::move(queue), serve);
    });
  }

 private:
  const std::string why_;
};

}  // namespace

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::shared_ptr<const OpenFile>> OpenFile::open_direct(const std::string& path,
                                                              std::string name) {
  return guarded([&]() -> Result<std::shared_ptr<const OpenFile>> {
    if (name.empty()) name = fmt::format("file '{}'", path);
    Fd usual(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!usual) return fail_errno("opening " + name);
    // The same file, whatever is at the path by now.
    const std::string same = fmt::format("/proc/self/fd/{}", usual.get());
    Fd direct(::open(same.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
    const int error = direct ? 0 : errno;
    const Bytes alignment = direct ? direct_alignment(direct.get()) : 0;
    auto file = std::make_shared<OpenFile>((alignment > 0 ? direct : usual).release(), name);
    if (alignment > 0)
      file->alignment_ = alignment;
    else
      file->why_not_direct_ = error == 0
                                  ? "its file system says that it has no direct reads"
                                  : "direct reads: " + std::generic_category().message(error);
    return file;
  });
}

// Files by pread() and pwrite(): one piece after another, in the lane's thread.

Result<std::shared_ptr<FileIo>> make_plain_file_io(std::string why) {
  return guarded([&]() -> Result<std::shared_ptr<FileIo>> {
    return std::make_shared<PlainFileIo>(std::move(why));
  });
}

}  // namespace gantry
