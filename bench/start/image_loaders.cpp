// What Gantry does: an image, packed or not, by load_image().

#include <fmt/format.h>

#include <array>
#include <gantry/image.hpp>
#include <optional>

#include "../support/report/statistics.hpp"
#include "loaders.hpp"
#include "starts.hpp"

namespace gantry::bench {
namespace {

class ImageLoader : public Loader {
 public:
  ImageLoader(const Weights& weights, WeightFile file) : weights_(weights), file_(file) {}

  Result<void> load() override {
    const auto image = Image::open(weights_.path(file_));
    if (!image) return Unexpected(image.error());
    auto io = best_file_io();
    if (!io) return Unexpected(io.error());
    io_ = (*io)->name();
    auto loading = load_image(*image, {.file_io = *std::move(io)});
    if (!loading) return Unexpected(loading.error());
    loading_.emplace(*std::move(loading));
    for (const WeightTensor& tensor : weights_.tensors()) {
      auto loaded = loading_->wait(tensor.name);
      if (!loaded) return Unexpected(loaded.error());
      tensors_.push_back(*std::move(loaded));
    }
    return loading_->wait();
  }
  ConstByteSpan tensor(std::size_t index) const override { return tensors_[index].bytes; }
  std::string chosen() const override {
    const LoadReport report = loading_->report();
    return fmt::format(
        "{:.2f} of the size read, {}, {} workers, {}",
        static_cast<double>(report.stored_bytes) / static_cast<double>(report.raw_bytes), io_,
        report.workers, report.way);
  }

 protected:
  const Weights& weights_;
  WeightFile file_;

 private:
  std::string io_;
  std::optional<ImageLoading> loading_;
  std::vector<LoadedTensor> tensors_;
};

template <WeightFile file>
class LoaderOf final : public ImageLoader {
 public:
  LoaderOf(const Weights& weights, const DirectReads&) : ImageLoader(weights, file) {}
};

/// What `gantry pack --codec auto` would have made: packed if that loads 5 % quicker, by the median
/// of some estimates in turns.
class AutoLoader final : public ImageLoader {
 public:
  AutoLoader(const Weights& weights, const DirectReads&) : ImageLoader(weights, kFiles[0]) {}

  Result<void> prepare() override {
    auto io = best_file_io();
    if (!io) return Unexpected(io.error());
    std::array<std::vector<double>, kFiles.size()> seconds;
    for (int round = 0; round < 3; ++round)
      for (std::size_t i = 0; i < kFiles.size(); ++i) {
        const auto image = Image::open(weights_.path(kFiles[i]));
        if (!image) return Unexpected(image.error());
        const auto estimate = estimate_load(*image, {.file_io = *io});
        if (!estimate) return Unexpected(estimate.error());
        seconds[i].push_back(std::chrono::duration<double>(estimate->time).count());
      }
    const double plain = median(seconds[0]), packed = median(seconds[1]);
    if (plain > packed * 1.05) file_ = kFiles[1];
    text_ = fmt::format("; by estimates of {:.3f} s as it is, {:.3f} s packed", plain, packed);
    return {};
  }
  std::string chosen() const override { return ImageLoader::chosen() + text_; }

 private:
  static constexpr std::array kFiles{WeightFile::plain, WeightFile::packed};
  std::string text_;
};

}  // namespace

std::vector<LoaderKind> image_kinds() {
  using enum WeightFile;
  return {{kPlain, plain, true, make_loader<LoaderOf<plain>>},
          {kCompressed, packed, true, make_loader<LoaderOf<packed>>},
          {kAuto, packed, true, make_loader<AutoLoader>}};
}

}  // namespace gantry::bench
