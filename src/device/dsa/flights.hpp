#pragma once  // dsa/flights.hpp: what the device holds: records, batches and credits.

#include <array>
#include <vector>

#include "device/dsa/pending_moves.hpp"
#include "device/dsa/work_queue.hpp"

namespace gantry::dsa {

struct FlightCounts {
  std::uint64_t descriptors = 0;  ///< Accepted, those in batches included.
  std::uint64_t batches = 0;      ///< Accepted; a resumed one counts again.
  std::uint64_t submissions = 0;  ///< Accepted calls of the entrance.
  std::uint64_t refusals = 0;     ///< The queue was full.
  std::uint64_t batch_faults = 0;
};

/// Descriptors that were handed over and are not yet answered. Used by one thread at a time.
///   I1  A record and a batch's list stay where they are until answered, or for good (leak()).
///   I2  No more than `entries` descriptors are in the queue; a batch is one.
///   I3  A record is zero when its descriptor is handed over.
class Flights {
 public:
  struct Landed {
    Part* part = nullptr;
    CompletionRecord record;
    std::uint8_t status = 0;  ///< From load_status(). 0: its batch did not get to it.
    std::uint64_t flew_ns = 0;
  };

  explicit Flights(const QueueTraits& traits);
  Flights(const Flights&) = delete;
  Flights& operator=(const Flights&) = delete;

  /// Parts that may be handed over now, if the queue has room.
  [[nodiscard]] std::size_t room() const noexcept;
  /// Hands over parts from the front, in batches where that is possible.
  [[nodiscard]] Taken submit(WorkQueue& queue, std::span<Part* const> parts) noexcept;
  /// Reads every record once and resumes batches. Appends what ended to `landed`, which must have
  /// room for kMost.
  void land(WorkQueue& queue, std::vector<Landed>& landed) noexcept;
  [[nodiscard]] std::size_t count() const noexcept { return busy_.size(); }
  /// True if the device has still to answer for a batch. It does so after the last of its parts.
  [[nodiscard]] bool has_batches() const noexcept;
  /// When the oldest one was handed over; ~0 if there is none.
  [[nodiscard]] std::uint64_t oldest_ns() const noexcept;
  /// The record that has been awaited longest, for UMWAIT; null if there is none.
  [[nodiscard]] const CompletionRecord* oldest_record() const noexcept;
  /// Takes back the unanswered parts: the device will never answer.
  void take_back(std::vector<Part*>& parts) noexcept;
  /// Keeps the records for good: the device may still write.
  void leak() noexcept;
  [[nodiscard]] const FlightCounts& counts() const noexcept { return counts_; }

  static constexpr std::size_t kMost = 128;  ///< Parts in flight.
  static constexpr std::size_t kBatchMost = 32;

 private:
  static constexpr std::uint8_t kSingle = 0xff;
  static constexpr std::size_t kBatches = 8;
  struct alignas(64) Slot {
    CompletionRecord record;
    Part* part = nullptr;
    std::uint64_t since_ns = 0;
    std::uint8_t batch = kSingle;
  };
  struct Batch {
    std::array<Descriptor, kBatchMost> list;
    CompletionRecord record;
    std::array<std::uint8_t, kBatchMost> slots{};
    std::uint32_t size = 0;   // 0: free
    std::uint32_t first = 0;  // those before it were answered, and are not submitted again
    bool to_resume = false;
    bool unclear = false;  // it ended in an unknown way; only the time limit ends it
  };
  struct Memory {
    std::array<Slot, kMost> slots;
    std::array<Batch, kBatches> batches;
  };

  std::uint8_t take_slot(Part* part) noexcept;
  void free_slot(std::uint8_t slot) noexcept;
  Batch* free_batch() noexcept;
  Taken submit_singles(WorkQueue& queue, std::span<Part* const> parts) noexcept;
  Taken submit_batch(WorkQueue& queue, Batch& batch, std::span<Part* const> parts) noexcept;
  Taken enter(WorkQueue& queue, std::span<const Descriptor> descriptors) noexcept;
  Taken enter_batch(WorkQueue& queue, Batch& batch) noexcept;
  void land_batch(WorkQueue& queue, Batch& batch, std::vector<Landed>& landed) noexcept;
  void resume_batch(WorkQueue& queue, Batch& batch) noexcept;
  void end_batch(Batch& batch, std::vector<Landed>& landed) noexcept;
  void land_slot(std::uint8_t slot, std::uint8_t status, std::vector<Landed>& landed) noexcept;

  DevicePages<Memory> memory_;
  std::vector<std::uint8_t> free_;
  std::vector<std::uint8_t> busy_;
  std::size_t entries_;
  std::size_t queued_ = 0;  // in the queue: I2
  std::size_t batch_most_;
  std::size_t batch_least_;
  FlightCounts counts_;
};

}  // namespace gantry::dsa
