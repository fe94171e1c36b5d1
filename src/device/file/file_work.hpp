#pragma once  // file/file_work.hpp: one file transfer, cut into pieces for the kernel.

#include <gantry/file.hpp>
#include <optional>
#include <vector>

namespace gantry {

/// A part of a transfer's range.
struct FilePiece {
  Bytes at = 0;  ///< Offset in the transfer's memory, and from its offset in the file.
  Bytes size = 0;
};

/// Reads or writes the piece now. Returns the argument of FileWork::ended().
[[nodiscard]] std::int64_t move_now(const FileTransfer& transfer, const FilePiece& piece) noexcept;

/// Reads what of the piece can be read without waiting, from the page cache. `-EAGAIN`: nothing, or
/// the file's system cannot tell.
[[nodiscard]] std::int64_t read_cached(const FileTransfer& transfer,
                                       const FilePiece& piece) noexcept;

/// A transfer on its way. Used by one thread at a time: its submitter, whoever waits for it, then
/// the one that serves its lane.
class FileWork {
 public:
  static constexpr std::size_t kMostUnderWay = 16;  // pieces

  FileWork(Ticket ticket, FileTransfer transfer, Bytes piece_bytes)
      : ticket_(ticket), transfer_(std::move(transfer)), piece_bytes_(piece_bytes) {
    again_.reserve(kMostUnderWay);  // so that later steps need no memory
  }

  [[nodiscard]] Ticket ticket() const noexcept { return ticket_; }
  [[nodiscard]] const FileTransfer& transfer() const noexcept { return transfer_; }

  /// The next piece to ask the kernel for; nothing: all of it is under way, or enough has failed.
  [[nodiscard]] std::optional<FilePiece> next();
  /// `answer`: bytes moved, or a negative errno value. The rest of a partial result or an interrupt
  /// comes again.
  void ended(const FilePiece& piece, std::int64_t answer);
  /// Its first and its last byte can be read without waiting.
  [[nodiscard]] bool is_cached() const noexcept;
  /// Reads what is cached. Then the rest, if any, is as if it had not been asked for.
  void take_cached();
  /// No more pieces begin.
  void stop() noexcept { is_stopped_ = true; }
  /// Nothing is under way and nothing is to come.
  [[nodiscard]] bool is_over() const noexcept { return under_way_ == 0 && !has_more(); }
  [[nodiscard]] Result<void> outcome() const;

 private:
  [[nodiscard]] bool has_more() const noexcept {
    if (is_stopped_) return false;
    return !again_.empty() || (!failed_at_ && begun_ < transfer_.memory.size());
  }
  void take_part(const FilePiece& piece, Bytes moved);
  void repeat(const FilePiece& piece);
  void fail_at(Bytes at, int error) noexcept;

  const Ticket ticket_;
  const FileTransfer transfer_;
  const Bytes piece_bytes_;
  Bytes begun_ = 0;  // every byte before it was asked for at least once
  // all before the first failure; only whether one is before it counts
  std::vector<FilePiece> again_;
  std::size_t under_way_ = 0;
  bool is_stopped_ = false;
  std::optional<Bytes> failed_at_;  // first byte that could not be moved
  int error_ = 0;                   // its cause; 0: the file ends there
};

}  // namespace gantry
