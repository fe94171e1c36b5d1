// Tensors of a peer's, and whatever is asked for of them: a plan is refused in one line, or what it
// makes stays within both its sides, is the same however it is cut, and needs no more of the source
// than it says.
#include <cstring>
#include <gantry/shape.hpp>
#include <vector>

#include "fuzz/input.hpp"

namespace {

using namespace gantry;

constexpr Bytes kMost = Bytes{1} << 16;  // of each side; larger ones are only planned

DataType take_type(fuzz::Input& input) {
  static constexpr const char* kNames[] = {
      "u8",  "i8", "u16", "i16",  "i32",    "f16",  "bf16",   "f32",
      "f64", "u4", "i4",  "e2m1", "e4m3fn", "e5m2", "i8[32]", "u4[64,f32,zero]"};
  const auto which = input.take<std::uint8_t>();
  if (which < std::size(kNames)) return *parse_type(kNames[which]);
  return {input.take<std::uint8_t>(), input.take<std::uint8_t>(), input.take<std::uint16_t>()};
}

std::int64_t take_extent(fuzz::Input& input) {
  const auto small = input.take<std::int8_t>();
  return small == 127 ? input.take<std::int64_t>() : small;
}

template <class Number>
std::vector<Number> take_list(fuzz::Input& input) {
  std::vector<Number> list(input.take<std::uint8_t>() % 5);
  for (Number& number : list) number = static_cast<Number>(input.take<std::int8_t>());
  return list;
}

Tensor take_tensor(fuzz::Input& input) {
  Tensor tensor;
  tensor.type = take_type(input);
  tensor.dimensions = input.take<std::uint8_t>() % 10;
  for (std::int64_t& extent : tensor.shape) extent = take_extent(input);
  if (input.take<std::uint8_t>() % 2 == 0)
    return Tensor::dense(tensor.type, {tensor.shape.data(), std::min(tensor.dimensions, 8u)});
  for (std::int64_t& stride : tensor.strides) stride = take_extent(input);
  return tensor;
}

void try_plan(const ReshapePlan& plan, fuzz::Input& input) {
  fuzz::require(!plan.text().empty());
  if (plan.source_bytes() > kMost || plan.destination_bytes() > kMost) return;
  std::vector<std::byte> source(plan.source_bytes()), whole(plan.destination_bytes());
  const auto bytes = input.take_bytes(source.size());
  if (!bytes.empty()) std::memcpy(source.data(), bytes.data(), bytes.size());
  fuzz::require(plan.convert(whole, source));
  const Bytes cut = input.take<std::uint16_t>() % (whole.size() + 1);
  for (const ByteRange part : {ByteRange{0, cut}, ByteRange{cut, whole.size() - cut}}) {
    const ByteRange read = plan.source_of(part);
    fuzz::require(read.end() <= source.size());
    const std::vector<std::byte> needed(source.begin() + static_cast<std::ptrdiff_t>(read.from),
                                        source.begin() + static_cast<std::ptrdiff_t>(read.end()));
    std::vector<std::byte> made(part.bytes);
    fuzz::require(plan.convert(made, needed, part.from, read.from));
    fuzz::require(std::equal(made.begin(), made.end(),
                             whole.begin() + static_cast<std::ptrdiff_t>(part.from)));
  }
  const Bytes front = plan.destination_from(cut);
  fuzz::require(front <= whole.size() && plan.source_of({0, front}).end() <= cut);
}

template <class Plan>
void look_at(const Plan& plan, fuzz::Input& input) {
  if (plan)
    try_plan(*plan, input);
  else
    fuzz::require(plan.error().message.find('\n') == std::string::npos);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto kind = input.take<std::uint8_t>() % 4;
  const Tensor from = take_tensor(input);
  if (kind == 0) {
    look_at(ReshapePlan::make(take_type(input), from), input);
  } else if (kind == 1) {
    const Planes planes{static_cast<Planes::Unit>(input.take<std::uint8_t>() % 3),
                        take_extent(input), input.take<std::uint16_t>()};
    if (input.take<std::uint8_t>() % 2 == 0)
      look_at(ReshapePlan::to_planes(from, planes), input);
    else
      look_at(ReshapePlan::from_planes(from, planes), input);
  } else {
    const Tensor to = take_tensor(input);
    ReshapeOptions options;
    options.order = take_list<unsigned>(input);
    options.crop_from = take_list<std::int64_t>(input);
    options.pad_before = take_list<std::int64_t>(input);
    options.pad_behind = take_list<std::int64_t>(input);
    options.channel_dimension = input.take<std::uint8_t>() % 9;
    options.channels = take_list<unsigned>(input);
    options.scale = take_list<float>(input);
    options.offset = take_list<float>(input);
    look_at(ReshapePlan::make(to, from, options), input);
  }
  // As it comes off the wire.
  static_cast<void>(from.fits(kMost));
  look_at(As(take_type(input)).plan_for(from, kMost), input);
  return 0;
}
