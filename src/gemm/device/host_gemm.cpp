#include <array>
#include <gantry/gemm/device.hpp>
#include <mutex>

#include "base/result.hpp"
#include "gemm/checked.hpp"

namespace gantry {
namespace {

/// A matrix in host memory, of at least one element, in bytes.
struct HostMatrix {
  Bytes rows = 0;
  Bytes row_bytes = 0;
  Bytes stride_bytes = 0;
  [[nodiscard]] Bytes dense_bytes() const noexcept { return rows * row_bytes; }
};

void copy_matrix(std::byte* to, Bytes to_stride, const std::byte* from, Bytes from_stride,
                 const HostMatrix& matrix) {
  for (Bytes row = 0; row < matrix.rows; ++row)
    std::memcpy(to + row * to_stride, from + row * from_stride, matrix.row_bytes);
}

/// What the device copies from and to. A device that is given up may go on with a copy after its
/// queue has ended, so operations hold this, and the caller's memory is never theirs.
struct StagedMatrices {
  std::array<std::vector<std::byte>, 3> dense;
};

class HostGemm final : public CheckedGemm {
 public:
  HostGemm(std::shared_ptr<Device> device, std::shared_ptr<DeviceGemmLibrary> library,
           std::unique_ptr<DeviceQueue> queue)
      : CheckedGemm(library->facts()),
        device_(std::move(device)),
        library_(std::move(library)),
        queue_(std::move(queue)) {}

 protected:
  bool takes_element(Element element) const noexcept override {
    return library_->takes(type_of(element));
  }

  Result<void> compute(const Gemm& product, Element element) override {
    const std::lock_guard lock(mutex_);
    const Bytes bytes = bytes_of(element);
    if (staged_ == nullptr) staged_ = std::make_shared<StagedMatrices>();
    const auto queued = guarded([&] { return queue_all(product, bytes); });
    const auto drained = queue_->drain();
    if (queued && drained) {
      const HostMatrix c = matrix_of(product.m, product.n, product.c_stride, bytes);
      copy_matrix(product.c, c.stride_bytes, staged_->dense[2].data(), c.row_bytes, c);
      return {};
    }
    staged_.reset();  // what failed may still be at it
    return queued ? drained : queued;
  }

 private:
  static HostMatrix matrix_of(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                              Bytes bytes) noexcept {
    return {static_cast<Bytes>(rows), static_cast<Bytes>(cols) * bytes,
            static_cast<Bytes>(stride) * bytes};
  }

  Result<void> queue_all(const Gemm& product, Bytes bytes) {
    const auto& [type, m, n, k, a, a_stride, b, b_stride, c, c_stride, adds] = product;
    GANTRY_TRY(bring(0, a, matrix_of(m, k, a_stride, bytes), true));
    GANTRY_TRY(bring(1, b, matrix_of(k, n, b_stride, bytes), true));
    GANTRY_TRY(bring(2, c, matrix_of(m, n, c_stride, bytes), adds));
    GANTRY_TRY(library_->multiply(*queue_, {.type = type,
                                            .m = m,
                                            .n = n,
                                            .k = k,
                                            .a = {&buffers_[0], 0, k},
                                            .b = {&buffers_[1], 0, n},
                                            .c = {&buffers_[2], 0, n},
                                            .adds = adds}));
    GANTRY_TRY(queue_->copy_out(buffers_[2], 0, staged_->dense[2], staged_));
    return {};
  }

  /// Makes room for a matrix, and copies it there if it `counts`.
  Result<void> bring(std::size_t which, const std::byte* from, const HostMatrix& matrix,
                     bool counts) {
    std::vector<std::byte>& dense = staged_->dense[which];
    dense.resize(matrix.dense_bytes());
    if (buffers_[which].size() < dense.size()) {
      buffers_[which] = {};
      GANTRY_ASSIGN(buffers_[which], device_->allocate(dense.size()));
    }
    if (!counts) return {};
    copy_matrix(dense.data(), matrix.row_bytes, from, matrix.stride_bytes, matrix);
    GANTRY_TRY(queue_->copy_in(buffers_[which], 0, dense, staged_));
    return {};
  }

  const std::shared_ptr<Device> device_;
  const std::shared_ptr<DeviceGemmLibrary> library_;
  std::mutex mutex_;
  std::shared_ptr<StagedMatrices> staged_;
  std::array<DeviceBuffer, 3> buffers_;
  std::unique_ptr<DeviceQueue> queue_;  // goes first, and waits for what uses the buffers
};

}  // namespace

Result<std::shared_ptr<GemmLibrary>> make_host_gemm(
    const std::shared_ptr<Device>& device, const std::shared_ptr<DeviceGemmLibrary>& library) {
  return guarded([&]() -> Result<std::shared_ptr<GemmLibrary>> {
    if (device == nullptr || library == nullptr)
      return fail(Code::invalid_argument, "gemm: no device, or no library of its products");
    GANTRY_ASSIGN(auto queue, device->open_queue(QueueRole::compute));
    return std::make_shared<HostGemm>(device, library, std::move(queue));
  });
}

}  // namespace gantry
