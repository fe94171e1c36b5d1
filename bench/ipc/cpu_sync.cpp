// cpu-sync: what people write by hand. Copied into shared memory by the CPU, a flag, copied out,
// read, one after another. All sides poll; the memory is made once, touched once and reused, so
// this is the best form of it.

#include <array>
#include <cstring>
#include <new>

#include "shared_memory.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kMostInFlight = 4;
constexpr unsigned kMostReaders = 4;

/// The beginning of the shared memory; a place for each message in flight follows it.
struct Header {
  Flag request;
  std::array<std::array<Flag, kMostInFlight>, kMostReaders> replies;
};

struct Area {
  Header& header;
  ByteSpan places;
  Case what;

  Area(const Mapping& memory, const Case& size)
      : header(*reinterpret_cast<Header*>(memory.bytes().data())),
        places(memory.bytes().subspan(sizeof(Header))),
        what(size) {}

  /// Where message number `trip` lies, counted from 1.
  [[nodiscard]] ByteSpan place(std::uint64_t trip) const {
    return places.subspan((trip - 1) % what.in_flight * what.bytes, what.bytes);
  }
  [[nodiscard]] unsigned yields_after() const { return what.crowded ? 1 : kPollsPerYield; }
  [[nodiscard]] Flag& reply(unsigned reader, std::uint64_t trip) const {
    return header.replies[reader][(trip - 1) % what.in_flight];
  }
};

class CpuSyncRequester final : public Requester {
 public:
  explicit CpuSyncRequester(Area area) : area_(std::move(area)) {
    std::memset(area_.places.data(), 1, area_.places.size());  // brings the pages in
  }

  Result<void> send(const Payload& payload) override {
    std::byte* to = area_.place(++sent_).data();
    for (const ConstByteSpan part : parts_of(area_.what, payload.bytes())) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
    raise(area_.header.request, sent_);
    return {};
  }

  Result<std::uint64_t> receive() override {
    const Flag& reply = area_.reply(reader_, answered_ + 1);
    await_at_least(reply, answered_ + 1, area_.yields_after());
    const std::uint64_t sum = reply.sum;
    reader_ = (reader_ + 1) % area_.what.readers;
    if (reader_ == 0) ++answered_;
    return sum;
  }

 private:
  Area area_;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  unsigned reader_ = 0;  // whose answer is next
};

class CpuSyncResponder final : public Responder {
 public:
  CpuSyncResponder(Area area, unsigned reader)
      : area_(std::move(area)), reader_(reader), mine_(area_.what.bytes) {
    for (unsigned trip = 1; trip <= area_.what.in_flight; ++trip)
      std::memcpy(mine_.bytes().data(), area_.place(trip).data(), mine_.bytes().size());  // touched
  }

  Result<std::uint64_t> receive() override {
    await_at_least(area_.header.request, ++trip_, area_.yields_after());
    std::memcpy(mine_.bytes().data(), area_.place(trip_).data(), mine_.bytes().size());
    return checksum(mine_.bytes());
  }

  Result<void> reply(std::uint64_t sum) override {
    Flag& mine = area_.reply(reader_, trip_);
    mine.sum = sum;
    raise(mine, trip_);
    return {};
  }

 private:
  Area area_;
  unsigned reader_;
  Buffer mine_;
  std::uint64_t trip_ = 0;
};

class CpuSync final : public Subject {
 public:
  CpuSync(Mapping memory, Case what) : memory_(std::move(memory)), what_(std::move(what)) {
    new (memory_.bytes().data()) Header;
  }

  Result<std::unique_ptr<Requester>> open_requester() override {
    return std::make_unique<CpuSyncRequester>(Area(memory_, what_));
  }
  Result<std::unique_ptr<Responder>> open_responder(int reader) override {
    return std::make_unique<CpuSyncResponder>(Area(memory_, what_), static_cast<unsigned>(reader));
  }

 private:
  Mapping memory_;
  Case what_;
};

Result<std::unique_ptr<Subject>> make(const Case& size) {
  auto memory = Mapping::shared(sizeof(Header) + size.bytes * size.in_flight);
  if (!memory) return Unexpected(memory.error());
  return std::make_unique<CpuSync>(std::move(*memory), size);
}

}  // namespace

SubjectKind cpu_sync() {
  return {.name = kCpuSyncName,
          .make = make,
          .buffers = 3,
          .most_in_flight = kMostInFlight,
          .most_readers = kMostReaders};
}

}  // namespace gantry::bench
