#include <gantry/image.hpp>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

#include "core/base/result.hpp"
#include "image/keep/kept_message.hpp"

namespace gantry {
namespace {

// What `gantry run` sets: names as in gantry/stage.hpp, which this component does not see.
constexpr const char* kEndsVariable = "GANTRY_STAGE_ENDS";
constexpr const char* kImagesVariable = "GANTRY_STAGE_IMAGES";

tl::unexpected<Error> keeps_none(std::string_view name) {
  return fail(Code::invalid_argument, fmt::format("channel '{}': it keeps no image", name),
              "gantry keep keeps one; gantry ls shows what has the name");
}

}  // namespace

// The consumer comes before the message, so that its keeper sees it go when the bytes are free.
struct GANTRY_LOCAL AttachedImage::State {
  explicit State(Consumer end) : consumer(std::move(end)) {}

  /// Errors as attach_image()'s.
  [[nodiscard]] Result<void> take(Message given) {
    message = std::move(given);
    if (message.info().type != image::kKeptImage) return keeps_none(name);
    const ConstByteSpan there = message.segment(0).bytes;
    const std::vector<std::byte> copy(there.begin(), there.end());
    GANTRY_ASSIGN(image::KeptTables kept, image::parse_kept(name, copy));
    digest = kept.digest;
    tables = std::move(kept.tables);
    std::size_t segment = 1;
    for (const ImagePartition& partition : tables.partitions) {
      ConstByteSpan& place = places.emplace_back();
      if (partition.bytes == 0) continue;
      if (segment < message.segments()) place = message.segment(segment++).bytes;
      if (reinterpret_cast<std::uintptr_t>(place.data()) % kImageTensorBorder != 0)
        return fail(
            Code::peer_misbehaved,
            fmt::format("image '{}': partition {} begins at no border", name, places.size() - 1),
            "start its keeper anew");
      if (place.size() != partition.bytes)
        return fail(Code::peer_misbehaved,
                    fmt::format("image '{}': partition {} has {} bytes; {} came", name,
                                places.size() - 1, partition.bytes, place.size()),
                    "start its keeper anew");
    }
    if (segment != message.segments())
      return fail(Code::peer_misbehaved,
                  fmt::format("image '{}': {} parts came, {} are its own", name, message.segments(),
                              segment),
                  "start its keeper anew");
    for (std::size_t i = 0; i < tables.tensors.size(); ++i) by_name[tables.tensors[i].name] = i;
    return {};
  }

  std::string name;
  Consumer consumer;
  Message message;
  ImageDigest digest;
  image::Tables tables;
  std::unordered_map<std::string_view, std::size_t> by_name;
  std::vector<ConstByteSpan> places;  // of partitions
};

AttachedImage::AttachedImage(std::shared_ptr<const State> state) noexcept
    : state_(std::move(state)) {}

const std::string& AttachedImage::name() const noexcept {
  return state_->name;
}
const ImageDigest& AttachedImage::digest() const noexcept {
  return state_->digest;
}
std::span<const ImageTensor> AttachedImage::tensors() const noexcept {
  return state_->tables.tensors;
}
std::span<const ImagePartition> AttachedImage::partitions() const noexcept {
  return state_->tables.partitions;
}

Result<ConstByteSpan> AttachedImage::bytes(std::size_t partition) const {
  if (partition < state_->places.size()) return state_->places[partition];
  return fail(Code::invalid_argument, fmt::format("image '{}': there is no partition {}: it has {}",
                                                  state_->name, partition, state_->places.size()));
}

Result<LoadedTensor> AttachedImage::tensor(std::string_view name) const {
  const auto found = state_->by_name.find(name);
  if (found == state_->by_name.end())
    return fail(Code::not_found,
                fmt::format("image '{}': there is no tensor '{}'", state_->name, name),
                "gantry image ls shows the names of its file");
  const ImageTensor& tensor = state_->tables.tensors[found->second];
  const ConstByteSpan place = state_->places[tensor.partition];
  return LoadedTensor{tensor.tensor, place.subspan(tensor.offset, tensor.bytes), state_};
}

namespace {

tl::unexpected<Error> not_there(std::string_view name, const std::optional<Error>& why) {
  if (why)
    return fail(
        Code::timed_out,
        fmt::format("image '{}': it was not there when time was up: {}", name, why->message),
        why->hint);
  return fail(
      Code::timed_out, fmt::format("image '{}': it was not there when time was up", name),
      "is its gantry keep running, and what does it wait for? gantry ls lists who keeps what");
}

// A keeper that drops an image for another, or ends, may go between being found and being asked.
// What comes in place of an image that cannot be loaded ends the wait, unless the image may come
// yet.
Result<std::pair<Consumer, Message>> receive_image(std::string_view name,
                                                   const ConsumerOptions& options,
                                                   Deadline deadline) {
  std::optional<Error> waits_for;
  for (;;) {
    auto consumer = Consumer::open(name, options, deadline);
    if (!consumer && consumer.error().code == Code::already_exists)
      return fail(Code::busy,
                  fmt::format("image '{}': it has {} readers, which is the most", name,
                              ProducerOptions::kMaxConsumers),
                  "keep it under a second name as well");
    if (!consumer && consumer.error().code == Code::timed_out) return not_there(name, waits_for);
    if (!consumer) return tl::unexpected(consumer.error());
    auto message = consumer->receive(deadline);
    while (message && message->info().type == image::kKeptTrouble) {
      const ConstByteSpan there = message->bytes();
      const std::vector<std::byte> text(
          there.begin(), there.begin() + static_cast<std::ptrdiff_t>(std::min<Bytes>(
                                             there.size(), image::kMostTroubleBytes)));
      waits_for = image::parse_trouble(message->info().user,
                                       {reinterpret_cast<const char*>(text.data()), text.size()});
      if (waits_for->code != Code::busy)
        return fail(
            waits_for->code,
            fmt::format("image '{}': its keeper cannot load it: {}", name, waits_for->message),
            waits_for->hint);
      *message = {};
      message = consumer->receive(deadline);
    }
    if (message) return std::pair(*std::move(consumer), *std::move(message));
    const Code code = message.error().code;
    if (code == Code::timed_out) return not_there(name, waits_for);
    if (code == Code::closed) return keeps_none(name);  // a keeper's never ends
    if (code != Code::peer_gone) return tl::unexpected(message.error());
  }
}

}  // namespace

Result<AttachedImage> attach_image(std::string_view name, const ConsumerOptions& options,
                                   Deadline deadline) {
  return guarded([&]() -> Result<AttachedImage> {
    GANTRY_ASSIGN(auto received, receive_image(name, options, deadline));
    auto state = std::make_shared<AttachedImage::State>(std::move(received.first));
    state->name = name;
    GANTRY_TRY(state->take(std::move(received.second)));
    return AttachedImage(std::move(state));
  });
}

Result<AttachedImage> stage_image(std::string_view name, const ConsumerOptions& options,
                                  Deadline deadline) {
  const char* const given = std::getenv(kImagesVariable);
  if (std::getenv(kEndsVariable) == nullptr)
    return fail(Code::not_found,
                fmt::format("stage image '{}': this program was not started by `gantry run`", name),
                "name it as a stage in a pipeline file, or keep the image with gantry keep and use "
                "attach_image()");
  const std::string names = given == nullptr ? "none" : given;
  if (("," + names + ",").find(fmt::format(",{},", name)) == std::string::npos)
    return fail(Code::not_found,
                fmt::format("stage image '{}': it is not in the pipeline file, or this stage runs "
                            "on another host than `gantry run`",
                            name),
                fmt::format("images here: {}", names));
  return attach_image(name, options, deadline);
}

}  // namespace gantry
