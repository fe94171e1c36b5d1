#pragma once  // link/socket/mapped_puller.hpp: an engine copies out of mapped regions of the far
              // end.

#include <deque>
#include <gantry/engine.hpp>
#include <gantry/memory.hpp>
#include <unordered_map>

#include "net/link/puller.hpp"

namespace gantry {

/// Regions come as sealed descriptors, which are mapped read-only.
class MappedPuller final : public Puller {
 public:
  static constexpr Bytes kMostMappedBytes = Bytes{1} << 40;  // of the far end's, at a time

  [[nodiscard]] static Result<std::unique_ptr<Puller>> make(std::shared_ptr<Engine> engine);

  [[nodiscard]] LinkKind kind() const noexcept override { return LinkKind::shared; }
  [[nodiscard]] bool takes_descriptors() const noexcept override { return true; }
  [[nodiscard]] std::string about() const override;
  [[nodiscard]] std::vector<int> descriptors() const override { return {event_}; }
  [[nodiscard]] bool needs_calls() noexcept override { return !moves_itself_ && !jobs_.empty(); }
  [[nodiscard]] Result<void> take_hello(ConstByteSpan hello) override;

  [[nodiscard]] std::optional<Share> share(std::uint64_t key, ByteSpan memory,
                                           int descriptor) override;
  void unshare(std::uint64_t) noexcept override {}
  [[nodiscard]] Result<void> import(const LinkRecord& record, ReceivedFd descriptor) override;
  void forget(std::uint64_t key) noexcept override;
  [[nodiscard]] bool has(std::uint64_t key) const noexcept override {
    return regions_.contains(key);
  }

  [[nodiscard]] bool suits(Bytes, Bytes) const noexcept override { return true; }
  [[nodiscard]] Begun begin(const Job& job, const RowCursor& to, const Source& source) override;
  [[nodiscard]] std::size_t under_way() const noexcept override { return jobs_.size(); }
  [[nodiscard]] std::optional<Job> next_ended() override;
  void finish_puts_to(std::uint64_t key) override;  ///< It takes as long as what has begun.
  void stop() noexcept override;

 private:
  struct Copy {
    Job job;
    RowCursor to, from;
    std::shared_ptr<const Region> source;
    std::deque<Ticket> moves;  // in the lane, not seen to have ended
    [[nodiscard]] bool is_over() const noexcept { return to.left() == 0 && moves.empty(); }
    void fail(LinkStatus status) noexcept {
      job.status = status;
      to = from = {};  // what has not begun never will
    }
  };
  MappedPuller(std::shared_ptr<Engine> engine, std::unique_ptr<Lane> lane, int event);
  void submit();
  [[nodiscard]] bool submit_some(Copy& copy);
  void reap(Copy& copy) const;

  const std::shared_ptr<Engine> engine_;
  const std::unique_ptr<Lane> lane_;
  const int event_;  // the lane's
  const bool moves_itself_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Region>> regions_;
  Bytes mapped_bytes_ = 0;  // of regions_
  std::deque<Copy> jobs_;
};

}  // namespace gantry
