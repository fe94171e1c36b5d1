#pragma once  // link/socket/mapped_copies.hpp: regions of the far end, and copies out of them.

#include <deque>
#include <gantry/engine.hpp>
#include <gantry/memory.hpp>
#include <unordered_map>

#include "base/close_elsewhere.hpp"
#include "link/record.hpp"
#include "link/rows.hpp"

namespace gantry {

/// Copies strided ranges out of mapped regions of the far end, by an engine. A put is copied by the
/// end that it goes to, a get by the end that asked: so each process writes its own memory only,
/// and nothing is ever mapped writable by two. Used under its link's lock.
class MappedCopies {
 public:
  struct Job {
    bool is_put = false;    // of the far end; else a get of this end
    Ticket ticket{};        // of whoever began it
    std::uint64_t key = 0;  // of a put: the export that it writes
    std::optional<std::uint64_t> signal;
    Bytes bytes = 0;
    bool has_failed = false;
  };

  [[nodiscard]] static Result<std::unique_ptr<MappedCopies>> make(std::shared_ptr<Engine> engine);

  /// Readable when copies have ended; see needs_calls().
  [[nodiscard]] int descriptor() const noexcept { return event_; }
  /// True: copies are under way that go on only by calls of poll().
  [[nodiscard]] bool needs_calls() const noexcept { return !moves_itself_ && !jobs_.empty(); }
  [[nodiscard]] std::size_t under_way() const noexcept { return jobs_.size(); }
  [[nodiscard]] const Engine& engine() const noexcept { return *engine_; }

  /// Maps a region that the far end has sent. Errors: `peer_misbehaved`; `system`.
  [[nodiscard]] Result<void> import(std::uint64_t key, ReceivedFd descriptor, Bytes size);
  void forget(std::uint64_t key) noexcept { regions_.erase(key); }
  [[nodiscard]] bool has(std::uint64_t key) const noexcept { return regions_.contains(key); }

  /// Begins a copy out of the region `key`. False: these rows are not within it.
  [[nodiscard]] bool add(const Job& job, const RowCursor& to, std::uint64_t key, Bytes offset,
                         Bytes rows, Bytes row_bytes, Bytes stride);
  /// Gets on with the copies. Returns the next one that has ended, in the order of add().
  [[nodiscard]] std::optional<Job> next_ended();
  /// Waits until no put writes the export `key`. It takes as long as the copies do.
  void finish_puts_to(std::uint64_t key);
  /// Waits for what has begun; the rest never will.
  void stop() noexcept;

 private:
  struct Copy {
    Job job;
    RowCursor to, from;
    std::shared_ptr<const Region> source;
    std::deque<Ticket> moves;  // in the lane, not seen to have ended
    [[nodiscard]] bool is_over() const noexcept { return to.left() == 0 && moves.empty(); }
  };
  MappedCopies(std::shared_ptr<Engine> engine, std::unique_ptr<Lane> lane, int event);
  void submit();
  [[nodiscard]] bool submit_some(Copy& copy);
  void reap(Copy& copy) const;

  const std::shared_ptr<Engine> engine_;
  const std::unique_ptr<Lane> lane_;
  const int event_;  // the lane's
  const bool moves_itself_;
  std::unordered_map<std::uint64_t, std::shared_ptr<const Region>> regions_;
  std::deque<Copy> jobs_;
};

}  // namespace gantry
