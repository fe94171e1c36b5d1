#include "device_product.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <random>

#include "../support/system/posix.hpp"

namespace gantry::bench {
namespace {

using Clock = Deadline::Clock;

constexpr int kSamples = 200;
constexpr std::byte kSpoilt{0xff};  // a NaN of every type

constexpr const char* kCopyOpenCl = R"(
kernel void copy_words(global const uint4* from, global uint4* to, ulong count) {
  size_t i = get_global_id(0);
  if (i < count) to[i] = from[i];
})";
constexpr const char* kCopyCuda = R"(
extern "C" __global__ void copy_words(const uint4* from, uint4* to, unsigned long long count) {
  unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
})";

ProgramSource copy_source() {
  ProgramSource source{.name = "copy"};
  source.opencl.source = kCopyOpenCl;
  source.cuda.source = kCopyCuda;
  source.cpu["copy_words"] = [](const CpuArguments& with, const CpuSlice& slice) -> Result<void> {
    constexpr std::size_t kWord = 16;
    std::memcpy(with.bytes(1).data() + slice.first * kWord,
                with.bytes(0).data() + slice.first * kWord, (slice.last - slice.first) * kWord);
    return {};
  };
  return source;
}

struct NamedType {
  std::string_view name;
  DataType type;
  std::uint32_t one;
};
constexpr NamedType kTypes[] = {{"f32", {DataType::floating, 32, 1}, 0x3f800000},
                                {"bf16", {DataType::bfloat, 16, 1}, 0x3f80}};

// Of both types a float's upper bits.
float value_at(const Buffer& buffer, DataType type, std::int64_t index) {
  const std::size_t size = type.bits / 8u;
  std::uint32_t bits = 0;
  std::memcpy(reinterpret_cast<std::byte*>(&bits) + (sizeof bits - size),
              buffer.bytes().data() + static_cast<std::size_t>(index) * size, size);
  return std::bit_cast<float>(bits);
}

/// 1 or -1 with a chance of one in `rarity`, else 0.
void draw(const Buffer& buffer, DataType type, std::uint32_t rarity, std::uint32_t seed) {
  const std::size_t size = type.bits / 8u;
  const auto* const named = std::ranges::find(kTypes, type, &NamedType::type);
  const std::uint32_t sign = std::uint32_t{1} << (type.bits - 1);
  std::minstd_rand random(seed);
  for (std::size_t at = 0; at + size <= buffer.bytes().size(); at += size) {
    const auto number = static_cast<std::uint32_t>(random() >> 8);
    std::uint32_t bits = number / 2 % rarity == 0 ? named->one : 0;
    if (bits != 0 && number % 2 != 0) bits |= sign;
    std::memcpy(buffer.bytes().data() + at, &bits, size);
  }
}

}  // namespace

std::string_view name_of(Neighbour neighbour) noexcept {
  switch (neighbour) {
    case Neighbour::none:
      return "alone";
    case Neighbour::copy_in:
      return "copies-in";
    case Neighbour::copy_out:
      return "copies-out";
    case Neighbour::both_copies:
      return "copies-both-ways";
    case Neighbour::kernel_copy:
      break;
  }
  return "copying-kernel";
}

DeviceProduct::DeviceProduct(std::shared_ptr<Device> device, DataType type, std::int64_t m,
                             std::int64_t n, std::int64_t k)
    : device_(std::move(device)),
      type_(type),
      m_(m),
      n_(n),
      k_(k),
      host_a_(bytes_of(m * k)),
      host_b_(bytes_of(k * n)),
      host_c_(bytes_of(m * n)),
      host_in_(kCopyBytes),
      host_out_(kCopyBytes) {}

Result<std::unique_ptr<DeviceProduct>> DeviceProduct::make(std::shared_ptr<Device> device,
                                                           std::string_view type, std::int64_t m,
                                                           std::int64_t n, std::int64_t k) {
  const auto* const named = std::ranges::find(kTypes, type, &NamedType::name);
  std::unique_ptr<DeviceProduct> made(new DeviceProduct(std::move(device), named->type, m, n, k));
  if (auto opened = made->open(); !opened) return Unexpected(opened.error());
  if (auto filled = made->fill(); !filled) return Unexpected(filled.error());
  return made;
}

Result<void> DeviceProduct::open() {
  auto library = open_gemm(device_);
  if (!library) return Unexpected(library.error());
  library_ = *std::move(library);
  auto program = device_->build(copy_source());
  if (!program) return Unexpected(program.error());
  auto kernel = program->kernel("copy_words");
  if (!kernel) return Unexpected(kernel.error());
  copy_kernel_ = *std::move(kernel);
  for (const auto& [queue, role] :
       {std::pair{&in_, QueueRole::copy_in}, std::pair{&out_, QueueRole::copy_out},
        std::pair{&compute_, QueueRole::compute}, std::pair{&kernel_queue_, QueueRole::compute}}) {
    auto opened = device_->open_queue(role);
    if (!opened) return Unexpected(opened.error());
    *queue = *std::move(opened);
  }
  for (const auto& [buffer, bytes] :
       {std::pair{&a_, bytes_of(m_ * k_)}, std::pair{&b_, bytes_of(k_ * n_)},
        std::pair{&c_, bytes_of(m_ * n_)}, std::pair{&in_from_host_, kCopyBytes},
        std::pair{&out_to_host_, kCopyBytes}, std::pair{&kernel_to_, kCopyBytes}}) {
    auto made = device_->allocate(bytes);
    if (!made) return Unexpected(made.error());
    *buffer = *std::move(made);
  }
  if (!device_->facts().registering_pays) return {};
  auto registrar = device_->registrar();
  if (!registrar) return Unexpected(registrar.error());
  for (const Buffer* const buffer : {&host_a_, &host_c_, &host_in_, &host_out_}) {
    const ByteSpan bytes = buffer->bytes();
    auto registration = (*registrar)->register_memory({bytes.data(), whole_pages(bytes.size())});
    if (!registration) return Unexpected(registration.error());
    registrations_.push_back(*std::move(registration));
  }
  return {};
}

// Computes the whole product once, which warms up its library, and keeps it to compare with.
Result<void> DeviceProduct::fill() {
  draw(host_a_, type_, 1, 1);
  draw(host_b_, type_, 8, 2);
  draw(host_in_, type_, 1, 3);
  for (const auto& [to, from] :
       {std::pair{&a_, &host_a_}, std::pair{&b_, &host_b_}, std::pair{&out_to_host_, &host_in_}})
    if (auto copied = in_->copy_in(*to, 0, from->bytes()); !copied)
      return Unexpected(copied.error());
  if (auto drained = in_->drain(); !drained) return drained;
  if (auto ran = timed([&]() -> Result<void> {
        if (auto queued = multiply(0, m_, 0, k_); !queued) return Unexpected(queued.error());
        return {};
      });
      !ran)
    return Unexpected(ran.error());
  const ByteSpan bytes = host_c_.bytes();
  whole_.assign(bytes.begin(), bytes.end());
  return check_samples();
}

Result<void> DeviceProduct::check_samples() {
  std::mt19937_64 random(5);
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(m_));
    const auto col = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n_));
    float wanted = 0;
    for (std::int64_t p = 0; p < k_; ++p)
      wanted += value_at(host_a_, type_, row * k_ + p) * value_at(host_b_, type_, p * n_ + col);
    const float seen = value_at(host_c_, type_, row * n_ + col);
    if (seen != wanted)
      return Unexpected({Code::system,
                         fmt::format("c[{}, {}] is {} and has to be {}", row, col, seen, wanted),
                         ""});
  }
  return {};
}

Result<void> DeviceProduct::spoil(const DeviceBuffer& buffer) {
  if (auto filled = compute_->fill(buffer, 0, buffer.size(), kSpoilt); !filled)
    return Unexpected(filled.error());
  return compute_->drain();
}

Result<void> DeviceProduct::spoil_result() {
  std::ranges::fill(host_c_.bytes(), kSpoilt);
  return spoil(c_);
}

Result<void> DeviceProduct::compare() {
  if (auto copied = out_->copy_out(c_, 0, host_c_.bytes()); !copied)
    return Unexpected(copied.error());
  if (auto drained = out_->drain(); !drained) return drained;
  if (whole_.empty() || std::memcmp(whole_.data(), host_c_.bytes().data(), whole_.size()) == 0)
    return {};
  return Unexpected({Code::system, "a product in pieces differs from the whole one", ""});
}

Result<double> DeviceProduct::timed(const std::function<Result<void>()>& submit) {
  if (auto spoilt = spoil_result(); !spoilt) return Unexpected(spoilt.error());
  const auto begin = Clock::now();
  const auto submitted = submit();
  for (DeviceQueue* const queue : {in_.get(), compute_.get()})
    if (auto drained = queue->drain(); !drained) return Unexpected(drained.error());
  const double ns = ns_between(begin, Clock::now());
  if (!submitted) return Unexpected(submitted.error());
  if (auto same = compare(); !same) return Unexpected(same.error());
  return ns;
}

// Rows of a and c, and a part of the depth, of which the first overwrites.
Result<DeviceEvent> DeviceProduct::multiply(std::int64_t row, std::int64_t rows, std::int64_t depth,
                                            std::int64_t depths) {
  return library_->multiply(*compute_, {.type = type_,
                                        .m = rows,
                                        .n = n_,
                                        .k = depths,
                                        .a = {&a_, bytes_of(row * k_ + depth), k_},
                                        .b = {&b_, bytes_of(depth * n_), n_},
                                        .c = {&c_, bytes_of(row * n_), n_},
                                        .adds = depth != 0});
}

namespace {
/// Calls `piece(first, count)` for as many parts of `side`, of sizes that differ by at most one.
template <class Piece>
Result<void> in_pieces(std::int64_t side, std::int64_t pieces, Piece piece) {
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t first = side * i / pieces;
    const std::int64_t end = side * (i + 1) / pieces;
    if (end == first) continue;
    if (auto done = piece(first, end - first); !done) return Unexpected(done.error());
  }
  return {};
}
}  // namespace

Result<double> DeviceProduct::in_rows(std::int64_t pieces) {
  return timed([&] {
    return in_pieces(m_, pieces, [&](std::int64_t first, std::int64_t count) {
      return multiply(first, count, 0, k_);
    });
  });
}

Result<double> DeviceProduct::in_depth(std::int64_t pieces) {
  return timed([&] {
    return in_pieces(k_, pieces, [&](std::int64_t first, std::int64_t count) {
      return multiply(0, m_, first, count);
    });
  });
}

// A product that does not wait for its piece of a finds what is no number.
Result<double> DeviceProduct::streamed(std::int64_t pieces) {
  if (auto spoilt = spoil(a_); !spoilt) return Unexpected(spoilt.error());
  return timed([&] {
    return in_pieces(
        m_, pieces, [&](std::int64_t first, std::int64_t count) -> Result<DeviceEvent> {
          const Bytes at = bytes_of(first * k_);
          auto there = in_->copy_in(a_, at, host_a_.bytes().subspan(at, bytes_of(count * k_)));
          if (!there) return there;
          if (auto waits = compute_->wait_for(*there); !waits) return Unexpected(waits.error());
          return multiply(first, count, 0, k_);
        });
  });
}

// Pieces of a are copied anew in each run, since it lies in the host's memory.
Result<DeviceProduct::Planned> DeviceProduct::prepare_plan(std::int64_t pieces) {
  Plan plan{.ranks = 1};
  plan.tensors = {{"a", m_, k_, type_}, {"b", k_, n_, type_}, {"c", m_, n_, type_}};
  const auto whole = [&](unsigned tensor) {
    return PlanPlace{0, tensor, {0, 0, plan.tensors[tensor].rows, plan.tensors[tensor].cols}};
  };
  plan.given = {{whole(0), {{"A"}}}, {whole(1), {{"B"}}}};
  plan.wanted = {{whole(2), {{.left = "A", .right = "B", .first = 0, .last = k_}}}};
  const auto added =
      in_pieces(m_, pieces, [&](std::int64_t first, std::int64_t count) -> Result<void> {
        PlanStep step{PlanVerb::gemm, 0, 0, whole(2), whole(0), whole(1), false, {}};
        step.from.rect = {first, 0, count, k_};
        step.to.rect = {first, 0, count, n_};
        plan.steps.push_back(std::move(step));
        return {};
      });
  if (!added) return Unexpected(added.error());
  std::vector<std::unique_ptr<gantry::Link>> links(1);
  GroupOptions alone;
  alone.name = "bench-overlap";
  alone.ranks = 1;
  auto group = Group::over(alone, std::move(links));
  if (!group) return Unexpected(group.error());
  Planned made{pieces, std::make_unique<Group>(std::move(*group)), {}};
  const PlanMemory memory[] = {{host_a_.bytes().data()}, {.buffer = &b_}, {.buffer = &c_}};
  auto executor = PlanExecutor::prepare(*made.group, plan, memory,
                                        {.device = device_, .device_gemm = library_});
  if (!executor) return Unexpected(executor.error());
  made.executor.emplace(std::move(*executor));
  return made;
}

Result<double> DeviceProduct::planned(std::int64_t pieces) {
  if (!planned_ || planned_->pieces != pieces) {
    planned_.reset();
    auto made = prepare_plan(pieces);
    if (!made) return Unexpected(made.error());
    planned_.emplace(std::move(*made));
  }
  return timed([&]() -> Result<void> {
    const auto ran = planned_->executor->run();
    if (!ran) return Unexpected(ran.error());
    return {};
  });
}

Result<double> DeviceProduct::transfer_alone() {
  const auto begin = Clock::now();
  if (auto queued = in_->copy_in(a_, 0, host_a_.bytes()); !queued)
    return Unexpected(queued.error());
  if (auto drained = in_->drain(); !drained) return Unexpected(drained.error());
  return ns_between(begin, Clock::now());
}

}  // namespace gantry::bench
