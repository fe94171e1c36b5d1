#include "device/file/file_work.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/result.hpp"

namespace gantry {
namespace {

std::string what_of(const FileTransfer& transfer) {
  const bool is_read = transfer.kind == FileTransfer::Kind::read;
  return fmt::format("{} {}", is_read ? "reading" : "writing", transfer.file->name());
}

}  // namespace

std::int64_t move_now(const FileTransfer& transfer, const FilePiece& piece) noexcept {
  const int descriptor = transfer.file->descriptor();
  std::byte* const at = transfer.memory.data() + piece.at;
  const auto offset = static_cast<off_t>(transfer.offset + piece.at);
  const ssize_t moved = transfer.kind == FileTransfer::Kind::read
                            ? ::pread(descriptor, at, piece.size, offset)
                            : ::pwrite(descriptor, at, piece.size, offset);
  return moved < 0 ? -errno : moved;
}

std::int64_t read_cached(const FileTransfer& transfer, const FilePiece& piece) noexcept {
  const iovec into{transfer.memory.data() + piece.at, piece.size};
  const ssize_t moved = ::preadv2(transfer.file->descriptor(), &into, 1,
                                  static_cast<off_t>(transfer.offset + piece.at), RWF_NOWAIT);
  return moved < 0 ? -EAGAIN : moved;  // whatever it was, it comes again where it may take its time
}

bool FileWork::is_cached() const noexcept {
  if (transfer_.file->alignment() > 1) return false;
  const auto has = [this](std::uint64_t offset) {
    std::byte byte{};
    return read_cached({transfer_.kind, transfer_.file, offset, {&byte, 1}}, {0, 1}) == 1;
  };
  return has(transfer_.offset) && has(transfer_.offset + transfer_.memory.size() - 1);
}

void FileWork::take_cached() {
  while (const auto piece = next()) {
    const std::int64_t answer = read_cached(transfer_, *piece);
    ended(*piece, answer == -EAGAIN ? -EINTR : answer);
    if (answer == -EAGAIN) return;
  }
}

std::optional<FilePiece> FileWork::next() {
  if (!has_more()) return std::nullopt;
  FilePiece piece;
  if (!again_.empty()) {
    piece = again_.back();
    again_.pop_back();
  } else {
    piece = {begun_, std::min(piece_bytes_, transfer_.memory.size() - begun_)};
    begun_ += piece.size;
  }
  ++under_way_;
  return piece;
}

void FileWork::ended(const FilePiece& piece, std::int64_t answer) {
  --under_way_;
  if (answer == -EINTR)
    repeat(piece);
  else if (answer < 0)
    fail_at(piece.at, static_cast<int>(-answer));
  else if (answer == 0)
    fail_at(piece.at, transfer_.kind == FileTransfer::Kind::read ? 0 : EIO);
  else if (const auto moved = static_cast<Bytes>(answer); moved < piece.size)
    take_part(piece, moved);
}

// A direct read goes on where it may: only at the end of a file its part is no multiple.
void FileWork::take_part(const FilePiece& piece, Bytes moved) {
  if (moved % transfer_.file->alignment() != 0) return fail_at(piece.at + moved, 0);
  repeat({piece.at + moved, piece.size - moved});
}

void FileWork::repeat(const FilePiece& piece) {
  if (!failed_at_ || piece.at < *failed_at_) again_.push_back(piece);
}

void FileWork::fail_at(Bytes at, int error) noexcept {
  if (failed_at_ && *failed_at_ <= at) return;
  failed_at_ = at;
  error_ = error;
  std::erase_if(again_, [at](const FilePiece& piece) { return piece.at >= at; });
}

Result<void> FileWork::outcome() const {
  if (is_stopped_) return fail(Code::interrupted, what_of(transfer_) + ": cancelled");
  if (!failed_at_) return {};
  if (error_ != 0) return fail_errno(what_of(transfer_), error_);
  return fail(Code::system,
              fmt::format("{}: {} of {} bytes are there from offset {} on", transfer_.file->name(),
                          *failed_at_, transfer_.memory.size(), transfer_.offset),
              "it was cut short while it was read");
}

}  // namespace gantry
