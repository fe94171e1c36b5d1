#pragma once  // test_file_lane.hpp: a way to files that a test holds up.

#include <condition_variable>
#include <gantry/file.hpp>
#include <map>
#include <mutex>
#include <set>

namespace gantry {

/// What a test knows of the transfers of a run, in the order of submission.
class FileScript {
 public:
  using Kind = FileTransfer::Kind;
  /// The transfer number `index` of its kind ends only when so many of the kind were submitted.
  void hold(Kind kind, std::size_t index, std::size_t until) { held_[{kind, index}] = until; }

  /// Until the run waits for transfer number `index` of the kind.
  void see_waited_for(Kind kind, std::size_t index) {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return waited_.contains({kind, index}); });
  }

  // ---- the lane's
  std::size_t add(Kind kind) {
    const std::lock_guard lock(mutex_);
    came_.notify_all();
    return count_[kind]++;
  }
  /// False: the deadline came first.
  bool wait(Kind kind, std::size_t index, Deadline deadline) {
    std::unique_lock lock(mutex_);
    waited_.insert({kind, index});
    came_.notify_all();
    const auto is_free = [&] { return !is_held(kind, index); };
    if (deadline.is_never()) return came_.wait(lock, is_free), true;
    return came_.wait_for(lock, deadline.left(), is_free);
  }
  bool is_over(Kind kind, std::size_t index) {
    const std::lock_guard lock(mutex_);
    return !is_held(kind, index);
  }

 private:
  [[nodiscard]] bool is_held(Kind kind, std::size_t index) const {
    const auto held = held_.find({kind, index});
    const auto count = count_.find(kind);
    return held != held_.end() && (count == count_.end() || count->second < held->second);
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::map<Kind, std::size_t> count_;
  std::set<std::pair<Kind, std::size_t>> waited_;
  std::map<std::pair<Kind, std::size_t>, std::size_t> held_;
};

/// The plain way, but for what the script holds back.
class ScriptedFileLane final : public FileLane {
 public:
  ScriptedFileLane(std::unique_ptr<FileLane> lane, std::shared_ptr<FileScript> script)
      : lane_(std::move(lane)), script_(std::move(script)) {}

  Result<Ticket> submit(const FileTransfer& transfer) override {
    auto ticket = lane_->submit(transfer);
    if (!ticket) return ticket;
    const std::size_t index = script_->add(transfer.kind);
    const std::lock_guard lock(mutex_);
    known_[*ticket] = {transfer.kind, index};
    return ticket;
  }
  bool is_over(Ticket ticket) const override {
    const auto [kind, index] = known(ticket);
    return script_->is_over(kind, index) && lane_->is_over(ticket);
  }
  Result<void> wait(Ticket ticket, Deadline deadline) override {
    const auto [kind, index] = known(ticket);
    if (script_->wait(kind, index, deadline)) return lane_->wait(ticket, deadline);
    return tl::unexpected(Error{Code::timed_out, "held back by the test", {}});
  }
  void cancel() noexcept override { lane_->cancel(); }
  Result<void> drain(Deadline deadline) override { return lane_->drain(deadline); }

 private:
  using Known = std::pair<FileScript::Kind, std::size_t>;
  [[nodiscard]] Known known(Ticket ticket) const {
    const std::lock_guard lock(mutex_);
    return known_.at(ticket);
  }

  const std::unique_ptr<FileLane> lane_;
  const std::shared_ptr<FileScript> script_;
  mutable std::mutex mutex_;
  std::map<Ticket, Known> known_;
};

class ScriptedFileIo final : public FileIo {
 public:
  explicit ScriptedFileIo(std::shared_ptr<FileScript> script) : script_(std::move(script)) {}
  std::string_view name() const noexcept override { return "scripted"; }
  std::string about() const override { return "a test's script"; }
  Result<std::unique_ptr<FileLane>> open_lane(FileTransfer::Kind) override {
    auto plain = (*make_plain_file_io())->open_lane();
    if (!plain) return plain;
    return std::make_unique<ScriptedFileLane>(*std::move(plain), script_);
  }

 private:
  const std::shared_ptr<FileScript> script_;
};

/// Where no ring can be had any more.
class RefusingFileIo final : public FileIo {
 public:
  std::string_view name() const noexcept override { return "refusing"; }
  std::string about() const override { return "no way"; }
  Result<std::unique_ptr<FileLane>> open_lane(FileTransfer::Kind) override {
    return tl::unexpected(Error{Code::out_of_memory, "no memory for a ring", {}});
  }
};

}  // namespace gantry
