#include <poll.h>
#include <gantry/channel/status.hpp>
#include <gantry/image/keeping.hpp>

#include <algorithm>

#include "base/fork.hpp"
#include "base/result.hpp"
#include "base/system_memory.hpp"
#include "engine/inline/inline_engine.hpp"
#include "image/keep/kept_message.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;
// How often readers are looked at. One waits so much longer for an image that is not there.
constexpr std::chrono::milliseconds kBetweenLooks{10};
// For what loading reads before it unpacks, and the tables' copy.
constexpr Bytes kBuffers = Bytes{256} << 20;
constexpr Bytes kBuffersOfOne = Bytes{32} << 20;
constexpr int kRest = 4;
constexpr Bytes kSlab = Bytes{64} << 10;

// As its partitions lie in memory, each from a page on.
Bytes bytes_of(const Image& image) {
  Bytes bytes = 0;
  for (const ImagePartition& partition : image.partitions())
    bytes += image::up_to(partition.bytes, kImageBorder);
  return bytes;
}

/// An image with the channel that hands it out.
struct Kept {
  Kept(Image opened, KeptImage says) : image(std::move(opened)), status(std::move(says)) {}

  Image image;
  KeptImage status;
  std::optional<Producer> producer;
  Clock::time_point attached{};    // when its newest reader joined
  Clock::time_point not_before{};  // after a loading that failed, the next one
};

}  // namespace

struct GANTRY_LOCAL ImageKeeper::State {
  explicit State(KeepOptions asked) : options(std::move(asked)) {}

  [[nodiscard]] Result<void> add(const KeptFile& file);
  /// Takes the name, with nothing in it.
  [[nodiscard]] Result<void> open(Kept& kept);
  void count_readers(Kept& kept);
  /// Loads it, dropping others for it if it must. Errors: `busy` when those are in use.
  [[nodiscard]] Result<void> load(Kept& kept, Deadline deadline);
  [[nodiscard]] Result<void> make_room(Bytes bytes);
  [[nodiscard]] static Result<void> send(Kept& kept, ImageLoading& loading);
  [[nodiscard]] Result<void> try_loading(Kept& kept, Deadline deadline);
  [[nodiscard]] Result<void> pause(Deadline deadline) const;
  [[nodiscard]] Bytes in_memory() const;
  [[nodiscard]] Bytes in_use();

  const KeepOptions options;
  const ForkGuard fork_guard;
  Bytes budget = 0;
  std::function<void(const KeptImage&)> changed;
  std::vector<std::unique_ptr<Kept>> images;
};

Result<void> ImageKeeper::State::add(const KeptFile& file) {
  const auto is_same = [&](const auto& one) { return one->status.name == file.name; };
  if (std::ranges::any_of(images, is_same))
    return fail(Code::invalid_argument, fmt::format("two images of the name '{}'", file.name),
                "give each a name of its own");
  GANTRY_ASSIGN(Image image, Image::open(file.path));
  const auto has_bytes = [](const ImagePartition& one) { return one.bytes != 0; };
  const auto parts = std::ranges::count_if(image.partitions(), has_bytes);
  if (static_cast<std::size_t>(parts) > image::kMostKept)
    return fail(
        Code::too_large,
        fmt::format("{}: it has {} partitions; {} can be kept", file.path, parts, image::kMostKept),
        "pack it with a smaller --split");
  const Bytes bytes = bytes_of(image);
  if (bytes > budget)
    return fail(Code::too_large,
                fmt::format("{}: it has {} bytes, the budget {}", file.path, bytes, budget),
                "raise the keeper's budget, or keep a smaller image");
  KeptImage says{.name = file.name, .path = file.path, .bytes = bytes, .loaded = {}, .trouble = {}};
  auto kept = std::make_unique<Kept>(std::move(image), std::move(says));
  GANTRY_TRY(open(*kept));
  images.push_back(std::move(kept));
  return {};
}

Result<void> ImageKeeper::State::open(Kept& kept) {
  const EndOptions& ends = options;
  ProducerOptions how{ends, {.slots = 2}};  // one stays free: nobody holds it up
  how.consumers = ProducerOptions::kMaxConsumers;
  how.history = 1;
  how.pool.name = "image " + kept.status.name.substr(0, 64);
  how.pool.slab_bytes = kSlab;  // what is larger gets a slab of its own size
  // The keeper's budget is what counts. A block may be a sixteenth larger than what lies in it.
  how.pool.budget_bytes = kept.status.bytes / 8 * 9 + kBuffers + options.workers * kBuffersOfOne +
                          kept.image.tensors().size() * 512 + kept.image.chunks().size() * 32;
  how.pool.region.pages = options.pages;
  how.pool.collapse = options.collapse;
  GANTRY_ASSIGN(auto engine, make_inline_engine());
  kept.producer.reset();
  kept.status.is_there = false;
  auto producer = Producer::open(kept.status.name, how, std::move(engine));
  if (!producer && producer.error().code == Code::already_exists)
    return fail(Code::already_exists, producer.error().message,
                "keep the image under another name (--name), or stop that process");
  if (!producer) return tl::unexpected(producer.error());
  kept.producer = *std::move(producer);
  return {};
}

void ImageKeeper::State::count_readers(Kept& kept) {
  kept.status.readers = 0;
  if (!kept.producer) return;
  const ChannelExplanation says = kept.producer->explain();
  kept.status.readers = static_cast<unsigned>(says.status.consumers.size());
  auto newest = Clock::time_point::min();
  for (const ConsumerStatus& one : says.status.consumers)
    newest = std::max(newest, Clock::now() - one.joined);
  kept.attached = std::max(kept.attached, newest);
}

Bytes ImageKeeper::State::in_memory() const {
  Bytes bytes = 0;
  for (const auto& one : images) bytes += one->status.is_there ? one->status.bytes : 0;
  return bytes;
}

Bytes ImageKeeper::State::in_use() {
  Bytes bytes = 0;
  for (const auto& one : images) {
    count_readers(*one);
    bytes += one->status.is_there && one->status.readers != 0 ? one->status.bytes : 0;
  }
  return bytes;
}

Result<void> ImageKeeper::State::make_room(Bytes bytes) {
  if (in_use() + bytes > budget)
    return fail(Code::busy,
                fmt::format("no room for {} bytes: {} of {} are in use", bytes, in_use(), budget),
                "raise the budget, or end a reader of another image");
  while (in_memory() + bytes > budget) {
    Kept* oldest = nullptr;
    for (const auto& one : images) {
      count_readers(*one);
      if (!one->status.is_there || one->status.readers != 0) continue;
      if (oldest == nullptr || one->attached < oldest->attached) oldest = one.get();
    }
    if (oldest == nullptr)
      return fail(Code::busy, fmt::format("no room for {} bytes: others came meanwhile", bytes),
                  "raise the budget, or end a reader of another image");
    GANTRY_TRY(open(*oldest));
    if (changed) changed(oldest->status);
  }
  return {};
}

Result<void> ImageKeeper::State::load(Kept& kept, Deadline deadline) {
  if (!kept.producer) GANTRY_TRY(open(kept));  // another had its name for a moment
  GANTRY_TRY(make_room(kept.status.bytes));
  LoadOptions how;
  how.pool = kept.producer->pool();
  how.file_io = options.file_io;
  how.workers = options.workers;
  how.deadline = deadline;
  GANTRY_ASSIGN(ImageLoading loading, load_image(kept.image, how));
  for (;;) {
    const auto done = loading.wait(Deadline::after(kBetweenLooks));
    if (done) break;
    if (done.error().code != Code::timed_out || deadline.passed())
      return tl::unexpected(done.error());
    GANTRY_TRY(pause(Deadline::now()));
  }
  kept.status.loaded = loading.report();
  GANTRY_TRY(send(kept, loading));
  kept.status.is_there = true;
  return {};
}

// The blocks that partitions lie in are found by where their first tensors are.
Result<void> ImageKeeper::State::send(Kept& kept, ImageLoading& loading) {
  const std::vector<std::byte> tables = image::write_kept(kept.image);
  Draft draft;
  draft.copy(tables);
  std::size_t partition = 0;
  for (const ImageTensor& tensor : kept.image.tensors()) {
    if (tensor.partition != partition) continue;
    const Bytes bytes = kept.image.partitions()[partition++].bytes;
    if (bytes == 0) continue;
    GANTRY_ASSIGN(const LoadedTensor first, loading.wait(tensor.name));
    GANTRY_ASSIGN(Block block, kept.producer->pool().find(first.bytes.data()));
    draft.move(std::move(block), bytes);
  }
  return kept.producer->send(std::move(draft), {.type = image::kKeptImage});
}

// Errors: `interrupted`. What else fails is said, and not tried again for some times as long as it
// took.
Result<void> ImageKeeper::State::try_loading(Kept& kept, Deadline deadline) {
  GANTRY_TRY(pause(Deadline::now()));
  if (Clock::now() < kept.not_before) return {};
  const auto began = Clock::now();
  const auto done = load(kept, deadline);
  if (kept.producer) kept.producer->pool().trim();
  if (!done && done.error().code == Code::interrupted) return tl::unexpected(done.error());
  if (!done) kept.not_before = Clock::now() + kRest * (Clock::now() - began);
  const std::string trouble = done ? std::string() : to_string(done.error());
  if (!done && trouble == kept.status.trouble) return {};
  kept.status.trouble = trouble;
  if (changed) changed(kept.status);
  return {};
}

// Until it is time for another look.
Result<void> ImageKeeper::State::pause(Deadline deadline) const {
  pollfd interrupt{options.interrupt_descriptor, POLLIN, 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left());
  const auto wait = std::clamp<std::chrono::milliseconds>(left, {}, kBetweenLooks);
  if (::poll(&interrupt, 1, static_cast<int>(wait.count())) > 0)
    return fail(Code::interrupted, "interrupted");
  return {};
}

// ---- the handle ------------------------------------------------------------------------------

ImageKeeper::ImageKeeper(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
ImageKeeper::ImageKeeper(ImageKeeper&&) noexcept = default;
ImageKeeper& ImageKeeper::operator=(ImageKeeper&&) noexcept = default;
ImageKeeper::~ImageKeeper() = default;

Result<ImageKeeper> ImageKeeper::open(const std::vector<KeptFile>& files,
                                      const KeepOptions& options) {
  return guarded([&]() -> Result<ImageKeeper> {
    if (files.empty()) return fail(Code::invalid_argument, "no images to keep");
    auto state = std::make_unique<State>(options);
    state->budget =
        options.budget_bytes != 0 ? options.budget_bytes : system_memory().total / 5 * 4;
    for (const KeptFile& file : files) GANTRY_TRY(state->add(file));
    return ImageKeeper(std::move(state));
  });
}

Result<void> ImageKeeper::serve(const std::function<void(const KeptImage&)>& changed,
                                Deadline deadline) {
  if (!state_->fork_guard.is_this())
    return fail(Code::invalid_argument, "a keeper of the parent's, after fork()",
                "open one in this process");
  return guarded([&]() -> Result<void> {
    State& state = *state_;
    state.changed = changed;
    for (const auto& one : state.images)
      if (!one->status.is_there && state.in_memory() + one->status.bytes <= state.budget)
        GANTRY_TRY(state.try_loading(*one, deadline));
    for (;;) {
      GANTRY_TRY(state.pause(deadline));
      if (deadline.passed()) return fail(Code::timed_out, "the time to keep images is up");
      for (const auto& one : state.images) state.count_readers(*one);  // and when they came
      for (const auto& one : state.images)
        if (!one->producer || (!one->status.is_there && one->status.readers != 0))
          GANTRY_TRY(state.try_loading(*one, deadline));
    }
  });
}

std::vector<KeptImage> ImageKeeper::images() const {
  std::vector<KeptImage> all;
  for (const auto& one : state_->images) {
    state_->count_readers(*one);
    all.push_back(one->status);
  }
  return all;
}

}  // namespace gantry
