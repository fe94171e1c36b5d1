#include <algorithm>
#include <deque>

#include "base/result.hpp"
#include "file/file_lane.hpp"

// Files by pread() and pwrite(): one piece after another, in the lane's thread.
namespace gantry {
namespace {

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

Result<std::shared_ptr<FileIo>> make_plain_file_io(std::string why) {
  return guarded([&]() -> Result<std::shared_ptr<FileIo>> {
    return std::make_shared<PlainFileIo>(std::move(why));
  });
}

}  // namespace gantry
