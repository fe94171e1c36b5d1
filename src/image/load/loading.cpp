#include <gantry/image/loading.hpp>

#include <algorithm>

#include "base/disown.hpp"
#include "base/result.hpp"
#include "image/load/load_state.hpp"

namespace gantry {
namespace {

using Seconds = std::chrono::duration<double>;

tl::unexpected<Error> of_the_parent() {
  return fail(Code::invalid_argument, "a loading of the parent's, after fork()",
              "load the image in this process");
}

constexpr double kSampledShare = 0.125;

double gb_per_s(Bytes bytes, std::chrono::nanoseconds time) {
  return time.count() > 0 ? static_cast<double>(bytes) / Seconds(time).count() / 1e9 : 0;
}

}  // namespace

std::string_view to_string(LoadBound bound) noexcept {
  switch (bound) {
    case LoadBound::disk:
      return "the disk";
    case LoadBound::unpacking:
      return "unpacking";
    case LoadBound::bus:
      break;
  }
  return "the bus";
}

LoadBound LoadReport::bound() const noexcept {
  if (waited_for_bus > std::max(waited, unpacked)) return LoadBound::bus;
  return waited >= unpacked ? LoadBound::disk : LoadBound::unpacking;
}

std::string LoadReport::text() const {
  std::string text = fmt::format(
      "{:.1f} MiB in {:.3f} s, {:.2f} GB/s: {:.1f} MiB read {} at {:.2f} GB/s, unpacked and "
      "checked at "
      "{:.2f} GB/s by each of {} workers",
      static_cast<double>(raw_bytes) / (1 << 20), Seconds(elapsed).count(),
      gb_per_s(raw_bytes, elapsed), static_cast<double>(stored_bytes) / (1 << 20), way,
      gb_per_s(stored_bytes, elapsed), gb_per_s(raw_bytes, unpacked), workers);
  if (!copied_from.empty())
    text += fmt::format(", {:.1f} MiB copied to devices at {:.2f} GB/s from {}",
                        static_cast<double>(copied_bytes) / (1 << 20),
                        gb_per_s(copied_bytes, copied), copied_from);
  return fmt::format("{}; {} bounded it", text, to_string(bound()));
}

std::string LoadEstimate::text() const {
  return fmt::format("{:.3f} s, by a sample: {}", Seconds(time).count(), sample.text());
}

ImageLoading::ImageLoading(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
ImageLoading::ImageLoading(ImageLoading&&) noexcept = default;
ImageLoading& ImageLoading::operator=(ImageLoading&& other) noexcept {
  if (this == &other) return *this;
  forget();
  state_ = std::move(other.state_);
  return *this;
}
ImageLoading::~ImageLoading() {
  forget();
}

// A fork's copy may have threads of the parent's waiting in it, for whom its end would wait.
void ImageLoading::forget() noexcept {
  if (state_ == nullptr) return;
  if (state_->fork_guard.is_this())
    cancel();
  else
    disown(std::move(state_));
}

Result<LoadedTensor> ImageLoading::wait(std::string_view tensor, Deadline deadline) {
  if (!state_->fork_guard.is_this()) return of_the_parent();
  return guarded([&] { return state_->wait_for(tensor, deadline); });
}

Result<void> ImageLoading::wait(Deadline deadline) {
  if (!state_->fork_guard.is_this()) return of_the_parent();
  return guarded([&] { return state_->wait_for_all(deadline); });
}

void ImageLoading::cancel() noexcept {
  if (state_->fork_guard.is_this())
    state_->end({Code::interrupted, state_->path + ": its loading was cancelled", {}});
}

LoadReport ImageLoading::report() const {
  if (!state_->fork_guard.is_this()) return {};
  return state_->report();
}

Result<ImageLoading> load_image(const Image& image, const LoadOptions& options) {
  return guarded([&]() -> Result<ImageLoading> {
    ImageLoading loading(std::make_shared<ImageLoading::State>(image, options));
    GANTRY_TRY(loading.state_->prepare(image));
    GANTRY_TRY(loading.state_->start());
    return loading;
  });
}

Result<LoadEstimate> estimate_load(const Image& image, const LoadOptions& options) {
  return guarded([&]() -> Result<LoadEstimate> {
    LoadOptions own = options;
    own.pool.reset();
    ImageLoading::State sample(image, own);
    GANTRY_TRY(sample.prepare(image, kSampledShare));
    Result<void> done = sample.start();
    if (done) done = sample.wait_for_all(Deadline::never());
    if (!done) {
      sample.end(done.error());  // its threads end before they are waited for
      return tl::unexpected(done.error());
    }
    return LoadEstimate{sample.time_of_all(), sample.report()};
  });
}

}  // namespace gantry
