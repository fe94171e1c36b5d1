#include <poll.h>
#include <gantry/image.hpp>
#include <gantry/runtime.hpp>

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/event.hpp"
#include "core/base/os/fork.hpp"
#include "core/base/os/system_memory.hpp"
#include "core/base/result.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "image/keep/kept_message.hpp"

namespace gantry {
namespace {

using Clock = std::chrono::steady_clock;
// How often a loading is looked at, or a name that another process has for a moment.
constexpr std::chrono::milliseconds kBetweenLooks{10};
// For what loading reads before it unpacks, and the tables' copy.
constexpr Bytes kBuffers = Bytes{256} << 20;
constexpr Bytes kBuffersOfOne = Bytes{32} << 20;
constexpr int kRest = 4;
constexpr std::int64_t kMostPollMs = 60'000;
constexpr Bytes kSlab = Bytes{64} << 10;

Deadline at_most(std::chrono::nanoseconds wait, Deadline deadline) noexcept {
  return deadline.is_never() || deadline.left() > wait ? Deadline::after(wait) : deadline;
}

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
  bool is_due = true;              // it is loaded although nobody waits for it, if there is room
  std::optional<Error> trouble;    // why it could not be loaded
  bool is_told = false;            // its channel's message is that trouble
};

}  // namespace

struct GANTRY_LOCAL ImageKeeper::State {
  explicit State(KeepOptions asked) : options(std::move(asked)) {}

  [[nodiscard]] Result<void> add(const KeptFile& file) {
    const auto is_same = [&](const auto& one) { return one->status.name == file.name; };
    if (std::ranges::any_of(images, is_same))
      return fail(Code::invalid_argument, fmt::format("two images of the name '{}'", file.name),
                  "give each a name of its own");
    GANTRY_ASSIGN(Image image, Image::open(file.path));
    const auto has_bytes = [](const ImagePartition& one) { return one.bytes != 0; };
    const auto parts = std::ranges::count_if(image.partitions(), has_bytes);
    if (static_cast<std::size_t>(parts) > image::kMostKept)
      return fail(Code::too_large,
                  fmt::format("{}: it has {} partitions; {} can be kept", file.path, parts,
                              image::kMostKept),
                  "pack it with a smaller --split");
    const Bytes bytes = bytes_of(image);
    if (bytes > budget)
      return fail(Code::too_large,
                  fmt::format("{}: it has {} bytes, the budget {}", file.path, bytes, budget),
                  "raise the keeper's budget, or keep a smaller image");
    KeptImage says{
        .name = file.name, .path = file.path, .bytes = bytes, .loaded = {}, .trouble = {}};
    auto kept = std::make_unique<Kept>(std::move(image), std::move(says));
    GANTRY_TRY(open(*kept));
    images.push_back(std::move(kept));
    return {};
  }

  /// Takes the name, with nothing in it.
  [[nodiscard]] Result<void> open(Kept& kept) {
    const EndOptions& ends = options;
    ProducerOptions how{ends, {.slots = 2}};  // one stays free: nobody holds it up
    how.consumers = ProducerOptions::kMaxConsumers;
    how.consumers_event = readers_change.get();
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
    kept.status.is_there = kept.is_told = false;
    auto producer = Producer::open(kept.status.name, how, std::move(engine));
    if (!producer && producer.error().code == Code::already_exists)
      return fail(Code::already_exists, producer.error().message,
                  "keep the image under another name (--name), or stop that process");
    if (!producer) return tl::unexpected(producer.error());
    kept.producer = *std::move(producer);
    return {};
  }

  void count_readers(Kept& kept) {
    kept.status.readers = 0;
    if (!kept.producer) return;
    const ChannelExplanation says = kept.producer->explain();
    kept.status.readers = static_cast<unsigned>(says.status.consumers.size());
    auto newest = Clock::time_point::min();
    for (const ConsumerStatus& one : says.status.consumers)
      newest = std::max(newest, Clock::now() - one.joined);
    kept.attached = std::max(kept.attached, newest);
  }

  /// Does what can be done without waiting.
  void look() {
    for (const auto& one : images) count_readers(*one);  // and when they came
    if (loading) {
      const auto done = loading->job.wait(Deadline::now());
      if (!done && done.error().code == Code::timed_out) return;
      Loading over = *std::exchange(loading, std::nullopt);
      over.kept->status.loaded = over.job.report();
      settle(*over.kept, done ? send(*over.kept, over.job) : done, over.began);
    }
    for (const auto& one : images) {
      if (one->is_told && one->status.readers == 0)  // who comes next is told how it stands then
        if (const auto opened = open(*one); !opened) settle(*one, opened, Clock::now());
      if (!is_wanted(*one)) {
        tell(*one);
        continue;
      }
      const auto began = Clock::now();
      if (const auto begun = begin(*one); !begun) settle(*one, begun, began);
      if (loading) return;
    }
  }

  /// Waits until there may be something to do. Errors: `interrupted`.
  [[nodiscard]] Result<void> pause(Deadline deadline) {
    const auto has_no_name = [](const auto& one) { return !one->producer.has_value(); };
    if (std::ranges::any_of(images, has_no_name)) deadline = at_most(kBetweenLooks, deadline);
    if (loading) {
      static_cast<void>(loading->job.wait(at_most(kBetweenLooks, deadline)));
      deadline = Deadline::now();
    }
    std::array<pollfd, 2> awaited{
        {{options.interrupt_descriptor, POLLIN, 0}, {readers_change.get(), POLLIN, 0}}};
    const int wait_ms = static_cast<int>(std::clamp<std::int64_t>(
        std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count(), 0, kMostPollMs));
    ::poll(awaited.data(), awaited.size(), deadline.is_never() ? -1 : wait_ms);
    if (awaited[0].revents != 0) return fail(Code::interrupted, "interrupted");
    drain(readers_change.get());
    return {};
  }

  [[nodiscard]] bool is_wanted(Kept& kept) {
    if (kept.status.is_there) return false;
    if (std::exchange(kept.is_due, false) && in_memory() + kept.status.bytes <= budget) return true;
    return (!kept.producer || kept.status.readers != 0) && Clock::now() >= kept.not_before;
  }
  // To each who waits, and to those who come, until all of them have gone.
  void tell(Kept& kept) {
    if (!kept.trouble || !kept.producer || kept.is_told || kept.status.readers == 0) return;
    kept.is_told = kept.producer
                       ->send(image::write_trouble(*kept.trouble),
                              {.deadline = Deadline::now(),
                               .type = image::kKeptTrouble,
                               .user = static_cast<std::uint64_t>(kept.trouble->code)})
                       .has_value();
  }

  /// Begins to load it, dropping others for it if it must. Errors: `busy` when those are in use.
  [[nodiscard]] Result<void> begin(Kept& kept) {
    GANTRY_TRY(make_room(kept.status.bytes));
    if (!kept.producer || kept.is_told) GANTRY_TRY(open(kept));
    LoadOptions how;
    how.pool = kept.producer->pool();
    how.file_io = options.file_io;
    how.workers = options.workers;
    const auto began = Clock::now();
    GANTRY_ASSIGN(ImageLoading job, load_image(kept.image, how));
    loading = Loading{&kept, began, std::move(job)};
    return {};
  }

  [[nodiscard]] Result<void> make_room(Bytes bytes) {
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

  // The blocks that partitions lie in are found by where their first tensors are.
  [[nodiscard]] static Result<void> send(Kept& kept, ImageLoading& loading) {
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

  // What fails is said, and not tried again for some times as long as it took. Room comes when
  // readers go, which is heard of.
  void settle(Kept& kept, const Result<void>& done, Clock::time_point began) {
    if (kept.producer) kept.producer->pool().trim();
    kept.status.is_there = done.has_value();
    kept.trouble = done ? std::nullopt : std::optional(done.error());
    if (!done && done.error().code != Code::busy)
      kept.not_before = Clock::now() + kRest * (Clock::now() - began);
    const std::string trouble = done ? std::string() : to_string(done.error());
    const bool is_news = done || trouble != kept.status.trouble;
    kept.status.trouble = trouble;
    if (is_news && changed) changed(kept.status);
    tell(kept);
  }

  [[nodiscard]] Bytes in_memory() const {
    Bytes bytes = 0;
    for (const auto& one : images) bytes += one->status.is_there ? one->status.bytes : 0;
    return bytes;
  }
  [[nodiscard]] Bytes in_use() {
    Bytes bytes = 0;
    for (const auto& one : images) {
      count_readers(*one);
      bytes += one->status.is_there && one->status.readers != 0 ? one->status.bytes : 0;
    }
    return bytes;
  }

  struct Loading {
    Kept* kept;
    Clock::time_point began;
    ImageLoading job;
  };

  const KeepOptions options;
  const ForkGuard fork_guard;
  Bytes budget = 0;
  std::function<void(const KeptImage&)> changed;
  Fd readers_change;  // rung whenever somebody attaches an image, or lets go of one
  std::vector<std::unique_ptr<Kept>> images;
  std::optional<Loading> loading;  // one at a time; serve() may end and be called again meanwhile
};

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
    GANTRY_ASSIGN(state->readers_change, make_event());
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
    for (;;) {
      state.look();
      if (deadline.passed()) return fail(Code::timed_out, "the time to keep images is up");
      GANTRY_TRY(state.pause(deadline));
    }
  });
}

}  // namespace gantry
