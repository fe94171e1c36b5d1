// Boost.Interprocess. `queue`: its message_queue, which copies in and out under a lock. `memory`: a
// shared memory object and semaphores; copied in, read in place. Both ends try again and again.

#include <boost/interprocess/ipc/message_queue.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <boost/interprocess/shared_memory_object.hpp>
#include <boost/interprocess/sync/interprocess_semaphore.hpp>
#include <boost/version.hpp>
#include <cstring>
#include <new>

#include "peer.hpp"

namespace gantry::bench {
namespace {

namespace ipc = boost::interprocess;
constexpr unsigned kMostInFlight = 4;
constexpr unsigned kMostReaders = 4;

/// A name in /dev/shm: that of the case's folder, which is ours alone.
std::string name_of(const Assignment& told, const char* end) {
  const auto& folder = told.what.directory;
  return folder.substr(folder.rfind('/') + 1) + end;
}

Error boost_error(const ipc::interprocess_exception& problem) {
  return peer_error("Boost.Interprocess", problem.what());
}

// ---- message_queue ----

using Queue = std::unique_ptr<ipc::message_queue>;

void put(ipc::message_queue& queue, ConstByteSpan bytes, const Poll& poll) {
  while (!queue.try_send(bytes.data(), bytes.size(), 0)) poll.again();
}

void take(ipc::message_queue& queue, ByteSpan bytes, const Poll& poll) {
  ipc::message_queue::size_type size = 0;
  unsigned priority = 0;
  while (!queue.try_receive(bytes.data(), bytes.size(), size, priority)) poll.again();
}

struct Queues {
  Queue requests;
  Queue replies;
};

Queues make_queues(const Assignment& told) {
  const auto requests = name_of(told, "-requests");
  const auto replies = name_of(told, "-replies");
  const std::size_t count = told.what.in_flight * told.what.segments.size();
  return {std::make_unique<ipc::message_queue>(ipc::create_only, requests.c_str(), count,
                                               told.what.largest_segment()),
          std::make_unique<ipc::message_queue>(ipc::create_only, replies.c_str(),
                                               told.what.in_flight, sizeof(std::uint64_t))};
}

/// Opens them and takes their names away: whoever dies from here on leaves nothing.
Queues open_queues(const Assignment& told) {
  const auto requests = name_of(told, "-requests");
  const auto replies = name_of(told, "-replies");
  Queues queues{std::make_unique<ipc::message_queue>(ipc::open_only, requests.c_str()),
                std::make_unique<ipc::message_queue>(ipc::open_only, replies.c_str())};
  ipc::message_queue::remove(requests.c_str());
  ipc::message_queue::remove(replies.c_str());
  return queues;
}

class QueueRequester final : public Requester {
 public:
  explicit QueueRequester(const Assignment& told) : what_(told.what), queues_(make_queues(told)) {}

  Result<void> send(const Payload& payload) override {
    for (const ConstByteSpan part : parts_of(what_, payload.bytes()))
      put(*queues_.requests, part, Poll(what_));
    return {};
  }
  Result<std::uint64_t> receive() override {
    std::uint64_t sum = 0;
    take(*queues_.replies, std::as_writable_bytes(std::span(&sum, 1)), Poll(what_));
    return sum;
  }

 private:
  Case what_;
  Queues queues_;
};

class QueueResponder final : public Responder {
 public:
  explicit QueueResponder(const Assignment& told)
      : what_(told.what), queues_(open_queues(told)), mine_(what_.largest_segment()) {}

  Result<std::uint64_t> receive() override {
    std::uint64_t sum = 0;
    for (const Bytes size : what_.segments) {
      take(*queues_.requests, mine_.bytes(), Poll(what_));  // the largest, as the queue demands
      sum += checksum(mine_.bytes().first(size));
    }
    return sum;
  }
  Result<void> reply(std::uint64_t sum) override {
    put(*queues_.replies, std::as_bytes(std::span(&sum, 1)), Poll(what_));
    return {};
  }

 private:
  Case what_;
  Queues queues_;
  Buffer mine_;
};

// ---- shared memory and semaphores ----

struct Reader {
  alignas(64) ipc::interprocess_semaphore requests{0};
  alignas(64) ipc::interprocess_semaphore replies{0};
  std::array<std::uint64_t, kMostInFlight> sums{};
};

/// The beginning of the shared memory; a place for each message in flight follows it.
struct Header {
  std::array<Reader, kMostReaders> readers;
};

void wait(ipc::interprocess_semaphore& semaphore, const Poll& poll) {
  while (!semaphore.try_wait()) poll.again();
}

class Area {
 public:
  Area(const Assignment& told, bool creates) : what_(told.what) {
    const std::string name = name_of(told, "-memory");
    if (creates) {
      ipc::shared_memory_object memory(ipc::create_only, name.c_str(), ipc::read_write);
      memory.truncate(static_cast<ipc::offset_t>(kHeaderBytes + what_.bytes * what_.in_flight));
      region_ = ipc::mapped_region(memory, ipc::read_write);
      new (region_.get_address()) Header;
      std::memset(place(0), 1, what_.bytes * what_.in_flight);  // brings the pages in
    } else {
      const ipc::shared_memory_object memory(ipc::open_only, name.c_str(), ipc::read_write);
      region_ = ipc::mapped_region(memory, ipc::read_write);
    }
  }

  [[nodiscard]] const Case& what() const { return what_; }
  [[nodiscard]] std::byte* place(std::uint64_t message) const {
    return static_cast<std::byte*>(region_.get_address()) + kHeaderBytes +
           message % what_.in_flight * what_.bytes;
  }
  [[nodiscard]] Reader& reader(std::size_t number) const {
    return static_cast<Header*>(region_.get_address())->readers[number];
  }

 private:
  static constexpr Bytes kHeaderBytes = 4096;
  static_assert(sizeof(Header) <= kHeaderBytes);
  Case what_;
  ipc::mapped_region region_;
};

class MemoryRequester final : public Requester {
 public:
  explicit MemoryRequester(const Assignment& told) : area_(told, true) {}

  Result<void> send(const Payload& payload) override {
    std::byte* to = area_.place(sent_++);
    for (const ConstByteSpan part : parts_of(area_.what(), payload.bytes())) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
    for (unsigned i = 0; i < area_.what().readers; ++i) area_.reader(i).requests.post();
    return {};
  }
  Result<std::uint64_t> receive() override {
    Reader& from = area_.reader(reader_);
    wait(from.replies, Poll(area_.what()));
    const std::uint64_t sum = from.sums[answered_ % kMostInFlight];
    reader_ = (reader_ + 1) % area_.what().readers;
    if (reader_ == 0) ++answered_;
    return sum;
  }

 private:
  Area area_;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  std::size_t reader_ = 0;  // whose answer is next
};

class MemoryResponder final : public Responder {
 public:
  explicit MemoryResponder(const Assignment& told)
      : area_(told, false), mine_(area_.reader(static_cast<std::size_t>(told.post.reader))) {
    static_cast<void>(checksum({area_.place(0), area_.what().bytes * area_.what().in_flight}));
  }

  Result<std::uint64_t> receive() override {
    wait(mine_.requests, Poll(area_.what()));
    return checksum({area_.place(received_++), area_.what().bytes});
  }
  Result<void> reply(std::uint64_t sum) override {
    mine_.sums[(received_ - 1) % kMostInFlight] = sum;
    mine_.replies.post();
    return {};
  }

 private:
  Area area_;
  Reader& mine_;
  std::uint64_t received_ = 0;
};

// ---- both ----

/// The requester makes, the readers open, the requester goes on once all have.
Result<std::unique_ptr<Requester>> open_requester(const Assignment& told) try {
  std::unique_ptr<Requester> end;
  if (told.variant == "queue")
    end = std::make_unique<QueueRequester>(told);
  else
    end = std::make_unique<MemoryRequester>(told);
  for (const int socket : told.sockets)
    if (auto said = signal_over(socket); !said) return Unexpected(said.error());
  for (const int socket : told.sockets)
    if (auto heard = await_over(socket); !heard) return Unexpected(heard.error());
  ipc::shared_memory_object::remove(name_of(told, "-memory").c_str());
  return end;
} catch (const ipc::interprocess_exception& problem) {
  return Unexpected(boost_error(problem));
}

Result<std::unique_ptr<Responder>> open_responder(const Assignment& told) try {
  if (auto heard = await_over(told.sockets.front()); !heard) return Unexpected(heard.error());
  std::unique_ptr<Responder> end;
  if (told.variant == "queue")
    end = std::make_unique<QueueResponder>(told);
  else
    end = std::make_unique<MemoryResponder>(told);
  if (auto said = signal_over(told.sockets.front()); !said) return Unexpected(said.error());
  return end;
} catch (const ipc::interprocess_exception& problem) {
  return Unexpected(boost_error(problem));
}

Result<std::string> version() {
  return version_text("Boost " + std::to_string(BOOST_VERSION / 100000) + "." +
                          std::to_string(BOOST_VERSION / 100 % 1000),
                      nullptr);
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  return run_peer(argc, argv, {open_requester, open_responder, version});
}
