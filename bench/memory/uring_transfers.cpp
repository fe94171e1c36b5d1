// Reading a file by io_uring: into blocks of a pool that the ring knows, into memory that it does
// not know, and into memory that it is told of each time.

#include "transfers.hpp"

#ifdef GANTRY_HAVE_LIBURING
#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <unistd.h>

#include <gantry/memory.hpp>
#include <gantry/registrars.hpp>

#include "resident.hpp"
#endif

namespace gantry::bench {
namespace {

constexpr std::string_view kCached = "uring-read";
constexpr std::string_view kDirect = "uring-read-direct";

#ifdef GANTRY_HAVE_LIBURING

constexpr Bytes kFileBytes = Bytes{64} << 20;
constexpr unsigned kRingEntries = 4;

/// A file of kFileBytes without a name, in the page cache; `flags` for reading it.
Result<Descriptor> make_file(const std::string& directory, int flags) {
  std::string name = directory + "/XXXXXX";
  Descriptor file(::mkstemp(name.data()));
  if (!file.is_open()) return Unexpected(system_error(name));
  Descriptor reading(::open(name.c_str(), O_RDONLY | O_CLOEXEC | flags));
  const int error = errno;
  ::unlink(name.c_str());
  if (!reading.is_open())
    return Unexpected(system_error("opening a file in the temporary directory", error));
  const auto content = Mapping::create(Bytes{1} << 20);
  if (!content) return Unexpected(content.error());
  for (Bytes written = 0; written < kFileBytes; written += content->bytes().size())
    if (const auto done = write_all(file.get(), content->bytes()); !done)
      return Unexpected(done.error());
  ::fdatasync(file.get());  // or the readers would wait for the writing
  return reading;
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
    if (const int done = ::io_uring_submit_and_wait(&ring_, 1); done < 0)
      return Unexpected(system_error("io_uring_submit_and_wait", -done));
    io_uring_cqe* completion = nullptr;
    ::io_uring_wait_cqe(&ring_, &completion);
    const int got = completion->res;
    ::io_uring_cqe_seen(&ring_, completion);
    if (got == static_cast<int>(size)) return {};
    if (got < 0) return Unexpected(system_error("reading by io_uring", -got));
    return Unexpected({Code::system, fmt::format("reading by io_uring: {} of {}", got, size), ""});
  }

 private:
  io_uring ring_{};
  bool is_open_ = false;
};

/// Reads the file piece by piece, again and again.
class Reading : public Runner {
 public:
  Result<void> open(const std::string& directory, int flags, Bytes bytes) {
    bytes_ = bytes;
    auto file = make_file(directory, flags);
    if (!file) return Unexpected(file.error());
    file_ = std::move(*file);
    if (const auto opened = ring_.open(); !opened) return opened;
    RegistrarSetup setup;
    setup.ring_descriptor = ring_.descriptor();
    auto registrar = make_registrar(RegistrarKind::uring, setup);
    if (!registrar) return Unexpected(registrar.error());
    registrar_ = std::move(*registrar);
    auto pool = make_pool();
    if (!pool) return Unexpected(pool.error());
    pool_ = std::move(*pool);
    return {};
  }

  Result<double> run(std::uint64_t trips) override {
    const auto begin = std::chrono::steady_clock::now();
    for (std::uint64_t trip = 0; trip < trips; ++trip) {
      const auto block = pool_->allocate(bytes_);
      if (!block) return Unexpected(block.error());
      if (const auto done = read_into(*block); !done) return Unexpected(done.error());
    }
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::nano>(end - begin).count() /
           static_cast<double>(trips);
  }

 protected:
  virtual Result<std::optional<Pool>> make_pool() { return transfer_pool({}); }
  virtual Result<void> read_into(const Block& block) = 0;

  Result<void> read(ByteSpan bytes, int slot) {
    const Bytes offset = next_;
    next_ = (next_ + bytes_) % kFileBytes;
    return ring_.read(file_.get(), bytes, offset, slot);
  }
  [[nodiscard]] const std::shared_ptr<Registrar>& registrar() const noexcept { return registrar_; }

 private:
  Bytes bytes_ = 0;
  Bytes next_ = 0;
  Descriptor file_;
  Ring ring_;
  std::shared_ptr<Registrar> registrar_;  // ends before its ring does
  std::optional<Pool> pool_;
};

class PoolReading final : public Reading {
 protected:
  Result<std::optional<Pool>> make_pool() override { return transfer_pool({registrar()}); }
  Result<void> read_into(const Block& block) override {
    const auto key = block.key_for(*registrar());
    if (!key) return Unexpected(key.error());
    return read(block.bytes(), static_cast<int>(key->key));
  }
};

class PlainReading final : public Reading {
 protected:
  Result<void> read_into(const Block& block) override { return read(block.bytes(), -1); }
};

class EachTimeReading final : public Reading {
 protected:
  Result<void> read_into(const Block& block) override {
    const auto registration = registrar()->enroll(block.bytes());
    if (!registration) return Unexpected(registration.error());
    const auto key = registration->key();
    if (!key) return Unexpected(key.error());
    return read(block.bytes(), static_cast<int>(key->key));
  }
};

std::unique_ptr<Reading> reading_of(std::string_view subject) {
  if (subject == kPoolReuse) return std::make_unique<PoolReading>();
  if (subject == kUnregistered) return std::make_unique<PlainReading>();
  return std::make_unique<EachTimeReading>();
}

OpenTransfer opener(const std::string& directory, int flags) {
  return [=](std::string_view subject, Bytes bytes) -> Result<std::unique_ptr<Runner>> {
    auto reading = reading_of(subject);
    const auto opened = reading->open(directory, flags, bytes);
    if (!opened) return Unexpected(opened.error());
    return reading;
  };
}

#else

constexpr int O_DIRECT = 0;
OpenTransfer opener(const std::string&, int) {
  return no_transfer("liburing was not there when this was built");
}

#endif

}  // namespace

std::vector<Contest> uring_contests(const Settings& settings) {
  const std::vector<std::string_view> subjects = {kPoolReuse, kUnregistered, kRegisterEachTransfer};
  auto all = transfer_contests(settings, kCached, subjects, opener(settings.directory, 0));
  for (Contest& contest :
       transfer_contests(settings, kDirect, subjects, opener(settings.directory, O_DIRECT)))
    all.push_back(std::move(contest));
  return all;
}

}  // namespace gantry::bench
