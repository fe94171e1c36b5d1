// cpu-sync-fresh: as cpu-sync, but with memory that is new for every message: both sides map it,
// pay for its pages by faults as they copy, and give it back.

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "shared_memory.hpp"
#include "subjects.hpp"

namespace gantry::bench {
namespace {

struct Header {
  Flag request;
  Flag reply;
  std::uint64_t sum = 0;  // written before `reply` is raised
};

/// What the ends share: flags that stay, and a file whose pages do not.
struct Area {
  Header& header;
  int file;
  Case what;
};

class FreshRequester final : public Requester {
 public:
  explicit FreshRequester(Area area) : area_(std::move(area)) {}

  Result<void> send(const Payload& payload) override {
    if (::ftruncate(area_.file, static_cast<off_t>(area_.what.bytes)) != 0)
      return Unexpected(system_error("ftruncate"));
    const auto mapping = Mapping::of_file(area_.file, area_.what.bytes);
    if (!mapping) return Unexpected(mapping.error());
    std::byte* to = mapping->bytes().data();
    for (const ConstByteSpan part : parts_of(area_.what, payload.bytes())) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
    raise(area_.header.request, ++trip_);
    return {};
  }

  Result<std::uint64_t> receive() override {
    await(area_.header.reply, trip_);
    if (::ftruncate(area_.file, 0) != 0) return Unexpected(system_error("ftruncate"));
    return area_.header.sum;
  }

 private:
  Area area_;
  std::uint64_t trip_ = 0;
};

class FreshResponder final : public Responder {
 public:
  explicit FreshResponder(Area area) : area_(std::move(area)), mine_(area_.what.bytes) {}

  Result<std::uint64_t> receive() override {
    await(area_.header.request, ++trip_);
    const auto mapping = Mapping::of_file(area_.file, area_.what.bytes);
    if (!mapping) return Unexpected(mapping.error());
    std::memcpy(mine_.bytes().data(), mapping->bytes().data(), mine_.bytes().size());
    return checksum(mine_.bytes());
  }

  Result<void> reply(std::uint64_t sum) override {
    area_.header.sum = sum;
    raise(area_.header.reply, trip_);
    return {};
  }

 private:
  Area area_;
  Buffer mine_;
  std::uint64_t trip_ = 0;
};

class CpuSyncFresh final : public Subject {
 public:
  CpuSyncFresh(Mapping flags, Descriptor file, Case what)
      : flags_(std::move(flags)), file_(std::move(file)), what_(std::move(what)) {
    new (flags_.bytes().data()) Header;
  }

  Result<std::unique_ptr<Requester>> open_requester() override {
    return std::make_unique<FreshRequester>(area());
  }
  Result<std::unique_ptr<Responder>> open_responder(int) override {
    return std::make_unique<FreshResponder>(area());
  }

 private:
  [[nodiscard]] Area area() const {
    return {*reinterpret_cast<Header*>(flags_.bytes().data()), file_.get(), what_};
  }

  Mapping flags_;
  Descriptor file_;
  Case what_;
};

Result<std::unique_ptr<Subject>> make(const Case& size) {
  auto flags = Mapping::shared(sizeof(Header));
  if (!flags) return Unexpected(flags.error());
  Descriptor file(::memfd_create("gantry-bench-fresh", MFD_CLOEXEC));
  if (!file.is_open()) return Unexpected(system_error("memfd_create"));
  return std::make_unique<CpuSyncFresh>(std::move(*flags), std::move(file), size);
}

}  // namespace

SubjectKind cpu_sync_fresh() {
  return {.name = kCpuSyncFreshName, .make = make, .buffers = 3};
}

}  // namespace gantry::bench
