#pragma once  // load/test_gated_file_io.hpp: a file that answers only as many reads as it may.

#include <gantry/file.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

#include "core/base/result.hpp"

namespace gantry::test {

/// Reads of the first `free` transfers end, the others not before allow().
class GatedFileIo final : public FileIo {
 public:
  explicit GatedFileIo(std::size_t free) : free_(free) {}
  std::string_view name() const noexcept override { return "gated"; }
  std::string about() const override { return "gated"; }
  Result<std::unique_ptr<FileLane>> open_lane(FileTransfer::Kind) override {
    return std::make_unique<Lane>(*this);
  }
  /// File offsets, in the order in which they were asked for.
  std::vector<std::uint64_t> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  /// Waits until so many reads were asked for.
  void wait_for_asked(std::size_t count) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return asked_.size() >= count; });
  }
  /// Reads of more bytes do not end.
  void hold_larger(Bytes bytes) {
    const std::lock_guard lock(mutex_);
    most_ = bytes;
    moved_.notify_all();
  }
  /// So many more end.
  void allow(std::size_t more) {
    const std::lock_guard lock(mutex_);
    free_ += more;
    moved_.notify_all();
  }

 private:
  class Lane final : public FileLane {
   public:
    explicit Lane(GatedFileIo& io) : io_(io) {}
    Result<Ticket> submit(const FileTransfer& transfer) override {
      const std::lock_guard lock(io_.mutex_);
      io_.asked_.push_back(transfer.offset);
      transfers_[io_.asked_.size()] = transfer;
      io_.moved_.notify_all();
      return Ticket{io_.asked_.size()};
    }
    bool is_over(Ticket) const override { return false; }
    Result<void> wait(Ticket ticket, Deadline deadline) override {
      const auto number = static_cast<std::size_t>(ticket);
      std::unique_lock lock(io_.mutex_);
      while ((number > io_.free_ || transfers_[number].memory.size() > io_.most_) &&
             !is_cancelled_) {
        if (deadline.passed()) return fail(Code::timed_out, "reading: time was up");
        io_.moved_.wait_for(lock, deadline.is_never() ? std::chrono::hours{1} : deadline.left());
      }
      if (number > io_.free_) return fail(Code::interrupted, "reading: cancelled");
      const FileTransfer& read = transfers_[number];
      EXPECT_EQ(::pread(read.file->descriptor(), read.memory.data(), read.memory.size(),
                        static_cast<off_t>(read.offset)),
                static_cast<ssize_t>(read.memory.size()));
      return {};
    }
    void cancel() noexcept override {
      const std::lock_guard lock(io_.mutex_);
      is_cancelled_ = true;
      io_.moved_.notify_all();
    }
    Result<void> drain(Deadline) override { return {}; }

   private:
    GatedFileIo& io_;
    std::map<std::size_t, FileTransfer> transfers_;
    bool is_cancelled_ = false;
  };

  Bytes most_ = ~Bytes{0};
  std::size_t free_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::vector<std::uint64_t> asked_;
};

}  // namespace gantry::test
