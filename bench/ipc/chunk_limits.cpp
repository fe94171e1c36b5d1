// What the caches allow a copy: bytes go over in chunks, into one of N places in turn, and are read
// as they arrive; or the receiver copies them from where the sender wrote them. No slots, no
// credits, nobody to let in: two lines and the payload.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "shared_memory.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr Bytes kLeastChunk = Bytes{16} << 10;
constexpr Bytes kMostMemory = Bytes{256} << 20;
constexpr std::array kPlaces = {1u, 8u, 32u, 128u, 512u};

/// The beginning of the shared memory, each line with one writer; the places follow.
struct alignas(4096) ChunkLines {
  Flag landed;  ///< Bytes of all messages so far.
  alignas(128) Flag answered;
};

/// What both ends know.
struct ChunkArea {
  ChunkLines& lines;
  ByteSpan places;
  Bytes bytes;
  bool receiver_copies;

  [[nodiscard]] ByteSpan place(std::uint64_t trip) const {
    const Bytes stride = (bytes + 4095) / 4096 * 4096;
    return places.subspan(trip % (places.size() / stride) * stride, bytes);
  }
  [[nodiscard]] Bytes chunk() const { return std::max(kLeastChunk, bytes / 16); }
};

class ChunkRequester final : public Requester {
 public:
  explicit ChunkRequester(ChunkArea area) : area_(area) {
    std::memset(area_.places.data(), 1, area_.places.size());  // brings the pages in
  }

  // The sender's own writing, which is not timed: the message lies where its receiver can map it.
  Result<void> prepare(const Payload& payload) override {
    if (area_.receiver_copies)
      std::memcpy(area_.place(trip_).data(), payload.bytes().data(), area_.bytes);
    return {};
  }
  Result<void> send(const Payload& payload) override {
    const std::uint64_t before = trip_ * area_.bytes;
    if (area_.receiver_copies) raise(area_.lines.landed, before + area_.bytes);
    for (Bytes at = 0; at < area_.bytes && !area_.receiver_copies;) {
      const Bytes size = std::min(area_.chunk(), area_.bytes - at);
      std::memcpy(area_.place(trip_).data() + at, payload.bytes().data() + at, size);
      raise(area_.lines.landed, before + (at += size));
    }
    return {};
  }
  Result<std::uint64_t> receive() override {
    await(area_.lines.answered, ++trip_);
    return area_.lines.answered.sum;
  }

 private:
  ChunkArea area_;
  std::uint64_t trip_ = 0;
};

class ChunkResponder final : public Responder {
 public:
  explicit ChunkResponder(ChunkArea area) : area_(area), mine_(area.bytes) {
    std::memset(mine_.bytes().data(), 1, mine_.bytes().size());
  }

  Result<std::uint64_t> receive() override {
    const ConstByteSpan place = area_.place(trip_);
    std::uint64_t sum = 0;
    for (Bytes at = 0; at < area_.bytes;) {
      const Bytes size = std::min(area_.chunk(), area_.bytes - at);
      await_at_least(area_.lines.landed, trip_ * area_.bytes + at + size, kPollsPerYield);
      sum += checksum(area_.receiver_copies ? copied(place, at, size) : place.subspan(at, size));
      at += size;
    }
    return sum;
  }
  Result<void> reply(std::uint64_t sum) override {
    area_.lines.answered.sum = sum;
    raise(area_.lines.answered, ++trip_);
    return {};
  }

 private:
  ConstByteSpan copied(ConstByteSpan place, Bytes at, Bytes size) {
    std::memcpy(mine_.bytes().data() + at, place.data() + at, size);
    return mine_.bytes().subspan(at, size);
  }

  ChunkArea area_;
  Buffer mine_;
  std::uint64_t trip_ = 0;
};

class ChunkLimit final : public Subject {
 public:
  ChunkLimit(Mapping memory, Bytes bytes, bool receiver_copies)
      : memory_(std::move(memory)),
        area_{*new(memory_.bytes().data()) ChunkLines, memory_.bytes().subspan(sizeof(ChunkLines)),
              bytes, receiver_copies} {}

  Result<std::unique_ptr<Requester>> open_requester() override {
    return std::make_unique<ChunkRequester>(area_);
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return std::make_unique<ChunkResponder>(area_);
  }

 private:
  Mapping memory_;
  ChunkArea area_;
};

SubjectKind chunk_limit(std::string name, unsigned places, bool receiver_copies) {
  const auto make = [=](const Case& what) -> Result<std::unique_ptr<Subject>> {
    const Bytes stride = (what.bytes + 4095) / 4096 * 4096;
    auto memory = Mapping::shared(sizeof(ChunkLines) + stride * places);
    if (!memory) return Unexpected(memory.error());
    return std::make_unique<ChunkLimit>(std::move(*memory), what.bytes, receiver_copies);
  };
  return {.name = std::move(name),
          .make = make,
          .buffers = places + 2,
          .most_bytes = kMostMemory / places};
}

}  // namespace

std::vector<SubjectKind> chunk_limits() {
  std::vector<SubjectKind> all;
  for (const unsigned places : kPlaces)
    all.push_back(chunk_limit(fmt::format("limit/chunks-into-{}", places), places, false));
  all.push_back(chunk_limit("limit/receiver-copies", 1, true));
  return all;
}

}  // namespace gantry::bench
