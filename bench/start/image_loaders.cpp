// What Gantry does: an image, packed or not, by load_image().

#include <fmt/format.h>

#include <gantry/image/loading.hpp>
#include <gantry/runtime.hpp>
#include <optional>

#include "loaders.hpp"

namespace gantry::bench {
namespace {

template <WeightFile file>
class ImageLoader final : public Loader {
 public:
  ImageLoader(const Weights& weights, const DirectReads&) : weights_(weights) {}

  Result<void> load() override {
    const auto image = Image::open(weights_.path(file));
    if (!image) return Unexpected(image.error());
    auto io = make_file_io("io_uring");
    if (!io) io = make_plain_file_io(to_string(io.error()));
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

 private:
  const Weights& weights_;
  std::string io_;
  std::optional<ImageLoading> loading_;
  std::vector<LoadedTensor> tensors_;
};

}  // namespace

std::vector<LoaderKind> image_kinds() {
  using enum WeightFile;
  return {{kPlain, plain, true, make_loader<ImageLoader<plain>>},
          {kCompressed, packed, true, make_loader<ImageLoader<packed>>}};
}

}  // namespace gantry::bench
