// What people write by hand: copy into shared memory, raise a flag, copy out, read. Both sides
// poll; the memory is made once, touched once and reused, so this is the best form of it.

#include <cstring>
#include <new>

#include "shared_memory.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

/// The beginning of the shared memory; the payload follows it.
struct Header {
  Flag request;
  Flag reply;
  std::uint64_t checksum = 0;  // written before `reply` is raised
};

struct Area {
  Header& header;
  ByteSpan payload;

  explicit Area(const SharedMemory& memory)
      : header(*reinterpret_cast<Header*>(memory.bytes().data())),
        payload(memory.bytes().subspan(sizeof(Header))) {}
};

class ShmRequester final : public Requester {
 public:
  explicit ShmRequester(const Area& area) : area_(area) {
    std::memset(area_.payload.data(), 1, area_.payload.size());  // brings the pages in
  }

  Result<std::uint64_t> round_trip(const Payload& payload) override {
    std::memcpy(area_.payload.data(), payload.bytes().data(), payload.bytes().size());
    raise(area_.header.request, ++trip_);
    await(area_.header.reply, trip_);
    return area_.header.checksum;
  }

 private:
  Area area_;
  std::uint64_t trip_ = 0;
};

class ShmResponder final : public Responder {
 public:
  explicit ShmResponder(const Area& area) : area_(area), mine_(area.payload.size()) {
    std::memcpy(mine_.bytes().data(), area_.payload.data(), mine_.bytes().size());  // touch both
  }

  Result<void> serve() override {
    await(area_.header.request, ++trip_);
    std::memcpy(mine_.bytes().data(), area_.payload.data(), mine_.bytes().size());
    area_.header.checksum = checksum(mine_.bytes());
    raise(area_.header.reply, trip_);
    return {};
  }

 private:
  Area area_;
  Buffer mine_;
  std::uint64_t trip_ = 0;
};

class ShmTwoCopies final : public Subject {
 public:
  explicit ShmTwoCopies(SharedMemory memory) : memory_(std::move(memory)) {
    new (memory_.bytes().data()) Header;
  }

  Result<std::unique_ptr<Requester>> open_requester() override {
    return std::make_unique<ShmRequester>(Area(memory_));
  }
  Result<std::unique_ptr<Responder>> open_responder() override {
    return std::make_unique<ShmResponder>(Area(memory_));
  }

 private:
  SharedMemory memory_;
};

Result<std::unique_ptr<Subject>> make(const Case& size) {
  auto memory = SharedMemory::create(sizeof(Header) + size.bytes);
  if (!memory) return Unexpected(memory.error());
  return std::make_unique<ShmTwoCopies>(std::move(*memory));
}

}  // namespace

SubjectKind shm_two_copies() {
  return {.name = kShmTwoCopiesName, .make = make, .buffers = 3};
}

}  // namespace gantry::bench
