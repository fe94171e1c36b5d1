#include "image/load/loading.hpp"

#include <algorithm>
#include <gantry/image.hpp>

#include "core/base/assert.hpp"
#include "core/base/os/disown.hpp"
#include "core/base/text_lines.hpp"
#include "image/tables.hpp"
#include "image/unpack_chunk.hpp"

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

namespace {

// Of chunks, for an estimate: some times as many as are under way at a time.
constexpr std::size_t kLeastSample = 32;
constexpr std::size_t kLeastInPlace = 96;
constexpr std::size_t kMostSample = 128;

}  // namespace

ImageLoading::State::State(const Image& image, const LoadOptions& asked)
    : LoadJob(image, asked.deadline),
      options(asked),
      places_(partitions.size()),
      device_places_(partitions.size()),
      is_there_(chunks.size()) {
  for (std::size_t i = 0; i < tensors.size(); ++i) by_name_[tensors[i].name] = i;
}

ImageLoading::State::~State() {
  join();
}

Result<void> ImageLoading::State::prepare(const Image& image, std::optional<double> share) {
  GANTRY_ASSIGN(report_.way, open_file(image));
  GANTRY_TRY(lay_order());
  all_chunks_ = order_.size();
  if (share) thin_out(*share);
  return take_places();
}

void ImageLoading::State::thin_out(double share) {
  const auto wanted = static_cast<std::size_t>(static_cast<double>(all_chunks_) * share);
  const std::size_t least = is_packed(order_) ? kLeastSample : kLeastInPlace;
  const auto sample = std::min(all_chunks_, std::clamp(wanted, least, kMostSample));
  for (std::size_t i = 0; i < sample; ++i) order_[i] = order_[i * all_chunks_ / sample];
  order_.resize(sample);
}

Result<void> ImageLoading::State::lay_order() {
  is_wanted_.assign(partitions.size(), options.partitions.empty());
  for (const std::size_t partition : options.partitions) {
    if (partition >= partitions.size())
      return fail(Code::invalid_argument, fmt::format("{}: there is no partition {}: it has {}",
                                                      path, partition, partitions.size()));
    is_wanted_[partition] = true;
  }
  std::vector<bool> is_laid(chunks.size());
  const auto lay = [&](std::size_t chunk) {
    if (!is_laid[chunk]) order_.push_back(chunk);
    is_laid[chunk] = true;
  };
  for (const std::string& name : options.first) {
    const auto found = find(name);
    if (!found) return fail(Code::invalid_argument, found.error().message + ": it cannot be first");
    const auto [from, end] = chunks_of(**found);
    for (std::size_t chunk = from; chunk < end; ++chunk) lay(chunk);
  }
  for (std::size_t i = 0; i < partitions.size(); ++i)
    for (std::size_t k = 0; is_wanted_[i] && k < partitions[i].chunks; ++k)
      lay(partitions[i].first_chunk + k);
  return {};
}

Result<void> ImageLoading::State::take_places() {
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    if (is_wanted_[i] && !options.devices.empty()) GANTRY_TRY(take_device_place(i));
    if (!is_wanted_[i] || !options.devices.empty() || partitions[i].bytes == 0) continue;
    GANTRY_ASSIGN(places_[i],
                  take_memory(options.pool, image::up_to(partitions[i].bytes, kImageBorder)));
  }
  return {};
}

Result<void> ImageLoading::State::take_device_place(std::size_t partition) {
  const std::size_t which = partition % options.devices.size();
  if (options.devices[which] == nullptr)
    return fail(Code::invalid_argument,
                fmt::format("{}: device {} of LoadOptions::devices is null", path, which),
                "open it, see Runtime::open_device()");
  auto taken = copies_.take(options.devices[which], partitions[partition].bytes);
  if (!taken) return prefixed(taken.error(), "{}: partition {}", path, partition);
  device_places_[partition] = *taken;
  places_[partition].keep = taken->buffer;
  if (taken->queue == nullptr) places_[partition].bytes = taken->buffer->host();
  return {};
}

Result<void> ImageLoading::State::start() {
  std::function<LoadMemory(LoadMemory)> registered;
  if (copies_.is_needed())
    registered = [this](LoadMemory memory) { return copies_.registered(std::move(memory)); };
  GANTRY_TRY(LoadJob::start({.file_io = options.file_io,
                             .pool = options.pool,
                             .workers = options.workers,
                             .has_places = !copies_.is_needed(),
                             .registered = registered},
                            order_));
  const std::lock_guard lock(mutex_);
  if (copies_.is_needed()) report_.copied_from = copies_.copied_from();
  report_.workers = static_cast<unsigned>(workers.size());
  return {};
}

std::optional<LoadJob::Turn> ImageLoading::State::take(Worker&, bool) {
  std::size_t chunk = 0;
  {
    const std::lock_guard lock(mutex_);
    if (error_ || taken_ == order_.size()) return std::nullopt;  // L3
    chunk = order_[taken_++];                                    // L1
  }
  if (chunks[chunk].coding.codec != Codec::none) return Turn{chunk};
  return Turn{chunk, place_of(chunk, image::up_to(chunks[chunk].stored_bytes, file->alignment()))};
}

ImageLoading::State::Within ImageLoading::State::within(std::size_t chunk) const noexcept {
  GANTRY_DEBUG_ASSERT(chunk < chunks.size());
  // Partitions without chunks have the first chunk of the next one, which stands behind them.
  const auto next = std::ranges::upper_bound(partitions, chunk, {}, &ImagePartition::first_chunk);
  const auto partition = static_cast<std::size_t>(next - partitions.begin()) - 1;
  return {partition, (chunk - partitions[partition].first_chunk) * kImageChunkBytes};
}

LoadMemory ImageLoading::State::place_of(std::size_t chunk, Bytes bytes) const {
  const auto [partition, offset] = within(chunk);
  const LoadMemory& place = places_[partition];
  if (place.bytes.empty()) return {};
  return {place.bytes.subspan(offset, bytes), place.keep};
}

// Returns where its raw bytes are.
Result<ByteSpan> ImageLoading::State::unpack(Worker& worker, const Came& came) const {
  const ImageChunk& facts = chunks[came.chunk];
  ByteSpan raw = came.stored;
  if (facts.coding.codec != Codec::none) {
    raw = place_of(came.chunk, facts.raw_bytes).bytes;
    if (raw.empty())
      raw = worker.raw[worker.unpacked++ % worker.raw.size()].bytes.first(facts.raw_bytes);
  }
  GANTRY_TRY(image::unpack_chunk(worker.decoder, path, came.chunk, facts, came.stored, raw));
  return raw;
}

Result<void> ImageLoading::State::there(Worker& worker, const Came& came) {
  const auto began = std::chrono::steady_clock::now();
  GANTRY_ASSIGN(const ByteSpan raw, unpack(worker, came));
  const auto unpacked = std::chrono::steady_clock::now() - began;
  GANTRY_TRY(settle(worker));
  const bool is_copied = device_places_[within(came.chunk).partition].queue != nullptr;
  if (is_copied) GANTRY_TRY(begin_copy(worker, came.chunk, raw));
  {
    const std::lock_guard lock(mutex_);
    report_.stored_bytes += chunks[came.chunk].stored_bytes;
    report_.waited += came.waited;
    report_.unpacked += unpacked;
    if (!is_copied) is_there(came.chunk);
  }
  moved_.notify_all();
  return {};
}

// With the lock held.
void ImageLoading::State::is_there(std::size_t chunk) {
  GANTRY_DEBUG_ASSERT(!is_there_[chunk]);  // L1
  is_there_[chunk] = true;                 // L2
  report_.raw_bytes += chunks[chunk].raw_bytes;
  GANTRY_DEBUG_ASSERT(there_ < taken_);
  if (++there_ == order_.size()) report_.elapsed = std::chrono::steady_clock::now() - began_;
}

// What a device that was given up may still read outlives the loading.
Result<void> ImageLoading::State::begin_copy(const Worker& worker, std::size_t chunk,
                                             ConstByteSpan raw) {
  KeepAlive keep;
  for (const auto* some : {&worker.buffers, &worker.raw})
    for (const LoadMemory& memory : *some)
      if (memory.bytes.data() == raw.data()) keep = memory.keep;
  const auto [partition, offset] = within(chunk);
  const DevicePlace& to = device_places_[partition];
  const std::lock_guard lock(mutex_);
  if (error_) return tl::unexpected(*error_);  // L3
  auto copy = to.queue->copy_in(*to.buffer, offset, raw, keep);
  if (!copy) return at_chunk(chunk, copy.error());
  copying_.push_back({worker.number, chunk, *std::move(copy)});
  return {};
}

Result<void> ImageLoading::State::settle(const Worker& worker) {
  const auto copy = [&] {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(copying_, worker.number, &Copy::worker);
  }();
  if (copy == copying_.end()) return {};
  const auto began = std::chrono::steady_clock::now();
  if (const auto done = copy->event.wait(ends); !done) return not_copied(*copy, done.error());
  const auto timing = copy->event.timing();
  {
    const std::lock_guard lock(mutex_);
    report_.waited_for_bus += std::chrono::steady_clock::now() - began;
    if (timing) report_.copied += timing->span();
    report_.copied_bytes += chunks[copy->chunk].raw_bytes;
    is_there(copy->chunk);
    copying_.erase(copy);
  }
  moved_.notify_all();
  return {};
}

// One that failed ends those behind it, of whichever worker; it is still among copying_.
tl::unexpected<Error> ImageLoading::State::not_copied(const Copy& copy, const Error& why) {
  const std::lock_guard lock(mutex_);
  for (const Copy& first : copying_)
    if (first.event.outcome() == Outcome::failed)
      return at_chunk(first.chunk, first.event.wait().error());
  return at_chunk(copy.chunk, why);
}

tl::unexpected<Error> ImageLoading::State::at_chunk(std::size_t chunk, const Error& why) const {
  return prefixed(why, "{}", image::chunk_place(path, chunk, chunks[chunk].offset));
}

void ImageLoading::State::end(Error error) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (error_ || there_ == order_.size()) return;
    error_ = std::move(error);
    report_.elapsed = std::chrono::steady_clock::now() - began_;
  }
  cancel_lanes();
  copies_.cancel();
  moved_.notify_all();
}

template <class IsSo>
bool ImageLoading::State::wait_until(std::unique_lock<std::mutex>& lock, Deadline deadline,
                                     const IsSo& is_so) {
  while (!is_so() && !error_) {
    if (deadline.passed()) return false;
    if (deadline.is_never())
      moved_.wait(lock);
    else
      moved_.wait_for(lock, deadline.left());
  }
  return true;
}

Result<const ImageTensor*> ImageLoading::State::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end())
    return fail(Code::not_found, fmt::format("{}: there is no tensor '{}'", path, name),
                "gantry image ls shows their names");
  const ImageTensor& tensor = tensors[found->second];
  if (!is_wanted_[tensor.partition])
    return fail(Code::not_found,
                fmt::format("{}: tensor '{}' is in partition {}, which is not loaded", path, name,
                            tensor.partition));
  return &tensor;
}

std::pair<std::size_t, std::size_t> ImageLoading::State::chunks_of(
    const ImageTensor& tensor) const {
  const std::size_t first = partitions[tensor.partition].first_chunk;
  if (tensor.bytes == 0) return {first, first};
  return {first + tensor.offset / kImageChunkBytes,
          first + (tensor.offset + tensor.bytes - 1) / kImageChunkBytes + 1};
}

Result<LoadedTensor> ImageLoading::State::wait_for(std::string_view name, Deadline deadline) {
  GANTRY_ASSIGN(const ImageTensor* const tensor, find(name));
  const auto chunks_of_it = chunks_of(*tensor);
  std::unique_lock lock(mutex_);
  const auto is_whole = [&] {
    for (std::size_t chunk = chunks_of_it.first; chunk < chunks_of_it.second; ++chunk)
      if (!is_there_[chunk]) return false;
    return true;
  };
  if (!wait_until(lock, deadline, is_whole))
    return fail(Code::timed_out,
                fmt::format("{}: tensor '{}' was not there when time was up", path, name),
                "allow more time, or name it in LoadOptions::first");
  if (!is_whole()) return tl::unexpected(*error_);
  const LoadMemory& place = places_[tensor->partition];
  LoadedTensor loaded{.tensor = tensor->tensor,
                      .bytes = {},
                      .keep = place.keep,
                      .buffer = device_places_[tensor->partition].buffer};
  if (!place.bytes.empty())
    loaded.bytes = ConstByteSpan(place.bytes).subspan(tensor->offset, tensor->bytes);
  if (loaded.buffer != nullptr) loaded.offset = tensor->offset;
  return loaded;
}

Result<void> ImageLoading::State::wait_for_all(Deadline deadline) {
  std::unique_lock lock(mutex_);
  const auto is_whole = [&] { return there_ == order_.size(); };
  if (!wait_until(lock, deadline, is_whole))
    return fail(
        Code::timed_out,
        fmt::format("{}: {} of {} chunks were there when time was up", path, there_, order_.size()),
        "allow more time");
  if (!is_whole()) return tl::unexpected(*error_);
  return {};
}

// In a rate that leaves the first chunks out, or follows a line through all, what a disk gives at
// once or holds back for a while counts for more than it is.
std::chrono::nanoseconds ImageLoading::State::time_of_all() {
  const std::lock_guard lock(mutex_);
  if (order_.size() == all_chunks_) return report_.elapsed;
  return report_.elapsed * static_cast<std::int64_t>(all_chunks_) /
         static_cast<std::int64_t>(order_.size());
}

LoadReport ImageLoading::State::report() {
  const std::lock_guard lock(mutex_);
  LoadReport now = report_;
  if (!error_ && there_ < order_.size()) now.elapsed = std::chrono::steady_clock::now() - began_;
  return now;
}

Result<DevicePlace> DeviceCopies::take(const std::shared_ptr<Device>& device, Bytes size) {
  const Bytes room = image::up_to(std::max<Bytes>(size, 1), kImageBorder);
  GANTRY_ASSIGN(DeviceBuffer made, device->allocate(room));
  DevicePlace place{std::make_shared<const DeviceBuffer>(std::move(made))};
  const ByteSpan seen = place.buffer->host();
  if (seen.empty() || reinterpret_cast<std::uintptr_t>(seen.data()) % kImageBorder != 0) {
    GANTRY_ASSIGN(place.queue, queue_to(device));
  }
  return place;
}

Result<DeviceQueue*> DeviceCopies::queue_to(const std::shared_ptr<Device>& device) {
  std::unique_ptr<DeviceQueue>& queue = queues_[device.get()];
  if (queue != nullptr) return queue.get();
  GANTRY_ASSIGN(queue, device->open_queue(QueueRole::copy_in));
  if (!device->facts().registering_pays) return queue.get();
  if (auto registrar = device->registrar())
    registrars_.push_back(*std::move(registrar));
  else
    why_not_ = to_string(registrar.error());
  return queue.get();
}

LoadMemory DeviceCopies::registered(LoadMemory memory) {
  struct Registered {
    LoadMemory memory;
    std::vector<Registration> registrations;  // they end before the memory does
  };
  if (registrars_.empty()) return memory;
  const auto both = std::make_shared<Registered>(Registered{std::move(memory), {}});
  for (const std::shared_ptr<Registrar>& registrar : registrars_) {
    auto made = registrar->register_memory(both->memory.bytes);
    if (made)
      both->registrations.push_back(*std::move(made));
    else if (made.error().code != Code::already_exists)  // by the pool, or for another device
      why_not_ = to_string(made.error());
  }
  return {both->memory.bytes, both};
}

std::string DeviceCopies::copied_from() const {
  if (!why_not_.empty()) return fmt::format("memory that is not registered ({})", why_not_);
  return registrars_.empty() ? "memory as it is" : "registered memory";
}

void DeviceCopies::cancel() noexcept {
  for (const auto& [device, queue] : queues_)
    if (queue != nullptr) queue->cancel();
}

}  // namespace gantry
