#pragma once  // image/load/load_state.hpp: what the workers of a loading and those who wait share.

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>

#include "image/load/device_copies.hpp"
#include "image/load/load_job.hpp"

namespace gantry {

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

  [[nodiscard]] std::optional<std::size_t> take(std::size_t worker) override;
  [[nodiscard]] LoadMemory place_of(std::size_t chunk, Bytes bytes) const override;
  [[nodiscard]] Result<void> there(std::size_t chunk, ConstByteSpan raw,
                                   std::chrono::nanoseconds waited,
                                   std::chrono::nanoseconds unpacked) override;
  [[nodiscard]] Result<void> settle(std::size_t chunk) override;
  void end(Error error) noexcept override;

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
  [[nodiscard]] Result<void> begin_copy(std::size_t chunk, ConstByteSpan raw);
  [[nodiscard]] KeepAlive keep_of(ConstByteSpan raw) const noexcept;
  struct Copy {
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
