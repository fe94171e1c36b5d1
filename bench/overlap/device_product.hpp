#pragma once  // bench/overlap/device_product.hpp: a product on one device, in pieces and beside
              // copies.

#include <chrono>
#include <functional>
#include <gantry/gemm.hpp>
#include <gantry/plan.hpp>
#include <optional>
#include <vector>

#include "../support/system/buffer.hpp"

namespace gantry::bench {

inline constexpr Bytes kCopyBytes = Bytes{32} << 20;

/// What runs on the device beside products.
enum class Neighbour : std::uint8_t { none, copy_in, copy_out, both_copies, kernel_copy };
[[nodiscard]] std::string_view name_of(Neighbour neighbour) noexcept;

[[nodiscard]] inline double ns_between(Deadline::Clock::time_point from,
                                       Deadline::Clock::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

struct BesideFigures {
  double product_ns = 0;     ///< Of one product, by the device's clock.
  double copied_per_ns = 0;  ///< Bytes copied while products ran; both directions.
};

/// The matrices of one product: a in host memory that is page-locked where the device gains by it,
/// and a, b and c on the device. Elements of a are 1 or -1, one in eight of b's is, the others are
/// 0: no sum is rounded, in no order. After each call c is compared with that of the whole product,
/// of which samples are computed here.
class DeviceProduct {
 public:
  /// Errors: those of the device, `unsupported` (a type that its library lacks).
  [[nodiscard]] static Result<std::unique_ptr<DeviceProduct>> make(std::shared_ptr<Device> device,
                                                                   std::string_view type,
                                                                   std::int64_t m, std::int64_t n,
                                                                   std::int64_t k);

  // Nanoseconds from the first call to the end of all.
  [[nodiscard]] Result<double> in_rows(std::int64_t pieces);
  [[nodiscard]] Result<double> in_depth(std::int64_t pieces);
  /// a comes from the host, each piece while the one before is multiplied; b lies there.
  [[nodiscard]] Result<double> streamed(std::int64_t pieces);
  /// The same as a plan of one rank, with b and c on the device.
  [[nodiscard]] Result<double> planned(std::int64_t pieces);
  [[nodiscard]] Result<double> transfer_alone();

  [[nodiscard]] Result<BesideFigures> beside(Neighbour neighbour);

  [[nodiscard]] const GemmFacts& facts() const noexcept { return library_->facts(); }

 private:
  using Events = std::vector<DeviceEvent>;

  DeviceProduct(std::shared_ptr<Device> device, DataType type, std::int64_t m, std::int64_t n,
                std::int64_t k);

  struct Planned {
    std::int64_t pieces;
    std::unique_ptr<Group> group;  // the executor knows where it is
    std::optional<PlanExecutor> executor;
  };
  [[nodiscard]] Result<Planned> prepare_plan(std::int64_t pieces);

  [[nodiscard]] Result<void> open();
  [[nodiscard]] Result<void> fill();
  [[nodiscard]] Result<void> check_samples();
  [[nodiscard]] Result<double> timed(const std::function<Result<void>()>& submit);
  [[nodiscard]] Result<void> spoil_result();  ///< Here and there.
  [[nodiscard]] Result<void> spoil(const DeviceBuffer& buffer);
  [[nodiscard]] Result<void> compare();
  [[nodiscard]] Result<DeviceEvent> multiply(std::int64_t row, std::int64_t rows,
                                             std::int64_t depth, std::int64_t depths);
  [[nodiscard]] Result<DeviceEvent> copy_once(Neighbour neighbour, DeviceQueue& queue);
  [[nodiscard]] Result<double> copy_ns(Neighbour neighbour, DeviceQueue& queue);
  [[nodiscard]] Result<Events> submit_copies(Neighbour neighbour, DeviceQueue& queue,
                                             double for_ns);
  [[nodiscard]] Result<void> compare_copies(Neighbour neighbour);
  [[nodiscard]] Bytes bytes_of(std::int64_t elements) const noexcept {
    return static_cast<Bytes>(elements) * (type_.bits / 8u);
  }

  const std::shared_ptr<Device> device_;
  const DataType type_;
  const std::int64_t m_, n_, k_;
  std::shared_ptr<DeviceGemmLibrary> library_;
  Kernel copy_kernel_;
  Buffer host_a_, host_b_, host_c_, host_in_, host_out_;
  std::vector<Registration> registrations_;
  std::vector<std::byte> whole_;
  DeviceBuffer a_, b_, c_, in_from_host_, out_to_host_, kernel_to_;
  std::unique_ptr<DeviceQueue> in_, out_, compute_, kernel_queue_;
  std::optional<Planned> planned_;  // of the last call
};

}  // namespace gantry::bench
