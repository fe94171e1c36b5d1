#pragma once  // load/loading.hpp: what the workers of a loading and those who wait share.

#include <condition_variable>
#include <gantry/device.hpp>
#include <list>
#include <map>
#include <mutex>

#include "image/load/load_job.hpp"

namespace gantry {

/// A partition's memory on its device.
struct DevicePlace {
  std::shared_ptr<const DeviceBuffer> buffer = {};  // null: it is in the host's memory
  DeviceQueue* queue = nullptr;  // that copies to it; null: the host writes there itself
};

/// The devices of one loading. Not for several threads, except cancel() and what queues are for.
class DeviceCopies {
 public:
  /// Memory of `size` bytes and more, up to a border of chunks. Errors: the device's.
  [[nodiscard]] Result<DevicePlace> take(const std::shared_ptr<Device>& device, Bytes size);
  /// True if there is something to copy.
  [[nodiscard]] bool is_needed() const noexcept { return !queues_.empty(); }
  /// The same memory, registered for as long as it is kept, where that pays and can be.
  [[nodiscard]] LoadMemory registered(LoadMemory memory);
  /// How memory is that went through registered(), and why.
  [[nodiscard]] std::string copied_from() const;
  /// Copies that have not begun end as `interrupted`.
  void cancel() noexcept;

 private:
  [[nodiscard]] Result<DeviceQueue*> queue_to(const std::shared_ptr<Device>& device);

  std::map<const Device*, std::unique_ptr<DeviceQueue>> queues_;
  std::vector<std::shared_ptr<Registrar>> registrars_;
  std::string why_not_;  // registered, where that would pay
};

///   L1  A chunk is in order_ once; its taker is the only one who writes to its place.
///   L2  is_there_ of a chunk is set, under the lock, after all its bytes are checked and written;
///       on a device, after their copy has ended.
///   L3  Once error_ is set no chunk is taken, nor given to a device.
struct GANTRY_LOCAL ImageLoading::State final : LoadJob {
  State(const Image& image, const LoadOptions& options);
  ~State() override;

  /// Opens the file, takes memory and lays the order down: of all chunks, or of so many of them,
  /// spread evenly.
  [[nodiscard]] Result<void> prepare(const Image& image, std::optional<double> share = {});
  /// Starts the workers.
  [[nodiscard]] Result<void> start();

  [[nodiscard]] std::optional<Turn> take(Worker& worker, bool is_idle) override;
  [[nodiscard]] Result<void> there(Worker& worker, const Came& came) override;
  [[nodiscard]] Result<void> settle(const Worker& worker) override;
  void end(Error error) noexcept override;

  /// Where bytes of a chunk go; no memory: they stay in the worker's.
  [[nodiscard]] LoadMemory place_of(std::size_t chunk, Bytes bytes) const;

  const LoadOptions options;

  [[nodiscard]] Result<LoadedTensor> wait_for(std::string_view tensor, Deadline deadline);
  [[nodiscard]] Result<void> wait_for_all(Deadline deadline);
  [[nodiscard]] LoadReport report();
  /// Of a loading of some chunks that has ended well: what all would have taken.
  [[nodiscard]] std::chrono::nanoseconds time_of_all();

 private:
  [[nodiscard]] Result<void> take_places();
  [[nodiscard]] Result<void> take_device_place(std::size_t partition);
  struct Within {
    std::size_t partition = 0;
    Bytes offset = 0;
  };
  [[nodiscard]] Within within(std::size_t chunk) const noexcept;
  [[nodiscard]] Result<ByteSpan> unpack(Worker& worker, const Came& came) const;
  [[nodiscard]] Result<void> begin_copy(const Worker& worker, std::size_t chunk, ConstByteSpan raw);
  struct Copy {
    std::size_t worker = 0;  // which has one at a time
    std::size_t chunk = 0;
    DeviceEvent event;
  };
  [[nodiscard]] tl::unexpected<Error> not_copied(const Copy& copy, const Error& why);
  [[nodiscard]] tl::unexpected<Error> at_chunk(std::size_t chunk, const Error& why) const;
  void is_there(std::size_t chunk);
  [[nodiscard]] Result<void> lay_order();
  void thin_out(double share);
  [[nodiscard]] Result<const ImageTensor*> find(std::string_view tensor) const;
  [[nodiscard]] std::pair<std::size_t, std::size_t> chunks_of(const ImageTensor& tensor) const;
  template <class IsSo>
  [[nodiscard]] bool wait_until(std::unique_lock<std::mutex>& lock, Deadline deadline,
                                const IsSo& is_so);

  std::map<std::string_view, std::size_t> by_name_;
  std::vector<bool> is_wanted_;     // partitions
  std::vector<LoadMemory> places_;  // of partitions; those that are not loaded have none, nor have
                                    // those that only their device sees
  DeviceCopies copies_;
  std::vector<DevicePlace> device_places_;  // of partitions
  std::vector<std::size_t> order_;          // of chunks
  std::size_t all_chunks_ = 0;              // that are wanted, in order_ or not
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();

  std::mutex mutex_;
  std::condition_variable moved_;
  std::size_t taken_ = 0;       // of order_
  std::size_t there_ = 0;       // how many
  std::vector<bool> is_there_;  // chunks
  std::list<Copy> copying_;     // as they began
  std::optional<Error> error_;
  LoadReport report_;
};

}  // namespace gantry
