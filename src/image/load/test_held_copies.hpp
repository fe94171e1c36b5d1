#pragma once  // load/test_held_copies.hpp: a device whose copies a test holds up or lets fail, and
              // a file that is read at once.

#include <gantry/file.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "core/base/result.hpp"
#include "device/cpu/cpu_device.hpp"

namespace gantry::test {

/// What a device does before each of its copies, which are counted from 1.
class Copies {
 public:
  /// Copies from number `first` on do not begin before open().
  void hold_from(std::size_t first) {
    const std::lock_guard lock(mutex_);
    held_from_ = first;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    held_from_ = kNever;
    moved_.notify_all();
  }
  /// Waits until a copy is held up.
  void wait_for_held() {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return is_held_; });
  }
  /// Lets go at the end of a test, whatever it found, before a loading's end waits for it.
  class Opener {
   public:
    explicit Opener(Copies& copies) : copies_(copies) {}
    ~Opener() { copies_.open(); }
    Opener(const Opener&) = delete;
    Opener& operator=(const Opener&) = delete;

   private:
    Copies& copies_;
  };
  void fail_at(std::size_t number, Code code) {
    const std::lock_guard lock(mutex_);
    failures_[number] = code;
  }
  std::size_t begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  Result<void> begin(std::string_view operation) {
    std::unique_lock lock(mutex_);
    if (operation != "copy-in") return {};
    const std::size_t number = ++begun_;
    is_held_ = number >= held_from_;
    moved_.notify_all();
    moved_.wait(lock, [&] { return number < held_from_; });
    if (failures_.contains(number)) return fail(failures_[number], "as scripted");
    return {};
  }

 private:
  static constexpr std::size_t kNever = ~std::size_t{};
  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t held_from_ = kNever;
  std::size_t begun_ = 0;
  bool is_held_ = false;
  std::map<std::size_t, Code> failures_;
};

/// Whether its memory is seen by the host or not.
inline std::shared_ptr<Device> make_device(std::function<Result<void>(std::string_view)> before,
                                           bool host_visible = false, Bytes memory_bytes = 0) {
  return *make_cpu_device({.name = "fake",
                           .threads = 1,
                           .memory_bytes = memory_bytes,
                           .before = std::move(before),
                           .host_visible = host_visible});
}

/// Reads at once, in submit().
class EagerFileIo final : public FileIo {
 public:
  std::string_view name() const noexcept override { return "eager"; }
  std::string about() const override { return "eager"; }
  Result<std::unique_ptr<FileLane>> open_lane(FileTransfer::Kind) override {
    return std::make_unique<Lane>(*this);
  }
  void wait_for_read(std::size_t count) {
    std::unique_lock lock(mutex_);
    moved_.wait(lock, [&] { return read_ >= count; });
  }

 private:
  class Lane final : public FileLane {
   public:
    explicit Lane(EagerFileIo& io) : io_(io) {}
    Result<Ticket> submit(const FileTransfer& read) override {
      EXPECT_EQ(::pread(read.file->descriptor(), read.memory.data(), read.memory.size(),
                        static_cast<off_t>(read.offset)),
                static_cast<ssize_t>(read.memory.size()));
      const std::lock_guard lock(io_.mutex_);
      io_.moved_.notify_all();
      return Ticket{++io_.read_};
    }
    bool is_over(Ticket) const override { return true; }
    Result<void> wait(Ticket, Deadline) override { return {}; }
    void cancel() noexcept override {}
    Result<void> drain(Deadline) override { return {}; }

   private:
    EagerFileIo& io_;
  };

  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t read_ = 0;
};

}  // namespace gantry::test
