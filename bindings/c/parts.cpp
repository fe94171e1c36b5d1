#include "parts.hpp"

#include <algorithm>
#include <vector>

namespace gantry::c {

static_assert(GANTRY_MAX_DIMENSIONS == Tensor::kMaxDimensions);
static_assert(GANTRY_MAX_PARTS == kMaxSegments);
static_assert(GANTRY_INT == int{DataType::signed_int} &&
              GANTRY_UINT == int{DataType::unsigned_int} &&
              GANTRY_FLOAT == int{DataType::floating} && GANTRY_BFLOAT == int{DataType::bfloat});
static_assert(GANTRY_MODE_IMMUTABLE == static_cast<int>(SendMode::immutable) &&
              GANTRY_MODE_STREAMED == static_cast<int>(SendMode::streamed) &&
              GANTRY_MODE_PIPELINED == static_cast<int>(SendMode::pipelined) &&
              GANTRY_MODE_WHOLE == static_cast<int>(SendMode::whole));

Tensor tensor_of(const gantry_tensor& given) noexcept {
  Tensor tensor;
  tensor.type = {given.type_code, given.type_bits, given.type_lanes};
  tensor.dimensions = given.dimensions;  // too many are refused when it is sent
  std::copy_n(given.shape, tensor.shape.size(), tensor.shape.begin());
  std::copy_n(given.strides, tensor.strides.size(), tensor.strides.begin());
  return tensor;
}

gantry_tensor tensor_for(const Tensor& tensor) noexcept {
  gantry_tensor given{
      tensor.type.code, tensor.type.bits, tensor.type.lanes, tensor.dimensions, {}, {}};
  std::copy_n(tensor.shape.begin(), tensor.shape.size(), given.shape);
  std::copy_n(tensor.strides.begin(), tensor.strides.size(), given.strides);
  return given;
}

namespace {

Error about_part(std::size_t index, const char* why, const char* hint = "") {
  return {Code::invalid_argument, "parts[" + std::to_string(index) + "]: " + why, hint};
}

Result<void> check_part(const gantry_part& part, std::size_t index) {
  const int kinds = (part.data != nullptr ? 1 : 0) + (part.block != nullptr ? 1 : 0) +
                    (part.message != nullptr ? 1 : 0);
  if (kinds > 1)
    return tl::unexpected(about_part(index, "more than one of data, block and message is set"));
  if (kinds == 0 && part.bytes != 0)
    return tl::unexpected(about_part(index, "its bytes are at NULL", "set data, block or message"));
  if (part.block != nullptr && !part.block->block)
    return tl::unexpected(about_part(index, "that block is empty"));
  if (part.message == nullptr) return {};
  if (part.tensor != nullptr || part.bytes != 0)
    return tl::unexpected(
        about_part(index, "a message travels on as it is", "leave bytes 0 and tensor NULL"));
  if (part.message->state == nullptr)
    return tl::unexpected(about_part(index, "that message is empty: it was forwarded"));
  if (part.message->state->request)
    return tl::unexpected(about_part(index, "a request cannot travel on", "send a copy of it"));
  if (part.message->state->look)
    return tl::unexpected(about_part(index, "a message that is looked at cannot travel on",
                                     "gantry_receive() it, or send a copy of it"));
  if (part.message->state->item)
    return tl::unexpected(
        about_part(index, "an item of a queue cannot travel on", "send a copy of it"));
  if (part.message->state.use_count() > 1)
    return fail(Code::busy, about_part(index, "there are views of that message").message,
                "free them first");
  return {};
}

/// The parts of the caller's array, whose elements may be larger than ours.
Result<std::vector<gantry_part>> read_parts(const gantry_part* parts, std::size_t count) {
  if (count > GANTRY_MAX_PARTS)
    return fail(Code::too_large, std::to_string(count) + " parts; at most " +
                                     std::to_string(GANTRY_MAX_PARTS) + " are possible");
  std::vector<gantry_part> read;
  if (count == 0) return read;
  GANTRY_C_TRY(check_pointer(parts, "parts"));
  read.reserve(count);
  const auto* next = reinterpret_cast<const unsigned char*>(parts);
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const part = reinterpret_cast<const gantry_part*>(next);
    GANTRY_C_ASSIGN(const std::size_t size, size_of(part, "gantry_part"));
    if (size != size_of(parts, "gantry_part"))
      return tl::unexpected(about_part(i, "its size is not that of parts[0]"));
    GANTRY_C_ASSIGN(gantry_part known, read_struct(part, "gantry_part"));
    GANTRY_C_TRY(check_part(known, i));
    for (const gantry_part& other : read)
      if (known.message != nullptr && other.message == known.message)
        return tl::unexpected(about_part(i, "that message is in another part, too"));
    read.push_back(known);
    next += size;
  }
  return read;
}

void add(Draft& draft, const gantry_part& part) {
  const auto tensor =
      part.tensor == nullptr ? std::nullopt : std::optional<Tensor>(tensor_of(*part.tensor));
  if (part.message != nullptr) {
    draft.forward(std::move(part.message->state->plain));
    part.message->state.reset();
  } else if (part.block != nullptr) {
    Block block = part.block->block.share();
    const Bytes bytes = part.bytes == 0 ? block.bytes().size() : part.bytes;
    draft.move(std::move(block), bytes, tensor);
  } else {
    draft.copy({static_cast<const std::byte*>(part.data), part.bytes}, tensor);
  }
}

}  // namespace

Result<Draft> draft_of(const gantry_part* parts, std::size_t count) {
  GANTRY_C_ASSIGN(const std::vector<gantry_part> known, read_parts(parts, count));
  Draft draft;
  for (const gantry_part& part : known) add(draft, part);
  return draft;
}

Result<Payload> payload_of(const gantry_part* parts, std::size_t count) {
  if (count == 0) return Payload{};
  if (count == 1 && parts != nullptr && parts->size == sizeof(gantry_part) &&
      parts->block == nullptr && parts->message == nullptr && parts->tensor == nullptr) {
    GANTRY_C_TRY(check_part(*parts, 0));
    return Payload{{static_cast<const std::byte*>(parts->data), parts->bytes}, std::nullopt};
  }
  GANTRY_C_ASSIGN(Draft draft, draft_of(parts, count));
  return Payload{{}, std::move(draft)};
}

Result<SendOptions> send_options_of(const gantry_send_options* options, std::int64_t timeout_ns) {
  GANTRY_C_ASSIGN(const gantry_send_options given, read_struct(options, "gantry_send_options"));
  SendOptions made;
  GANTRY_C_ASSIGN(made.deadline, deadline_of(timeout_ns));
  GANTRY_C_ASSIGN(made.mode, mode_of(given.mode));
  made.type = given.type;
  made.user = given.user;
  return made;
}

Result<std::uint32_t> type_of(const gantry_send_options* options) {
  GANTRY_C_ASSIGN(const gantry_send_options given, read_struct(options, "gantry_send_options"));
  if (given.mode == GANTRY_MODE_AUTOMATIC && given.user == 0) return given.type;
  return fail(Code::invalid_argument,
              "gantry_send_options: a call or a reply has neither a mode nor a word of the user's",
              "leave mode and user 0");
}

}  // namespace gantry::c
