#pragma once  // file/file_work.hpp: one file transfer as the pieces that the kernel is asked for.

#include <gantry/engine/file_io.hpp>
#include <optional>
#include <vector>

namespace gantry {

/// A part of a transfer's range.
struct FilePiece {
  Bytes at = 0;  ///< In the transfer's memory, and beyond its offset.
  Bytes size = 0;
};

/// Reads or writes it here and now. What FileWork::ended() is told.
[[nodiscard]] std::int64_t move_now(const FileTransfer& transfer, const FilePiece& piece) noexcept;

/// A transfer on its way. One thread at a time: that which serves its lane.
class FileWork {
 public:
  static constexpr std::size_t kMostUnderWay = 16;  // pieces

  FileWork(Ticket ticket, FileTransfer transfer, Bytes piece_bytes)
      : ticket_(ticket), transfer_(std::move(transfer)), piece_bytes_(piece_bytes) {
    again_.reserve(kMostUnderWay);  // so that what comes later needs no memory
  }

  [[nodiscard]] Ticket ticket() const noexcept { return ticket_; }
  [[nodiscard]] const FileTransfer& transfer() const noexcept { return transfer_; }

  /// What the kernel is to be asked for now; nothing: all of it is under way, or enough has failed.
  [[nodiscard]] std::optional<FilePiece> next();
  /// `answer`: the bytes that were moved, or an errno value below 0. What an interrupt or a part
  /// left over comes again.
  void ended(const FilePiece& piece, std::int64_t answer);
  /// No piece begins any more.
  void stop() noexcept { is_stopped_ = true; }
  /// Nothing of it is under way, nothing is to come.
  [[nodiscard]] bool is_over() const noexcept { return under_way_ == 0 && !has_more(); }
  [[nodiscard]] Result<void> outcome() const;

 private:
  [[nodiscard]] bool has_more() const noexcept {
    if (is_stopped_) return false;
    return !again_.empty() || (!failed_at_ && begun_ < transfer_.memory.size());
  }
  void repeat(const FilePiece& piece);
  void fail_at(Bytes at, int error) noexcept;

  const Ticket ticket_;
  const FileTransfer transfer_;
  const Bytes piece_bytes_;
  Bytes begun_ = 0;               // what comes before was asked for once at least
  std::vector<FilePiece> again_;  // before the first failure: whether one comes before it counts
  std::size_t under_way_ = 0;
  bool is_stopped_ = false;
  std::optional<Bytes> failed_at_;  // the first byte that could not be moved
  int error_ = 0;                   // why; 0: the file ends there
};

}  // namespace gantry
