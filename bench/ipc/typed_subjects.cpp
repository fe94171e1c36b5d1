// fp32 that is wanted as bf16: converted on its way, or before or behind it.

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <gantry/gantry.hpp>

#include "gantry_ends.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

/// Where it is converted, and how it travels.
enum class Way {
  as_whole,
  as_pipelined,
  as_streamed,
  before_pipelined,  ///< Into a private buffer of the sender's, which is then sent.
  behind_whole,      ///< Out of the message, when it is whole, into the reader's buffer.
  behind_pipelined,  ///< The same, sent pipelined: the reader waits for the whole of it.
  reader_pipelined,  ///< By the reader, chunk by chunk as it lands.
  reader_streamed    ///< The same, out of a window.
};

bool is_by_channel(Way way) {
  return way == Way::as_whole || way == Way::as_pipelined || way == Way::as_streamed;
}
bool is_by_reader(Way way) {
  return way == Way::reader_pipelined || way == Way::reader_streamed;
}

SendMode mode_of(Way way) {
  if (way == Way::as_streamed || way == Way::reader_streamed) return SendMode::streamed;
  if (way == Way::as_whole || way == Way::behind_whole) return SendMode::whole;
  return SendMode::pipelined;
}

Tensor floats_of(Bytes bytes) {
  const auto count = static_cast<std::int64_t>(bytes / sizeof(float));
  return Tensor::dense(types::f32, {&count, 1});
}

/// The checksum of these floats as bf16, by a loop that has nothing of Gantry's: rounded to
/// nearest, ties to even; a NaN stays one, and quiet.
std::uint64_t checksum_as_bf16(ConstByteSpan floats) {
  std::uint64_t sum = 0;
  for (Bytes at = 0; at < floats.size(); at += sizeof(float)) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, floats.data() + at, sizeof bits);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const std::uint64_t half =
        is_nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    sum += half << (at / sizeof(float) % 4 * 16);  // where it lies in its word
  }
  return sum;
}

/// A conversion of its owner's, as whoever has no as() makes it: a move by the engine that copies
/// for send(), which chooses its stores by size. Into private memory that is touched once and kept.
class Converter {
 public:
  static Result<Converter> open(const Runtime& runtime, Bytes bytes) {
    auto plan = ReshapePlan::make(types::bf16, floats_of(bytes));
    if (!plan) return Unexpected(plan.error());
    auto lane = runtime.default_engine()->open_lane();
    if (!lane) return Unexpected(lane.error());
    return Converter(std::move(*plan), std::move(*lane));
  }
  [[nodiscard]] const ReshapePlan& plan() const noexcept { return plan_; }
  [[nodiscard]] ByteSpan bytes() const noexcept { return made_.bytes(); }

  Result<void> convert(ConstByteSpan floats) {
    const auto ticket =
        lane_->submit(Move::reshape(made_.bytes(), floats, plan_), SubmitMode::synchronous);
    if (!ticket) return Unexpected(ticket.error());
    if (lane_->wait(*ticket) == Outcome::done) return {};
    return Unexpected({Code::system, "the conversion did not end well", ""});
  }

 private:
  Converter(ReshapePlan plan, std::unique_ptr<Lane> lane)
      : plan_(std::move(plan)), lane_(std::move(lane)), made_(plan_.destination_bytes()) {}

  ReshapePlan plan_;
  std::unique_ptr<Lane> lane_;
  Buffer made_;
};

class TypedRequester final : public Requester {
 public:
  static Result<std::unique_ptr<Requester>> open(const std::string& directory, const Case& what,
                                                 Way way) {
    auto ends = EndsThereAndBack::for_requester(directory);
    if (!ends) return Unexpected(ends.error());
    auto converter = Converter::open(ends->runtime, what.bytes);
    if (!converter) return Unexpected(converter.error());
    return std::unique_ptr<Requester>(
        new TypedRequester(std::move(*ends), std::move(*converter), way));
  }

  Result<void> prepare(const Payload& payload) override {
    expected_ = checksum_as_bf16(payload.bytes());
    return {};
  }
  [[nodiscard]] std::uint64_t expected(const Payload&) const override { return expected_; }

  Result<void> send(const Payload& payload) override {
    const SendOptions options{.mode = mode_of(way_)};
    const ConstByteSpan bytes = payload.bytes();
    if (is_by_channel(way_))
      return ends_.out.send(Draft().copy(bytes, converter_.plan().source()).as(types::bf16),
                            options);
    if (way_ != Way::before_pipelined) return ends_.out.send(bytes, options);
    if (auto converted = converter_.convert(bytes); !converted) return converted;
    return ends_.out.send(converter_.bytes(), options);
  }

  Result<std::uint64_t> receive() override { return ends_.receive_sum(); }

 private:
  TypedRequester(EndsThereAndBack ends, Converter converter, Way way)
      : ends_(std::move(ends)), converter_(std::move(converter)), way_(way) {}

  EndsThereAndBack ends_;
  Converter converter_;
  std::uint64_t expected_ = 0;
  Way way_;
};

class TypedResponder final : public Responder {
 public:
  static Result<std::unique_ptr<Responder>> open(const std::string& directory, const Case& what,
                                                 Way way) {
    auto ends = EndsThereAndBack::for_responder(directory);
    if (!ends) return Unexpected(ends.error());
    auto converter = Converter::open(ends->runtime, what.bytes);
    if (!converter) return Unexpected(converter.error());
    return std::unique_ptr<Responder>(
        new TypedResponder(std::move(*ends), std::move(*converter), way));
  }

  Result<std::uint64_t> receive() override {
    if (is_by_reader(way_)) {
      const auto received = ends_.in.receive_into(converter_.bytes(), converter_.plan());
      if (!received) return Unexpected(received.error());
      return checksum(converter_.bytes());
    }
    if (way_ == Way::as_streamed || way_ == Way::as_pipelined || way_ == Way::before_pipelined)
      return sum_as_it_lands(ends_.in);
    const auto message = ends_.in.receive();
    if (!message) return Unexpected(message.error());
    if (is_by_channel(way_)) return checksum(message->segment(0).bytes);
    const auto converted = converter_.convert(message->bytes());
    if (!converted) return Unexpected(converted.error());
    return checksum(converter_.bytes());
  }

  Result<void> reply(std::uint64_t sum) override { return ends_.send_sum(sum); }

 private:
  TypedResponder(EndsThereAndBack ends, Converter converter, Way way)
      : ends_(std::move(ends)), converter_(std::move(converter)), way_(way) {}

  EndsThereAndBack ends_;
  Converter converter_;
  Way way_;
};

SubjectKind kind(std::string name, Way way) {
  SubjectKind made = SubjectOfWays<TypedRequester, TypedResponder, Way>::kind(std::move(name), way);
  made.is_typed = true;
  return made;
}

}  // namespace

std::vector<SubjectKind> typed_subjects() {
  return {kind(kAsWholeName, Way::as_whole),
          kind(kAsPipelinedName, Way::as_pipelined),
          kind(kAsStreamedName, Way::as_streamed),
          kind("convert-then-send", Way::before_pipelined),
          kind("send-then-convert/whole", Way::behind_whole),
          kind("send-then-convert/pipelined", Way::behind_pipelined),
          kind("convert-at-reader/pipelined", Way::reader_pipelined),
          kind("convert-at-reader/streamed", Way::reader_streamed)};
}

}  // namespace gantry::bench
