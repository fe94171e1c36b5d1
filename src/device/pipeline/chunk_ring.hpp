#pragma once  // pipeline/chunk_ring.hpp: the buffers for chunks, one slot for each chunk in flight.

#include <gantry/memory.hpp>
#include <gantry/pipeline.hpp>
#include <vector>

#include "core/base/assert.hpp"

namespace gantry {

/// What a run knows about an argument of its job.
struct RunArray {
  const PipelineJob::Argument* argument = nullptr;
  Staging staging = Staging::automatic;    ///< `automatic`: no array.
  std::vector<std::byte> first_step = {};  ///< Repeated as often as a clamped halo may need.
  std::vector<std::byte> last_step = {};
  std::vector<Registration> registrations = {};
  DeviceBuffer whole = {};      ///< For a broadcast.
  Bytes partials_bytes = 0;     ///< For a reduction.
  bool is_ring_shared = false;  ///< The device computes on the staged memory itself.
};

/// Host memory and its registration.
struct HostMemory {
  Region region;
  Registration registration;
  /// `registrar`: registers the memory; may be null. `why_not`: receives the reason if it does not.
  [[nodiscard]] static Result<std::shared_ptr<HostMemory>> make(
      Bytes size, const std::shared_ptr<Registrar>& registrar, std::string& why_not);
};

/// Size of its buffer for a chunk of that many steps.
[[nodiscard]] Bytes slot_bytes(const RunArray& array, std::uint64_t steps) noexcept;

struct ChunkSlot {
  struct Array {
    DeviceBuffer buffer;
    ByteSpan host;  ///< Its part of the ring's host memory; empty: none needed.
    /// The buffer is the host's memory (`host`, or the caller's): nothing is copied.
    bool is_over = false;
  };
  struct Stage {
    DeviceEvent first, last;
    /// An operation that was submitted, or the error of submitting it.
    [[nodiscard]] Result<void> add(const Result<DeviceEvent>& event);
    /// From the first one's begin to the last one's end; zeros: not known.
    [[nodiscard]] DeviceTiming timing() const;
  };
  std::vector<Array> arrays;  ///< One for each argument.
  Chunk chunk;
  std::vector<Ticket> reads, writes;  ///< Tickets of files that are waited for.
  std::optional<Error> begin_error;   ///< Why its reads could not begin.
  Stage copy_in, compute, copy_out;
  DeviceTiming stage_in, stage_out;  // the host's
};

class ChunkRing {
 public:
  /// Errors: `device_full`, `too_large`, `out_of_memory`, `device_lost`.
  [[nodiscard]] static Result<ChunkRing> make(Device& device, std::span<const RunArray> arrays,
                                              std::uint64_t chunk_steps, unsigned depth,
                                              const std::shared_ptr<Registrar>& registrar);

  [[nodiscard]] ChunkSlot& slot(std::uint64_t index) {
    GANTRY_DEBUG_ASSERT(!slots_.empty());
    return slots_[index % slots_.size()];
  }
  [[nodiscard]] const ChunkSlot& slot(std::uint64_t index) const {
    return slots_[index % slots_.size()];
  }
  [[nodiscard]] unsigned depth() const noexcept { return static_cast<unsigned>(slots_.size()); }
  [[nodiscard]] std::uint64_t chunk_steps() const noexcept { return chunk_steps_; }
  [[nodiscard]] Bytes device_bytes() const noexcept { return device_bytes_; }
  [[nodiscard]] Bytes host_bytes() const noexcept { return host_ ? host_->region.size() : 0; }
  [[nodiscard]] const std::string& why_plain() const noexcept { return why_plain_; }
  [[nodiscard]] KeepAlive keep() const noexcept { return host_; }

 private:
  [[nodiscard]] Result<void> add_slot(Device& device, std::span<const RunArray> arrays);
  [[nodiscard]] Result<void> add_host(std::span<const RunArray> arrays,
                                      const std::shared_ptr<Registrar>& registrar);
  [[nodiscard]] Result<void> share_host(Device& device, std::span<const RunArray> arrays);

  std::uint64_t chunk_steps_ = 0;
  std::vector<ChunkSlot> slots_;
  std::shared_ptr<HostMemory> host_;
  Bytes device_bytes_ = 0;
  std::string why_plain_;
};

}  // namespace gantry
