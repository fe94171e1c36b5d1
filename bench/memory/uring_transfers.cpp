// Reading a file by io_uring: into blocks of a pool that the ring knows, into memory that it does
// not know, and into memory that it is told of each time. Writing one: from one's own blocks, and
// from received messages.

#include "transfer_source.hpp"
#include "transfers.hpp"

#ifdef GANTRY_HAVE_LIBURING
#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gantry/memory.hpp>
#include <gantry/runtime.hpp>

#include "../support/system/mapping.hpp"
#endif

namespace gantry::bench {
namespace {

constexpr std::string_view kCached = "uring-read";
constexpr std::string_view kDirect = "uring-read-direct";
constexpr std::string_view kWriteCached = "uring-write";
constexpr std::string_view kWriteDirect = "uring-write-direct";

#ifdef GANTRY_HAVE_LIBURING

constexpr Bytes kFileBytes = Bytes{64} << 20;
constexpr unsigned kRingEntries = 4;

Result<void> fill(const Descriptor& file) {
  const auto content = Mapping::resident(Bytes{1} << 20);
  if (!content) return Unexpected(content.error());
  for (Bytes written = 0; written < kFileBytes; written += content->bytes().size())
    if (const auto done = write_all(file.get(), content->bytes()); !done) return done;
  return {};
}

/// A file of kFileBytes without a name, in the page cache; `flags` for using it.
Result<Descriptor> make_file(const std::string& directory, int flags) {
  std::string name = directory + "/XXXXXX";
  Descriptor file(::mkstemp(name.data()));
  if (!file.is_open()) return Unexpected(system_error(name));
  Descriptor used(::open(name.c_str(), O_RDWR | O_CLOEXEC | flags));
  const int error = errno;
  ::unlink(name.c_str());
  if (!used.is_open())
    return Unexpected(system_error("opening a file in the temporary directory", error));
  if (const auto filled = fill(file); !filled) return Unexpected(filled.error());
  ::fdatasync(file.get());  // or the readers would wait for the writing
  return used;
}

/// The same in memory alone: no disk writes behind the one who is timed.
Result<Descriptor> make_memory_file() {
  Descriptor file(::memfd_create("gantry-bench", MFD_CLOEXEC));
  if (!file.is_open()) return Unexpected(system_error("memfd_create"));
  if (const auto filled = fill(file); !filled) return Unexpected(filled.error());
  return file;
}

class Ring {
 public:
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (is_open_) ::io_uring_queue_exit(&ring_);
  }
  Result<void> open() {
    const int failed = ::io_uring_queue_init(kRingEntries, &ring_, 0);
    if (failed < 0) return Unexpected(system_error("io_uring", -failed));
    is_open_ = true;
    return {};
  }
  [[nodiscard]] int descriptor() const noexcept { return ring_.ring_fd; }

  /// Reads all of `bytes`; `slot`: the fixed buffer it lies in, -1: none.
  Result<void> read(int file, ByteSpan bytes, Bytes offset, int slot) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    const auto size = static_cast<unsigned>(bytes.size());
    if (slot < 0) ::io_uring_prep_read(entry, file, bytes.data(), size, offset);
    if (slot >= 0) ::io_uring_prep_read_fixed(entry, file, bytes.data(), size, offset, slot);
    return complete("reading", size);
  }
  /// The same for writing.
  Result<void> write(int file, ConstByteSpan bytes, Bytes offset, int slot) {
    io_uring_sqe* const entry = ::io_uring_get_sqe(&ring_);
    const auto size = static_cast<unsigned>(bytes.size());
    if (slot < 0) ::io_uring_prep_write(entry, file, bytes.data(), size, offset);
    if (slot >= 0) ::io_uring_prep_write_fixed(entry, file, bytes.data(), size, offset, slot);
    return complete("writing", size);
  }

 private:
  Result<void> complete(std::string_view what, unsigned size) {
    if (const int done = ::io_uring_submit_and_wait(&ring_, 1); done < 0)
      return Unexpected(system_error("io_uring_submit_and_wait", -done));
    io_uring_cqe* completion = nullptr;
    ::io_uring_wait_cqe(&ring_, &completion);
    const int got = completion->res;
    ::io_uring_cqe_seen(&ring_, completion);
    if (got == static_cast<int>(size)) return {};
    if (got < 0) return Unexpected(system_error(fmt::format("{} by io_uring", what), -got));
    return Unexpected({Code::system, fmt::format("{} by io_uring: {} of {}", what, got, size), ""});
  }

  io_uring ring_{};
  bool is_open_ = false;
};

/// Reads the file piece by piece, again and again.
class Reading final : public Runner {
 public:
  Result<void> open(std::string_view subject, const std::string& directory, int flags,
                    Bytes bytes) {
    bytes_ = bytes;
    auto file = make_file(directory, flags);
    if (!file) return Unexpected(file.error());
    file_ = std::move(*file);
    if (const auto opened = ring_.open(); !opened) return opened;
    RegistrarSetup setup;
    setup.ring_descriptor = ring_.descriptor();
    auto registrar = make_registrar(RegistrarKind::uring, setup);
    if (!registrar) return Unexpected(registrar.error());
    return memory_.open(subject, bytes, std::move(*registrar));
  }

  Result<double> run(std::uint64_t trips) override {
    return memory_.time(trips, [this](ByteSpan into, const DeviceKey* key) {
      const Bytes offset = next_;
      next_ = (next_ + bytes_) % kFileBytes;
      return ring_.read(file_.get(), into, offset,
                        key == nullptr ? -1 : static_cast<int>(key->key));
    });
  }

 private:
  Bytes bytes_ = 0;
  Bytes next_ = 0;
  Descriptor file_;
  Ring ring_;
  TransferMemory memory_;  // ends before the ring that knows it does
};

/// Writes the file piece by piece, again and again.
class Writing final : public Runner {
 public:
  Result<void> open(std::string_view subject, const std::string& directory, bool is_direct,
                    Bytes bytes) {
    bytes_ = bytes;
    auto file = is_direct ? make_file(directory, O_DIRECT) : make_memory_file();
    if (!file) return Unexpected(file.error());
    file_ = std::move(*file);
    if (const auto opened = ring_.open(); !opened) return opened;
    RegistrarSetup setup;
    setup.ring_descriptor = ring_.descriptor();
    auto registrar = make_registrar(RegistrarKind::uring, setup);
    if (!registrar) return Unexpected(registrar.error());
    return source_.open(subject, bytes, std::move(*registrar), directory);
  }

  Result<double> run(std::uint64_t trips) override {
    return source_.time(trips, [this](ConstByteSpan from, const DeviceKey* key) {
      const Bytes offset = next_;
      next_ = (next_ + bytes_) % kFileBytes;
      return ring_.write(file_.get(), from, offset,
                         key == nullptr ? -1 : static_cast<int>(key->key));
    });
  }

 private:
  Bytes bytes_ = 0;
  Bytes next_ = 0;
  Descriptor file_;
  Ring ring_;
  TransferSource source_;  // ends before the ring that knows it does
};

OpenTransfer writer(const std::string& directory, bool is_direct) {
  return [=](std::string_view subject, Bytes bytes) -> Result<std::unique_ptr<Runner>> {
    auto writing = std::make_unique<Writing>();
    const auto opened = writing->open(subject, directory, is_direct, bytes);
    if (!opened) return Unexpected(opened.error());
    return writing;
  };
}

OpenTransfer opener(const std::string& directory, int flags) {
  return [=](std::string_view subject, Bytes bytes) -> Result<std::unique_ptr<Runner>> {
    auto reading = std::make_unique<Reading>();
    const auto opened = reading->open(subject, directory, flags, bytes);
    if (!opened) return Unexpected(opened.error());
    return reading;
  };
}

#else

constexpr int O_DIRECT = 0;
OpenTransfer opener(const std::string&, int) {
  return no_transfer("liburing was not there when this was built");
}
OpenTransfer writer(const std::string&, bool) {
  return no_transfer("liburing was not there when this was built");
}

#endif

}  // namespace

std::vector<Contest> uring_contests(const Settings& settings) {
  const std::vector<std::string_view> subjects = {kPoolReuse, kUnregistered, kRegisterEachTransfer};
  const std::vector<std::string_view> sources = {kOwnBlock, kOwnByAddress, kReceivedMessage};
  std::vector<Contest> all;
  const auto add = [&](std::string_view name, const auto& who, const OpenTransfer& open) {
    for (Contest& contest : transfer_contests(settings, name, who, open))
      all.push_back(std::move(contest));
  };
  add(kCached, subjects, opener(settings.directory, 0));
  add(kDirect, subjects, opener(settings.directory, O_DIRECT));
  add(kWriteCached, sources, writer(settings.directory, false));
  add(kWriteDirect, sources, writer(settings.directory, true));
  return all;
}

}  // namespace gantry::bench
