#include "image/load/load_state.hpp"

#include <algorithm>

#include "base/result.hpp"
#include "image/format.hpp"
#include "image/tables.hpp"

namespace gantry {
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
  if (!taken)
    return fail(taken.error().code,
                fmt::format("{}: partition {}: {}", path, partition, taken.error().message),
                taken.error().hint);
  device_places_[partition] = *taken;
  places_[partition].keep = taken->buffer;
  if (taken->queue == nullptr) places_[partition].bytes = taken->buffer->host();
  return {};
}

Result<void> ImageLoading::State::start() {
  GANTRY_TRY(LoadJob::start({.file_io = options.file_io,
                             .pool = options.pool,
                             .workers = options.workers,
                             .has_places = !copies_.is_needed(),
                             .copies = copies_.is_needed() ? &copies_ : nullptr},
                            order_));
  const std::lock_guard lock(mutex_);
  if (copies_.is_needed()) report_.copied_from = copies_.copied_from();
  report_.workers = static_cast<unsigned>(workers.size());
  return {};
}

std::optional<std::size_t> ImageLoading::State::take(std::size_t) {
  const std::lock_guard lock(mutex_);
  if (error_ || taken_ == order_.size()) return std::nullopt;  // L3
  return order_[taken_++];
}

ImageLoading::State::Within ImageLoading::State::within(std::size_t chunk) const noexcept {
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

Result<void> ImageLoading::State::there(std::size_t chunk, ConstByteSpan raw,
                                        std::chrono::nanoseconds waited,
                                        std::chrono::nanoseconds unpacked) {
  const bool is_copied = device_places_[within(chunk).partition].queue != nullptr;
  if (is_copied) GANTRY_TRY(begin_copy(chunk, raw));
  {
    const std::lock_guard lock(mutex_);
    report_.stored_bytes += chunks[chunk].stored_bytes;
    report_.waited += waited;
    report_.unpacked += unpacked;
    if (!is_copied) is_there(chunk);
  }
  moved_.notify_all();
  return {};
}

// With the lock held.
void ImageLoading::State::is_there(std::size_t chunk) {
  is_there_[chunk] = true;  // L2
  report_.raw_bytes += chunks[chunk].raw_bytes;
  if (++there_ == order_.size()) report_.elapsed = std::chrono::steady_clock::now() - began_;
}

Result<void> ImageLoading::State::begin_copy(std::size_t chunk, ConstByteSpan raw) {
  const auto [partition, offset] = within(chunk);
  const DevicePlace& to = device_places_[partition];
  const std::lock_guard lock(mutex_);
  if (error_) return tl::unexpected(*error_);  // L3
  auto copy = to.queue->copy_in(*to.buffer, offset, raw, keep_of(raw));
  if (!copy) return at_chunk(chunk, copy.error());
  copying_.push_back({chunk, *std::move(copy)});
  return {};
}

// What a device that was given up may still read outlives the loading.
KeepAlive ImageLoading::State::keep_of(ConstByteSpan raw) const noexcept {
  for (const Worker& worker : workers)
    for (const auto* some : {&worker.buffers, &worker.raw})
      for (const LoadMemory& memory : *some)
        if (memory.bytes.data() == raw.data()) return memory.keep;
  return {};
}

Result<void> ImageLoading::State::settle(std::size_t chunk) {
  const auto copy = [&] {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(copying_, chunk, &Copy::chunk);
  }();
  if (copy == copying_.end()) return {};
  const auto began = std::chrono::steady_clock::now();
  if (const auto done = copy->event.wait(ends); !done) return not_copied(*copy, done.error());
  const auto timing = copy->event.timing();
  {
    const std::lock_guard lock(mutex_);
    report_.waited_for_bus += std::chrono::steady_clock::now() - began;
    if (timing) report_.copied += timing->span();
    report_.copied_bytes += chunks[chunk].raw_bytes;
    copying_.erase(copy);
    is_there(chunk);
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
  return fail(
      why.code,
      fmt::format("{}: {}", image::chunk_place(path, chunk, chunks[chunk].offset), why.message),
      why.hint);
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

}  // namespace gantry
